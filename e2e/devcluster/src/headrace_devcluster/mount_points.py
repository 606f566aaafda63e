"""The fixed directories of upstream programs that every node mounts something private over.

They must exist on the host, so ``up`` makes those that are missing, and the last cluster on the
host to go removes them. Not earlier: removing a directory would detach what another cluster has
mounted on it.
"""

from __future__ import annotations

from pathlib import Path

from headrace_devcluster.cgroups import observe_hierarchies
from headrace_devcluster.layout import CGROUP_PREFIX
from headrace_devcluster.locks import host_lock

MOUNT_POINTS = (Path("/var/lib/cni"), Path("/var/lib/kubelet"))
MADE = Path("/run/headrace-mount-points")
"""Holds an empty file for each directory that was made here."""


def _note(point: Path) -> Path:
    return MADE / point.name


def claim_mount_points() -> None:
    """Makes the missing directories; the caller's control group exists already."""
    with host_lock():
        for point in MOUNT_POINTS:
            if not point.exists():
                MADE.mkdir(exist_ok=True)
                _note(point).touch()
                point.mkdir(parents=True)


def release_mount_points() -> None:
    """Removes what was made, once no cluster has a control group any more."""
    with host_lock():
        if any(any(tree.mount.glob(f"{CGROUP_PREFIX}*")) for tree in observe_hierarchies()):
            return
        for point in MOUNT_POINTS:
            if not _note(point).exists():
                continue
            if point.is_dir() and not any(point.iterdir()):
                point.rmdir()
            _note(point).unlink()
        if MADE.is_dir():
            MADE.rmdir()
