"""Brings a cluster up, step by step, each followed by the check that it worked.

The order is the dependency order of a real node: namespaces, network, container runtime, etcd,
API server, then everything that talks to the API server at once, then the checks that a user's
pod depends on: node Ready, its service account there, cluster DNS answering over its Service.

Every step records what it started. A failure leaves all of it in place with its logs, for the
reader; the next ``up`` or ``down`` takes it apart first.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headrace_devcluster import components, network, node
from headrace_devcluster.archive import write_program_image
from headrace_devcluster.cgroups import create_group, observe_hierarchies
from headrace_devcluster.components import Component, NodePlan
from headrace_devcluster.containerd import import_archive
from headrace_devcluster.dns import resolve_name
from headrace_devcluster.errors import ClusterFailedError
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.layout import (
    CLUSTER_DOMAIN,
    NODE_NAME,
    Addresses,
    Layout,
    choose_index,
)
from headrace_devcluster.locks import host_lock
from headrace_devcluster.mount_points import claim_mount_points
from headrace_devcluster.pki import build_tokens, write_pki
from headrace_devcluster.polling import poll_until
from headrace_devcluster.processes import ProcessId
from headrace_devcluster.progress import Progress
from headrace_devcluster.record import ClusterRecord, read_all_records, write_record
from headrace_devcluster.toolchain import Binaries

READY_TIMEOUT_S = 120.0
"""Several times what the slowest step takes on two busy cores."""


class Bringup:
    """One ``up`` in progress: starts things and keeps the record in step with them."""

    def __init__(self, layout: Layout, binaries: Binaries, progress: Progress) -> None:
        self._layout = layout
        self._binaries = binaries
        self._progress = progress
        self._record = self._claim_addresses()
        self._addresses = Addresses(self._record.index)
        self._plan = NodePlan(layout, self._addresses, binaries.kube)
        self._kubectl = Kubectl((str(binaries.kube), "kubectl"), layout.kubeconfig)
        self._procs_files: list[Path] = []

    def run(self) -> ClusterRecord:
        """Runs every step; returns the record of a cluster that is ready.

        Raises:
            ClusterFailedError: A step failed; the message names the log to read.
        """
        with self._progress.step("Node: namespaces, network, container runtime"):
            self._start_node()
            self._write_configuration()
            self._start(components.build_containerd(self._plan))
        with self._progress.step("Control plane: etcd, API server"):
            self._start(components.build_etcd(self._plan))
            self._start(components.build_apiserver(self._plan))
            self._wait_for("the API server", self._api_is_ready)
        with self._progress.step("Controllers, scheduler, kubelet, proxy, DNS"):
            self._kubectl.apply(components.build_base_manifests(self._addresses))
            self._import_pause_image()
            for build in (
                components.build_controllers,
                components.build_scheduler,
                components.build_kubelet,
                components.build_proxy,
                components.build_dns,
            ):
                self._start(build(self._plan))
        with self._progress.step("Waiting for the node and for cluster DNS"):
            self._wait_for("the node", self._node_is_ready)
            self._wait_for("the default service account", self._service_account_exists)
            self._wait_for("cluster DNS", self._dns_answers)
        self._keep(replace(self._record, ready=True))
        return self._record

    def _claim_addresses(self) -> ClusterRecord:
        """Chooses an index and writes it down at once, so that no other cluster takes it."""
        with host_lock():
            claimed = {record.index for record in read_all_records(self._layout.root)}
            index = choose_index(network.observe_routes(), claimed)
            record = ClusterRecord(self._layout.name, index)
            write_record(self._layout.record, record)
        return record

    def _keep(self, record: ClusterRecord) -> None:
        write_record(self._layout.record, record)
        self._record = record

    @property
    def _holder(self) -> ProcessId:
        if self._record.holder is None:
            raise ClusterFailedError(f"no node was started yet name={self._layout.name}")
        return self._record.holder

    def _start_node(self) -> None:
        self._procs_files = create_group(self._layout.cgroup, observe_hierarchies())
        claim_mount_points()
        holder = node.start_node(self._layout, self._binaries.pause, self._procs_files)
        self._keep(replace(self._record, holder=holder))
        network.connect_node(self._layout, self._addresses, holder.pid)

    def _write_configuration(self) -> None:
        self._layout.config.mkdir(mode=0o700, exist_ok=True)
        (self._layout.config / "cni").mkdir(exist_ok=True)
        ca_data = write_pki(self._layout.config / "pki", self._addresses)
        for path, text in components.build_config_files(
            self._plan, build_tokens(), ca_data
        ).items():
            path.touch(mode=0o600)
            path.write_text(text)

    def _start(self, component: Component) -> None:
        process = node.start_component(
            self._layout, self._holder, self._procs_files, component, _build_environment()
        )
        self._keep(self._record.with_component(component.name, process))

    def _wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        """Polls a condition; gives up early when a component has ended."""
        if not poll_until(lambda: condition() or self._check_components(), READY_TIMEOUT_S):
            raise ClusterFailedError(
                f"{what} did not become ready: read the logs, then run 'headrace cluster "
                f"down' and try again timeout_s={READY_TIMEOUT_S:.0f} logs={self._layout.logs}"
            )

    def _check_components(self) -> bool:
        """Raises when a component has ended; otherwise False, as the condition does not hold."""
        for name, process in self._record.components.items():
            node.require_running(self._layout, name, process)
        return False

    def _api_is_ready(self) -> bool:
        return self._kubectl.attempt("get", "--raw=/readyz").returncode == 0

    def _node_is_ready(self) -> bool:
        query = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
        return self._kubectl.attempt("get", "node", NODE_NAME, "-o", query).stdout == "True"

    def _service_account_exists(self) -> bool:
        return self._kubectl.attempt("get", "serviceaccount", "default").returncode == 0

    def _dns_answers(self) -> bool:
        """Asks through the Service's address: this also proves that kube-proxy works."""
        name = f"kubernetes.default.svc.{CLUSTER_DOMAIN}"
        found = resolve_name(self._addresses.dns_service, name)
        return found == [self._addresses.api_service]

    def _import_pause_image(self) -> None:
        archive = self._layout.data / "pause-image.tar"
        write_program_image(archive, components.PAUSE_IMAGE, self._binaries.pause)
        import_archive(self._holder, archive)
        archive.unlink()


def _build_environment() -> dict[str, str]:
    """A component's environment: a usual PATH and nothing of the caller's shell."""
    return {"PATH": os.defpath + ":/usr/local/sbin:/usr/sbin:/sbin", "HOME": "/"}
