"""An embedded, real, single-node Kubernetes for development, tests and the demo."""

from headrace_devcluster.cluster import Cluster
from headrace_devcluster.layout import DEFAULT_NAME
from headrace_devcluster.settings import Settings

__all__ = ["DEFAULT_NAME", "Cluster", "Settings"]
