"""What ``headrace cluster status`` shows: observed facts, as data."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import msgspec

from headrace_devcluster.cgroups import observe_members
from headrace_devcluster.containerd import list_images
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.layout import NODE_NAME, Addresses, Layout
from headrace_devcluster.processes import is_running, observe_proportional_bytes
from headrace_devcluster.record import ClusterRecord, read_record
from headrace_devcluster.teardown import observe_leftovers


class State(Enum):
    """Where a cluster is between nothing and up."""

    DOWN = "down"
    """There is nothing of it."""

    PARTIAL = "partial"
    """``up`` runs right now, or was ended before it was done."""

    BROKEN = "broken"
    """It was up, and a component is gone or does not answer."""

    UP = "up"


class ComponentStatus(msgspec.Struct, frozen=True):
    """One daemon of the node."""

    name: str
    pid: int
    running: bool
    memory_bytes: int
    log: str


class ClusterStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One cluster; the JSON form is the ``--json`` output."""

    name: str
    state: State
    directory: str
    api_url: str | None = None
    kubeconfig: str | None = None
    pod_subnet: str | None = None
    service_subnet: str | None = None
    node_ready: bool = False
    memory_bytes: int = 0
    """Of all processes of the cluster, pods included; shared memory counted once."""

    processes: int = 0
    components: tuple[ComponentStatus, ...] = ()
    images: tuple[str, ...] = ()


def derive_state(
    record: ClusterRecord | None, *, exists: bool, components_running: bool, node_ready: bool
) -> State:
    """Decides the state from what was observed."""
    if not exists:
        return State.DOWN
    if record is None or not record.ready:
        return State.PARTIAL
    return State.UP if components_running and node_ready else State.BROKEN


def observe_status(layout: Layout, kubectl_command: tuple[str, ...] | None) -> ClusterStatus:
    """Looks at a cluster from outside; changes nothing.

    Args:
        layout: Of the cluster.
        kubectl_command: kubectl, or None where it was not built, as when nothing was ever up.
    """
    leftovers = observe_leftovers(layout)
    record = read_record(layout.record)
    members = observe_members(layout.cgroup)
    if record is None:
        return ClusterStatus(
            layout.name,
            derive_state(
                None, exists=not leftovers.nothing, components_running=False, node_ready=False
            ),
            str(layout.directory),
            processes=len(members),
        )
    components = tuple(
        ComponentStatus(
            name=name,
            pid=process.pid,
            running=is_running(process),
            memory_bytes=observe_proportional_bytes(process.pid),
            log=str(layout.logs / f"{name}.log"),
        )
        for name, process in record.components.items()
    )
    node_ready = _is_node_ready(layout.kubeconfig, kubectl_command)
    holder_running = record.holder is not None and is_running(record.holder)
    running = holder_running and all(component.running for component in components)
    addresses = Addresses(record.index)
    return ClusterStatus(
        name=layout.name,
        state=derive_state(record, exists=True, components_running=running, node_ready=node_ready),
        directory=str(layout.directory),
        api_url=addresses.api_url,
        kubeconfig=str(layout.kubeconfig),
        pod_subnet=str(addresses.pods),
        service_subnet=str(addresses.services),
        node_ready=node_ready,
        memory_bytes=sum(observe_proportional_bytes(member.pid) for member in members),
        processes=len(members),
        components=components,
        images=tuple(list_images(record.holder)) if record.holder and running else (),
    )


def _is_node_ready(kubeconfig: Path, kubectl_command: tuple[str, ...] | None) -> bool:
    if kubectl_command is None or not kubeconfig.exists():
        return False
    query = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    kubectl = Kubectl(kubectl_command, kubeconfig)
    done = kubectl.attempt(
        "get", "node", NODE_NAME, "-o", query, "--request-timeout=5s", timeout_s=10.0
    )
    return done.stdout == "True"
