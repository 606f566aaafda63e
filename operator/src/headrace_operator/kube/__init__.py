"""The border to the Kubernetes API: the only package that imports `kubernetes`.

- `api`: what the operator needs of a cluster, as a protocol, with the errors that it may meet.
- `client`: the protocol on the official client.
"""
