"""Takes stock of the machine, to show that a cluster leaves nothing behind."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, fields
from pathlib import Path

from headrace_devcluster.cgroups import belongs_to, observe_hierarchies
from headrace_devcluster.layout import CGROUP_PREFIX, Layout
from headrace_devcluster.processes import PROC


def _output(*command: str) -> frozenset[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return frozenset(line.strip() for line in done.stdout.splitlines())


def _namespaces(kind: str) -> frozenset[str]:
    """The namespaces of one kind that any process is in."""
    found = set()
    for entry in PROC.iterdir():
        try:
            if entry.name.isdigit():
                found.add(str((entry / "ns" / kind).readlink()))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return frozenset(found)


def _processes_of_clusters() -> frozenset[str]:
    """Processes in the control group of any cluster, and any that only clusters run."""
    found = set()
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            group = (entry / "cgroup").read_text()
            command = (entry / "cmdline").read_text().replace("\0", " ")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if CGROUP_PREFIX in group or command.startswith(("containerd", "unshare", "nsenter")):
            found.add(f"{entry.name} {command}")
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Inventory:
    """What of the machine a cluster may change."""

    processes: frozenset[str]
    mounts: frozenset[str]
    network_namespaces: frozenset[str]
    process_namespaces: frozenset[str]
    links: frozenset[str]
    addresses: frozenset[str]
    routes: frozenset[str]
    groups: frozenset[str]
    files: frozenset[str]
    settings: frozenset[str]

    @classmethod
    def take(cls, root: Path) -> Inventory:
        """Looks at the machine; ``root`` is the directory of the clusters in question."""
        groups = {
            str(group)
            for tree in observe_hierarchies()
            for group in tree.mount.glob(f"{CGROUP_PREFIX}*")
        }
        places = (root, Path("/run/headrace-mount-points"), Path("/run/netns"))
        fixed = ("/var/lib/cni", "/var/lib/kubelet", "/var/log/containers", "/var/log/pods")
        files = {str(path) for path in fixed if Path(path).exists()}
        files |= {str(path) for place in places if place.exists() for path in place.rglob("*")}
        watched = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
        settings = {f"{name}={(PROC / 'sys' / name).read_text().strip()}" for name in watched}
        return cls(
            processes=_processes_of_clusters(),
            mounts=frozenset((PROC / "self/mounts").read_text().splitlines()),
            network_namespaces=_namespaces("net"),
            process_namespaces=_namespaces("pid"),
            links=_output("ip", "-brief", "link"),
            addresses=_output("ip", "-brief", "address"),
            routes=_output("ip", "route", "show", "table", "all"),
            groups=frozenset(groups),
            files=frozenset(files),
            settings=frozenset(settings),
        )

    def added_since(self, before: Inventory) -> dict[str, frozenset[str]]:
        """What is there now and was not before, by kind; empty when nothing was left."""
        added = {
            field.name: getattr(self, field.name) - getattr(before, field.name)
            for field in fields(self)
        }
        return {kind: entries for kind, entries in added.items() if entries}


def members_of(layout: Layout) -> list[int]:
    """Process ids in a cluster's control group."""
    found = []
    for entry in PROC.iterdir():
        try:
            if entry.name.isdigit() and belongs_to((entry / "cgroup").read_text(), layout.cgroup):
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found
