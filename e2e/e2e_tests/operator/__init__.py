"""The operator against a real kube-apiserver and etcd; no kubelet, so tests play the node."""
