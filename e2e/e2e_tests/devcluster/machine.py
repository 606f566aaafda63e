"""Takes stock of the machine, to show that clusters leave nothing behind.

Clusters of other directories may come and go meanwhile (a developer's own, another test run):
what carries their names is left out. A network namespace without a process is held by a mount or
by a file in ``/run/netns``, so both are looked at.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path

from headrace_devcluster.cgroups import observe_hierarchies
from headrace_devcluster.layout import CGROUP_PREFIX, Layout
from headrace_devcluster.processes import PROC

_NAMED = re.compile(rf"(?:hr-|{CGROUP_PREFIX}[a-z0-9-]+-)([0-9a-f]{{8}})\b")
"""A link or control group of a cluster, with the cluster's identity."""


def _output(*command: str) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.strip() for line in done.stdout.splitlines()]


def _processes(layouts: list[Layout]) -> Iterable[str]:
    """Processes in a cluster's control group, or with its directory on their command line."""
    marks = [layout.cgroup for layout in layouts] + [f"{layout.directory}/" for layout in layouts]
    for entry in PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_text(errors="replace").replace("\0", " ")
            text = (entry / "cgroup").read_text() + command
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if any(mark in text for mark in marks):
            yield f"{entry.name} {command}"


@dataclass(frozen=True, slots=True)
class Inventory:
    """What of the machine a cluster may change."""

    processes: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    addresses: frozenset[str]
    routes: frozenset[str]
    groups: frozenset[str]
    files: frozenset[str]
    settings: frozenset[str]

    @classmethod
    def take(cls, root: Path, *names: str) -> Inventory:
        """Looks at the machine.

        Args:
            root: Directory of the clusters in question.
            names: The clusters in question.
        """
        layouts = [Layout(name, root) for name in names]
        own = {layout.identity for layout in layouts}

        def ours(lines: Iterable[str]) -> frozenset[str]:
            """Leaves out what another cluster's name is on."""
            return frozenset(line for line in lines if set(_NAMED.findall(line)) <= own)

        groups = [
            str(group)
            for tree in observe_hierarchies()
            for group in tree.mount.glob(f"{CGROUP_PREFIX}*")
        ]
        files = {str(path) for path in Path("/run").glob("netns/*")}
        files |= {str(path) for layout in layouts for path in [layout.directory] if path.exists()}
        watched = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops")
        return cls(
            processes=frozenset(_processes(layouts)),
            mounts=frozenset((PROC / "self/mounts").read_text().splitlines()),
            links=ours(_output("ip", "-brief", "link")),
            addresses=ours(_output("ip", "-brief", "address")),
            routes=ours(_output("ip", "route", "show", "table", "all")),
            groups=ours(groups),
            files=frozenset(files),
            settings=frozenset(
                f"{name}={(PROC / 'sys' / name).read_text().strip()}" for name in watched
            ),
        )

    def added_since(self, before: Inventory) -> dict[str, frozenset[str]]:
        """What is there now and was not before, by kind; empty when nothing was left."""
        added = {
            field.name: getattr(self, field.name) - getattr(before, field.name)
            for field in fields(self)
        }
        return {kind: entries for kind, entries in added.items() if entries}
