"""Takes a cluster apart, whatever state it is in.

Observes what exists by name and control group, removes it, and looks again; never relies on what
``up`` wrote down. Order matters: processes first, since they hold everything else; then the
link; then the control groups, after which a starter that was killed half-way can no longer join;
then files, last the directory that names the cluster. Safe to run twice or after a crash.
"""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from headrace_devcluster import cgroups, network
from headrace_devcluster.errors import LeftoverError
from headrace_devcluster.layout import Layout
from headrace_devcluster.mount_points import release_mount_points
from headrace_devcluster.polling import poll_until
from headrace_devcluster.processes import PROC, ProcessId, kill_process

KILL_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Leftovers:
    """What exists of a cluster on this host at one moment."""

    processes: tuple[ProcessId, ...]
    mounts: tuple[str, ...]
    link: str | None
    groups: tuple[Path, ...]
    directory: Path | None

    @property
    def nothing(self) -> bool:
        """Whether there is no trace of the cluster."""
        return self.only_directory and self.directory is None

    @property
    def only_directory(self) -> bool:
        """Whether nothing is there but, perhaps, files."""
        return not (self.processes or self.mounts or self.link or self.groups)

    def describe(self) -> str:
        """Lists it for a person."""
        parts = [f"process {process.pid}" for process in self.processes]
        parts += [f"mount {mount}" for mount in self.mounts]
        parts += [f"link {self.link}"] if self.link else []
        parts += [f"control group {group}" for group in self.groups]
        parts += [f"directory {self.directory}"] if self.directory else []
        return ", ".join(parts)


def parse_mounts_below(mountinfo: str, directory: Path) -> tuple[str, ...]:
    """Mount points at or below a directory, deepest first."""
    points = {line.split()[4].replace("\\040", " ") for line in mountinfo.splitlines()}
    inside = (point for point in points if Path(point).is_relative_to(directory))
    return tuple(sorted(inside, key=lambda point: (point.count("/"), point), reverse=True))


def observe_leftovers(layout: Layout) -> Leftovers:
    """Looks at what there is of a cluster; changes nothing."""
    trees = cgroups.observe_hierarchies()
    mountinfo = (PROC / "self/mountinfo").read_text()
    return Leftovers(
        processes=tuple(cgroups.observe_members(layout.cgroup)),
        mounts=parse_mounts_below(mountinfo, layout.directory),
        link=layout.host_link if network.has_link(layout) else None,
        groups=tuple(cgroups.existing_groups(layout.cgroup, trees)),
        directory=layout.directory if layout.directory.exists() else None,
    )


def end_processes(layout: Layout, timeout_s: float = KILL_TIMEOUT_S) -> None:
    """Kills the cluster's processes until there are none.

    Killing the node's process 1 makes the kernel kill the rest; the loop is for what was just
    being started, and for processes that take time to die in the kernel.

    Raises:
        LeftoverError: Some are still there after ``timeout_s``.
    """

    def all_gone() -> bool:
        members = cgroups.observe_members(layout.cgroup)
        for member in members:
            kill_process(member)
        return not members

    if not poll_until(all_gone, timeout_s, 0.02):
        left = [member.pid for member in cgroups.observe_members(layout.cgroup)]
        raise LeftoverError(
            "processes do not end: look at them with 'ps', then run 'headrace cluster down' "
            f"again pids={left}"
        )


def remove_cluster(layout: Layout, *, keep_directory: bool = False) -> bool:
    """Removes everything of a cluster; returns whether there was anything.

    Args:
        layout: Of the cluster.
        keep_directory: Empties the cluster's directory instead of removing it, for a caller that
            holds the lock on it and goes on to start the cluster anew.

    Raises:
        LeftoverError: Something could not be removed; the message lists it.
    """
    if observe_leftovers(layout).nothing:
        return False
    end_processes(layout)
    network.disconnect_node(layout)
    try:
        cgroups.remove_group(layout.cgroup, cgroups.observe_hierarchies())
        # Whoever was about to join the group when it went has failed by now, or is seen here.
        end_processes(layout)
        _remove_directory(layout.directory, keep=keep_directory)
        release_mount_points()
    except OSError as error:
        raise LeftoverError(
            "the cluster could not be removed completely: run 'headrace cluster down' again "
            f"left={observe_leftovers(layout).describe()} cause={error}"
        ) from error
    left = observe_leftovers(layout)
    if not left.nothing and not (keep_directory and left.only_directory):
        raise LeftoverError(
            f"something is left: run 'headrace cluster down' again left={left.describe()}"
        )
    if not keep_directory:
        _remove_if_empty(layout.root)
    return True


def _remove_directory(directory: Path, *, keep: bool) -> None:
    if not directory.exists():
        return
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if not keep:
        directory.rmdir()


def _remove_if_empty(root: Path) -> None:
    """Removes the directory of all clusters after its last one."""
    with contextlib.suppress(OSError):
        root.rmdir()
