"""The embedded cluster as an object: up, use, down.

Usage::

    with Cluster.up("demo") as cluster:
        cluster.load("runtime")
        cluster.kubectl.apply(manifests)

Leaving the block takes the cluster down. A cluster outlives its creator otherwise and is found
again by name. Callers: the command line, the end-to-end tests, the demo.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.errors import InternalError
from headrace_devcluster.bringup import Bringup
from headrace_devcluster.builder import ImageBuilder
from headrace_devcluster.checkout import find_checkout
from headrace_devcluster.containerd import import_archive, import_built_image, list_images
from headrace_devcluster.errors import ClusterNotFoundError
from headrace_devcluster.host import (
    IMAGE_PACKAGES,
    NODE_PACKAGES,
    ensure_packages,
    require_supported,
)
from headrace_devcluster.images import find_image
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.layout import DEFAULT_NAME, Addresses, Layout, parse_name
from headrace_devcluster.locks import cluster_lock
from headrace_devcluster.processes import ProcessId, is_running
from headrace_devcluster.progress import Progress
from headrace_devcluster.record import ClusterRecord, read_record
from headrace_devcluster.settings import Settings
from headrace_devcluster.snapshots import lend_layers
from headrace_devcluster.teardown import observe_leftovers, remove_cluster
from headrace_devcluster.toolchain import Binaries, Toolchain


def locate_cluster(name: str, settings: Settings) -> Layout:
    """The layout of a cluster, whether or not it exists."""
    return Layout(parse_name(name), settings.root)


def make_toolchain(settings: Settings, progress: Progress) -> Toolchain:
    """A toolchain for this checkout."""
    return Toolchain(find_checkout(), settings.cache, settings.environment, progress)


def make_builder(settings: Settings, progress: Progress) -> ImageBuilder:
    """A builder of the project's images; installs what it needs."""
    require_supported()
    ensure_packages(IMAGE_PACKAGES, progress)
    return ImageBuilder(
        find_checkout(),
        settings.cache,
        make_toolchain(settings, progress),
        settings.environment,
        progress,
    )


class Cluster:
    """A cluster that is up."""

    def __init__(
        self,
        layout: Layout,
        record: ClusterRecord,
        holder: ProcessId,
        binaries: Binaries,
        settings: Settings,
        progress: Progress,
    ) -> None:
        self.layout = layout
        self.record = record
        self.addresses = Addresses(record.index)
        self.kubectl = Kubectl((str(binaries.kube), "kubectl"), layout.kubeconfig)
        self._holder = holder
        self._settings = settings
        self._progress = progress

    @classmethod
    def up(
        cls,
        name: str = DEFAULT_NAME,
        settings: Settings | None = None,
        progress: Progress | None = None,
    ) -> Cluster:
        """Brings a cluster up, or finds the one that is up already.

        The first call on a machine installs packages and builds Kubernetes, which takes minutes;
        later ones take about 10 s. A cluster that is half up or broken is removed and made anew.

        Raises:
            UnsupportedHostError: This is not Linux, or the user is not root.
            MissingToolError: A package could not be installed.
            BuildFailedError: A program could not be built.
            ClusterFailedError: A component failed; the cluster is left for a look at its logs.
        """
        settings = settings or Settings.from_environment(os.environ)
        progress = progress or Progress.to_stderr()
        layout = locate_cluster(name, settings)
        require_supported()
        ensure_packages(NODE_PACKAGES, progress)
        binaries = make_toolchain(settings, progress).build_binaries()
        with cluster_lock(layout):
            record = read_record(layout.record)
            if record is None or not is_healthy(layout, record, binaries):
                if not observe_leftovers(layout).only_directory or record is not None:
                    with progress.step("Removing what an earlier cluster of this name left"):
                        remove_cluster(layout, keep_directory=True)
                record = Bringup(layout, binaries, progress).run()
        return cls._of(layout, record, binaries, settings, progress)

    @classmethod
    def find(
        cls,
        name: str = DEFAULT_NAME,
        settings: Settings | None = None,
        progress: Progress | None = None,
    ) -> Cluster:
        """Returns the cluster of a name.

        Raises:
            ClusterNotFoundError: It is not up.
        """
        settings = settings or Settings.from_environment(os.environ)
        progress = progress or Progress.to_stderr()
        layout = locate_cluster(name, settings)
        record = read_record(layout.record)
        if record is None or not record.ready or not _holder_is_running(record):
            raise ClusterNotFoundError(
                f"no such cluster is up: start it with 'headrace cluster up --name {name}' "
                f"name={name} directory={layout.directory}"
            )
        binaries = make_toolchain(settings, progress).build_binaries()
        return cls._of(layout, record, binaries, settings, progress)

    @classmethod
    def _of(
        cls,
        layout: Layout,
        record: ClusterRecord,
        binaries: Binaries,
        settings: Settings,
        progress: Progress,
    ) -> Cluster:
        if record.holder is None:
            raise InternalError(f"a ready cluster has no holder name={record.name}")
        return cls(layout, record, record.holder, binaries, settings, progress)

    @property
    def name(self) -> str:
        """The name that it was brought up by."""
        return self.layout.name

    @property
    def kubeconfig(self) -> Path:
        """An administrator's kubeconfig, usable from the host."""
        return self.layout.kubeconfig

    def load(self, image: str) -> str:
        """Makes an image available to pods.

        Args:
            image: ``runtime``, ``operator``, ``kafka`` or ``minio``, which are built if they
                changed, or the path of an OCI or Docker archive.

        Returns:
            The name that pods call it by; for an archive, its path.

        Raises:
            InvalidConfigError: It is neither.
            BuildFailedError: It could not be built.
            ClusterFailedError: The container runtime refused it.
        """
        archive = Path(image)
        if archive.is_file():
            with self._progress.step(f"Loading {archive.name}"):
                import_archive(self._holder, archive.absolute())
            return image
        tag = find_image(image).tag
        builder = make_builder(self._settings, self._progress)
        built = builder.build(image)
        with self._progress.step(f"Loading {tag}"):
            lend_layers(self._holder, builder.find_unpacked_layers(built))
            content = self.layout.containerd_content
            import_built_image(self._holder, content, builder.blobs, built.manifest, tag)
        return tag

    def images(self) -> list[str]:
        """Names of the images that pods can use."""
        return list_images(self._holder)

    def down(self) -> None:
        """Removes the cluster and everything that belongs to it; harmless when repeated."""
        take_down(self.layout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.down()


def take_down(layout: Layout) -> bool:
    """Removes a cluster in whatever state it is; returns whether there was anything of it.

    Raises:
        LeftoverError: Something could not be removed; the message lists it.
    """
    require_supported()
    if observe_leftovers(layout).nothing:
        return False
    with cluster_lock(layout):
        return remove_cluster(layout)


def _holder_is_running(record: ClusterRecord) -> bool:
    return record.holder is not None and is_running(record.holder)


def is_healthy(layout: Layout, record: ClusterRecord, binaries: Binaries) -> bool:
    """Whether every component runs and the API server says that it is ready."""
    if not record.ready or not _holder_is_running(record):
        return False
    if not all(is_running(process) for process in record.components.values()):
        return False
    kubectl = Kubectl((str(binaries.kube), "kubectl"), layout.kubeconfig)
    return kubectl.attempt("get", "--raw=/readyz", timeout_s=10.0).returncode == 0
