"""Control groups, version 1 and 2: where a cluster's processes are accounted and found again.

Every process of a cluster lives below ``/<cluster's group>``: the components in its child
``node``, the pods in ``kubepods``, which the kubelet makes. Since membership is inherited and is
taken before anything else happens, "the processes of a cluster" is a question with one answer,
whatever was killed and whatever was not written down.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace_devcluster.errors import UnsupportedHostError
from headrace_devcluster.polling import poll_until
from headrace_devcluster.processes import PROC, ProcessId, observe_process

NODE_GROUP = "node"

REMOVE_TIMEOUT_S = 10.0
"""A group can be removed once its last process is reaped, which is a matter of milliseconds."""

JOINED_V1 = ("memory", "pids")
"""Version 1 controllers whose groups the components join; pods join all through the kubelet."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted control-group tree."""

    mount: Path
    unified: bool
    controllers: frozenset[str]


def parse_hierarchies(mountinfo: str) -> list[Hierarchy]:
    """Finds the trees that controllers are used through in ``/proc/self/mountinfo``.

    Where version 1 trees exist, a version 2 tree beside them has no controllers and is left out.
    """
    trees: list[Hierarchy] = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        if kind not in {"cgroup", "cgroup2"}:
            continue
        mount = Path(before.split()[4])
        names = frozenset() if kind == "cgroup2" else frozenset(options.split(",")) - {"rw", "ro"}
        trees.append(Hierarchy(mount, kind == "cgroup2", names))
    if any(not tree.unified for tree in trees):
        return [tree for tree in trees if not tree.unified]
    return trees[:1]


def observe_hierarchies(proc: Path = PROC) -> list[Hierarchy]:
    """Reads the machine's trees.

    Raises:
        UnsupportedHostError: None is mounted, so containers cannot be limited or found.
    """
    trees = parse_hierarchies((proc / "self/mountinfo").read_text())
    if not trees:
        raise UnsupportedHostError(
            "no control groups are mounted: mount them, or use another cluster with "
            "--use-kubeconfig looked_in=/proc/self/mountinfo"
        )
    return trees


def create_group(name: str, trees: list[Hierarchy]) -> list[Path]:
    """Creates a cluster's group everywhere and returns the files a component's id is written to."""
    joined: list[Path] = []
    for tree in trees:
        node = tree.mount / name / NODE_GROUP
        if tree.unified:
            _enable_controllers(tree.mount)
            node.parent.mkdir(exist_ok=True)
            _enable_controllers(node.parent)
        node.mkdir(parents=True, exist_ok=True)
        if "cpuset" in tree.controllers:
            _inherit_cpuset(tree.mount, node)
        if tree.unified or tree.controllers & set(JOINED_V1):
            joined.append(node / "cgroup.procs")
    if not joined:
        raise UnsupportedHostError(
            "control groups have neither the memory nor the pids controller: enable them, or use "
            f"another cluster with --use-kubeconfig trees={[str(tree.mount) for tree in trees]}"
        )
    return joined


def _enable_controllers(group: Path) -> None:
    """Passes every controller on to a version 2 group's children."""
    for controller in (group / "cgroup.controllers").read_text().split():
        # A controller that is busy at this level stays off; the kubelet names it if it needs it.
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def _inherit_cpuset(root: Path, group: Path) -> None:
    """Fills a version 1 cpuset, empty when made, without which no process may join."""
    for path in (group.parent, group):
        for file in ("cpuset.cpus", "cpuset.mems"):
            if not (path / file).read_text().strip():
                (path / file).write_text((root / file).read_text())


def belongs_to(cgroup_file: str, name: str) -> bool:
    """Whether ``/proc/<pid>/cgroup`` places a process in the group called ``name``."""
    for line in cgroup_file.splitlines():
        path = line.split(":", 2)[2]
        if path == f"/{name}" or path.startswith(f"/{name}/"):
            return True
    return False


def observe_members(name: str, proc: Path = PROC) -> list[ProcessId]:
    """Lists the running processes of a cluster, in any of its trees."""
    members: list[ProcessId] = []
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            inside = belongs_to((entry / "cgroup").read_text(), name)
        except (FileNotFoundError, ProcessLookupError):
            continue
        process = observe_process(int(entry.name), proc) if inside else None
        if process is not None:
            members.append(process)
    return members


def existing_groups(name: str, trees: list[Hierarchy]) -> list[Path]:
    """The groups of a cluster that exist, one for each tree at most."""
    return [tree.mount / name for tree in trees if (tree.mount / name).is_dir()]


def _deepest_first(group: Path) -> Iterator[Path]:
    for directory, _, _ in os.walk(group, topdown=False):
        yield Path(directory)


def remove_group(name: str, trees: list[Hierarchy], timeout_s: float = REMOVE_TIMEOUT_S) -> None:
    """Removes a cluster's groups; the caller has ended their processes.

    Raises:
        OSError: A group is still busy after ``timeout_s``.
    """
    for top in existing_groups(name, trees):
        if not poll_until(partial(_try_remove, top), timeout_s, 0.02):
            top.rmdir()


def _try_remove(top: Path) -> bool:
    """Removes a group with its children, as far as they are empty."""
    with contextlib.suppress(OSError):
        for directory in _deepest_first(top):
            directory.rmdir()
    return not top.is_dir()
