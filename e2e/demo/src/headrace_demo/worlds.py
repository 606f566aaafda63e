"""A cluster with broker, S3 server and operator in it: embedded, or the user's own.

Both are context managers that remove what they made when the block ends, however it ends, and are
deaf to a second Ctrl-C meanwhile. After SIGKILL, ``headrace cluster down --name`` removes an
embedded one, and so does the next run.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from headrace_demo.errors import DemoFailedError
from headrace_demo.installation import Installation
from headrace_demo.kubernetes import forward
from headrace_demo.manifests import Images
from headrace_devcluster.cluster import Cluster, locate_cluster, take_down
from headrace_devcluster.external import check_external_cluster, use_external_cluster
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.manifests import KAFKA_HOST_PORT
from headrace_devcluster.progress import Progress
from headrace_devcluster.settings import Settings, find_kubeconfig

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class World:
    """What jobs run in."""

    kubectl: Kubectl
    namespace: str
    """Of servers and jobs."""

    images: Images
    servers: str
    """Bootstrap servers of the broker, for this process."""


@contextmanager
def embedded_world(
    name: str, namespace: str, settings: Settings, progress: Progress, *, keep: bool
) -> Iterator[World]:
    """Brings an embedded cluster up with everything in it; an earlier one of the name goes first.

    Args:
        name: Of the cluster.
        namespace: Of servers and jobs.
        settings: Where clusters are.
        progress: Shows the steps.
        keep: Leave the cluster up at the end.

    Raises:
        DemoFailedError: Another process uses this name.
        DevclusterError: The cluster could not be brought up.
    """
    layout = locate_cluster(name, settings)
    images = Images()
    with ExitStack() as stack:
        stack.enter_context(_only_one(name))
        if not keep:
            stack.callback(_clean_up, progress, "Removing the cluster", lambda: take_down(layout))
        if take_down(layout):
            progress.note(f"Removed an earlier cluster {name}")
        cluster = Cluster.up(name, settings, progress)
        installation = Installation(cluster.kubectl, namespace, images)
        # The largest image comes last: what was applied before starts meanwhile.
        cluster.load("kafka")
        cluster.load("minio")
        installation.install_servers()
        cluster.load("operator")
        installation.install_operator()
        cluster.load("runtime")
        with progress.step("Waiting for Kafka, MinIO and the operator"):
            installation.wait_until_ready()
        servers = f"{installation.find_pod_address('kafka')}:{KAFKA_HOST_PORT}"
        yield World(cluster.kubectl, namespace, images, servers)


@contextmanager
def external_world(
    namespace: str, images: Images, settings: Settings, progress: Progress, *, keep: bool
) -> Iterator[World]:
    """Installs everything on the cluster that KUBECONFIG names, next to what is there.

    Args:
        namespace: Of servers and jobs; must not exist.
        images: Where the cluster takes the project's images from.
        settings: Holds the environment.
        progress: Shows the steps.
        keep: Leave everything installed at the end.

    Raises:
        DemoFailedError: An operator or the namespace is there already.
        DevclusterError: The cluster cannot be used.
    """
    kubectl = use_external_cluster(find_kubeconfig(settings.environment), settings)
    version = check_external_cluster(kubectl)
    progress.note(f"Using the cluster of {kubectl.kubeconfig} (Kubernetes {version})")
    installation = Installation(kubectl, namespace, images)
    installation.check_is_free()
    with ExitStack() as stack:
        if not keep:
            title = "Removing what was installed"
            stack.callback(_clean_up, progress, title, installation.remove)
        with progress.step("Installing Kafka, MinIO, definitions and operator"):
            installation.install_servers(LOOPBACK)
            installation.install_operator()
            installation.wait_until_ready()
        # This host is not part of the cluster's network.
        stack.enter_context(forward(kubectl, namespace, "kafka", KAFKA_HOST_PORT))
        yield World(kubectl, namespace, images, f"{LOOPBACK}:{KAFKA_HOST_PORT}")


def _clean_up(progress: Progress, title: str, remove: Callable[[], object]) -> None:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        with progress.step(title):
            remove()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _only_one(name: str) -> Iterator[None]:
    """Holds the name for this process: a second run would take the first one's cluster down.

    An abstract socket is gone with its process, so there is nothing to clean up.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as holder:
        try:
            holder.bind(f"\0headrace-demo-{name}")
        except OSError as error:
            raise DemoFailedError(
                f"a cluster of this name is in use: wait, or give another --name name={name}"
            ) from error
        yield
