"""What runs on a node and how it is configured. Pure: addresses and paths in, text out.

Each component is an unchanged upstream program. The settings here are the few in which a
development cluster differs from a production one, each with its reason; all else is upstream's
default. Callers: `node` writes the files, `cluster` starts the components in this order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from headrace_devcluster.layout import API_PORT, CLUSTER_DOMAIN, NODE_NAME, Addresses, Layout

PAUSE_IMAGE = "registry.local/pause:1"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
ETCD_URL = "http://127.0.0.1:2379"
PODS_MAX = 64

IDENTITIES: dict[str, tuple[str, str]] = {
    "admin": ("admin", "system:masters"),
    "controllers": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "kubelet": (f"system:node:{NODE_NAME}", "system:nodes"),
    "proxy": ("system:kube-proxy", ""),
    "dns": ("headrace:dns", ""),
}
"""Who calls the API server: name of the credential -> user and group. The names that start with
``system:`` are those that Kubernetes itself binds its roles to."""


@dataclass(frozen=True, slots=True)
class Component:
    """One daemon of the node."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodePlan:
    """Everything that the configuration of a node depends on."""

    layout: Layout
    addresses: Addresses
    kube: Path
    """The program that holds every Kubernetes component."""

    def kubeconfig_of(self, identity: str) -> Path:
        """Where the kubeconfig of one of `IDENTITIES` is."""
        return self.layout.config / f"{identity}.kubeconfig"

    def pki(self, file: str) -> str:
        """Where a certificate or key is, as configuration files want it."""
        return str(self.layout.config / "pki" / file)


def build_kubeconfig(plan: NodePlan, token: str, ca_data: str) -> str:
    """A kubeconfig that carries all it needs, so that it can be copied anywhere on the host."""
    name = f"headrace-{plan.layout.name}"
    return dedent(f"""\
        apiVersion: v1
        kind: Config
        clusters:
        - name: {name}
          cluster:
            server: {plan.addresses.api_url}
            certificate-authority-data: {ca_data}
        users:
        - name: {name}
          user:
            token: {token}
        contexts:
        - name: {name}
          context: {{cluster: {name}, user: {name}}}
        current-context: {name}
        """)


def build_token_file(tokens: dict[str, str]) -> str:
    """Static tokens in the API server's format: token, user, user id, groups."""
    rows = []
    for identity, token in sorted(tokens.items()):
        user, group = IDENTITIES[identity]
        rows.append(f'{token},{user},{identity},"{group}"' if group else f"{token},{user},{user}")
    return "\n".join(rows) + "\n"


def build_containerd_config(plan: NodePlan) -> str:
    """Containerd's configuration: where things are, and what an unprivileged sandbox needs."""
    return dedent(f"""\
        version = 2
        root = "{plan.layout.containerd}"
        state = "/run/containerd"
        # The default, -999, needs a capability that containers and sandboxes often withhold.
        oom_score = 0
        [grpc]
          address = "{CONTAINERD_SOCKET}"
        [plugins."io.containerd.grpc.v1.cri"]
          sandbox_image = "{PAUSE_IMAGE}"
          restrict_oom_score_adj = true
          disable_apparmor = true
          [plugins."io.containerd.grpc.v1.cri".cni]
            bin_dir = "/usr/lib/cni"
            conf_dir = "{plan.layout.config}/cni"
          [plugins."io.containerd.grpc.v1.cri".containerd]
            snapshotter = "overlayfs"
            default_runtime_name = "runc"
            [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
              runtime_type = "io.containerd.runc.v2"
        """)


def build_cni_config(plan: NodePlan) -> str:
    """Pod network: a routed point-to-point link for each pod.

    Not a bridge: on one, the answer of a Service's pod would reach its caller without passing
    address translation again, unless the br_netfilter module is loaded.
    """
    return dedent(f"""\
        {{"cniVersion": "0.4.0", "name": "pods", "plugins": [
          {{"type": "ptp", "ipMasq": false,
           "ipam": {{"type": "host-local", "dataDir": "{plan.layout.data}/cni-addresses",
                    "ranges": [[{{"subnet": "{plan.addresses.pods}"}}]],
                    "routes": [{{"dst": "0.0.0.0/0"}}]}}}},
          {{"type": "portmap", "capabilities": {{"portMappings": true}}}}]}}
        """)


def build_kubelet_config(plan: NodePlan) -> str:
    """The kubelet's configuration.

    Nothing is evicted or collected: disks and memory belong to the developer. Restarts back off
    to 5 s rather than 5 min, since tests kill pods on purpose.
    """
    return dedent(f"""\
        apiVersion: kubelet.config.k8s.io/v1beta1
        kind: KubeletConfiguration
        cgroupDriver: cgroupfs
        cgroupRoot: /{plan.layout.cgroup}
        failSwapOn: false
        failCgroupV1: false
        containerRuntimeEndpoint: unix://{CONTAINERD_SOCKET}
        authentication:
          anonymous: {{enabled: false}}
          webhook: {{enabled: true}}
          x509: {{clientCAFile: {plan.pki("ca.crt")}}}
        authorization: {{mode: Webhook}}
        tlsCertFile: {plan.pki("kubelet.crt")}
        tlsPrivateKeyFile: {plan.pki("kubelet.key")}
        featureGates:
          KubeletInUserNamespace: true
          KubeletCrashLoopBackOffMax: true
        crashLoopBackOff: {{maxContainerRestartPeriod: 5s}}
        makeIPTablesUtilChains: false
        resolvConf: {plan.layout.config}/resolv.conf
        clusterDNS: ["{plan.addresses.dns_service}"]
        clusterDomain: {CLUSTER_DOMAIN}
        maxPods: {PODS_MAX}
        podLogsDir: {plan.layout.logs}/pods
        evictionHard:
          memory.available: "0%"
          nodefs.available: "0%"
          nodefs.inodesFree: "0%"
          imagefs.available: "0%"
          imagefs.inodesFree: "0%"
        imageGCHighThresholdPercent: 100
        imageGCLowThresholdPercent: 99
        localStorageCapacityIsolation: false
        nodeStatusUpdateFrequency: 5s
        syncFrequency: 10s
        volumePluginDir: {plan.layout.data}/volume-plugins
        """)


def build_corefile(plan: NodePlan) -> str:
    """CoreDNS's configuration: the cluster's own zone and nothing else."""
    return dedent(f"""\
        .:53 {{
          bind {plan.addresses.node}
          errors
          ready 127.0.0.1:8181
          kubernetes {CLUSTER_DOMAIN} in-addr.arpa {{
            kubeconfig {plan.kubeconfig_of("dns")}
            pods insecure
            ttl 5
          }}
        }}
        """)


def build_containerd(plan: NodePlan) -> Component:
    """The container runtime."""
    return Component("containerd", ("containerd", "-c", f"{plan.layout.config}/containerd.toml"))


def build_etcd(plan: NodePlan) -> Component:
    """The API server's database, for the node only."""
    kube = str(plan.kube)
    return Component(
        "etcd", (kube, "etcd", f"--data-dir={plan.layout.data}/etcd", f"--client-url={ETCD_URL}")
    )


def build_apiserver(plan: NodePlan) -> Component:
    """The API server, with tokens and RBAC as in a real cluster."""
    addresses = plan.addresses
    return Component(
        "apiserver",
        (
            str(plan.kube),
            "apiserver",
            f"--etcd-servers={ETCD_URL}",
            f"--secure-port={API_PORT}",
            "--bind-address=0.0.0.0",
            f"--advertise-address={addresses.node}",
            f"--service-cluster-ip-range={addresses.services}",
            f"--tls-cert-file={plan.pki('apiserver.crt')}",
            f"--tls-private-key-file={plan.pki('apiserver.key')}",
            f"--token-auth-file={plan.layout.config}/tokens.csv",
            "--anonymous-auth=false",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-certificate-authority={plan.pki('ca.crt')}",
            f"--kubelet-client-certificate={plan.pki('apiserver-kubelet.crt')}",
            f"--kubelet-client-key={plan.pki('apiserver-kubelet.key')}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
            f"--service-account-key-file={plan.pki('service-account.pub')}",
            f"--service-account-signing-key-file={plan.pki('service-account.key')}",
            "--allow-privileged=true",
            # One client at a time is the rule here, so fair queuing only costs processor time.
            "--enable-priority-and-fairness=false",
            "--profiling=false",
        ),
    )


def build_controllers(plan: NodePlan) -> Component:
    """Every controller that does not belong to a cloud."""
    return Component(
        "controllers",
        (
            str(plan.kube),
            "controllers",
            f"--kubeconfig={plan.kubeconfig_of('controllers')}",
            f"--root-ca-file={plan.pki('ca.crt')}",
            f"--service-account-private-key-file={plan.pki('service-account.key')}",
            "--use-service-account-credentials=true",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--controllers=*,-cloud-node-lifecycle-controller,-node-ipam-controller",
            "--profiling=false",
        ),
    )


def build_scheduler(plan: NodePlan) -> Component:
    """The scheduler."""
    return Component(
        "scheduler",
        (
            str(plan.kube),
            "scheduler",
            f"--kubeconfig={plan.kubeconfig_of('scheduler')}",
            "--bind-address=127.0.0.1",
            "--leader-elect=false",
            "--profiling=false",
        ),
    )


def build_kubelet(plan: NodePlan) -> Component:
    """The kubelet."""
    return Component(
        "kubelet",
        (
            str(plan.kube),
            "kubelet",
            f"--config={plan.layout.config}/kubelet.yaml",
            f"--kubeconfig={plan.kubeconfig_of('kubelet')}",
            f"--root-dir={plan.layout.data}/kubelet",
            f"--hostname-override={NODE_NAME}",
            f"--node-ip={plan.addresses.node}",
        ),
    )


def build_proxy(plan: NodePlan) -> Component:
    """kube-proxy; the zeros keep it from changing connection tracking for the whole machine."""
    return Component(
        "proxy",
        (
            str(plan.kube),
            "proxy",
            f"--kubeconfig={plan.kubeconfig_of('proxy')}",
            f"--hostname-override={NODE_NAME}",
            "--proxy-mode=iptables",
            f"--cluster-cidr={plan.addresses.pods}",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--iptables-min-sync-period=200ms",
        ),
    )


def build_dns(plan: NodePlan) -> Component:
    """CoreDNS, as a daemon of the node rather than as pods."""
    return Component("dns", (str(plan.kube), "dns", f"--conf={plan.layout.config}/Corefile"))


def build_config_files(plan: NodePlan, tokens: dict[str, str], ca_data: str) -> dict[Path, str]:
    """All configuration files of a node, by path; certificates are made elsewhere."""
    config = plan.layout.config
    files = {
        plan.kubeconfig_of(identity): build_kubeconfig(plan, token, ca_data)
        for identity, token in tokens.items()
    }
    files[plan.layout.kubeconfig] = files[plan.kubeconfig_of("admin")]
    files[config / "tokens.csv"] = build_token_file(tokens)
    files[config / "containerd.toml"] = build_containerd_config(plan)
    files[config / "cni" / "10-pods.conflist"] = build_cni_config(plan)
    files[config / "kubelet.yaml"] = build_kubelet_config(plan)
    files[config / "Corefile"] = build_corefile(plan)
    # Pods with dnsPolicy Default get this: no name server, since nothing outside is reachable.
    files[config / "resolv.conf"] = "options ndots:5\n"
    return files


def build_base_manifests(addresses: Addresses) -> str:
    """Objects that the cluster itself needs: its DNS Service and what CoreDNS may read."""
    return dedent(f"""\
        apiVersion: v1
        kind: Service
        metadata: {{name: kube-dns, namespace: kube-system, labels: {{k8s-app: kube-dns}}}}
        spec:
          clusterIP: {addresses.dns_service}
          ports:
          - {{name: dns, port: 53, protocol: UDP}}
          - {{name: dns-tcp, port: 53, protocol: TCP}}
        ---
        apiVersion: discovery.k8s.io/v1
        kind: EndpointSlice
        metadata:
          name: kube-dns
          namespace: kube-system
          labels: {{kubernetes.io/service-name: kube-dns}}
        addressType: IPv4
        ports:
        - {{name: dns, port: 53, protocol: UDP}}
        - {{name: dns-tcp, port: 53, protocol: TCP}}
        endpoints:
        - addresses: ["{addresses.node}"]
          conditions: {{ready: true}}
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRole
        metadata: {{name: "headrace:dns"}}
        rules:
        - apiGroups: [""]
          resources: [services, pods, namespaces]
          verbs: [list, watch]
        - apiGroups: [discovery.k8s.io]
          resources: [endpointslices]
          verbs: [list, watch]
        ---
        apiVersion: rbac.authorization.k8s.io/v1
        kind: ClusterRoleBinding
        metadata: {{name: "headrace:dns"}}
        roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "headrace:dns"}}
        subjects:
        - {{apiGroup: rbac.authorization.k8s.io, kind: User, name: "headrace:dns"}}
        """)
