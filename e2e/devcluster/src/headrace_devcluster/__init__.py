"""An embedded, real, single-node Kubernetes for development, tests and the demo."""


from headrace_devcluster.layout import DEFAULT_NAME

__all__ = ["DEFAULT_NAME"]
