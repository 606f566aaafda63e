"""A control group that bounds the memory of one process, for benchmarks under a container's limit.

Counts as the kernel does for a pod: anonymous memory and page cache together; what is over the
limit is reclaimed, or the process is killed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


class MemoryGroup:
    """One group; `enter` is called in the process that shall be bounded."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._is_v1 = path.parent == _V1

    def create(self) -> None:
        """Make the group.

        Raises:
            OSError: this machine or user may not.
        """
        self._path.mkdir()
        limit = "memory.limit_in_bytes" if self._is_v1 else "memory.max"
        (self._path / limit).write_text(str(self._limit_bytes))

    def enter(self) -> None:
        """Move the calling process into the group."""
        (self._path / "cgroup.procs").write_text(str(os.getpid()))

    def times_full(self) -> int:
        """Return how often the limit was reached and memory had to be reclaimed."""
        if self._is_v1:
            return int((self._path / "memory.failcnt").read_text())
        events = dict(line.split() for line in (self._path / "memory.events").open())
        return int(events["max"])

    def killed(self) -> int:
        """Return how many processes the kernel has killed for it."""
        name = "memory.oom_control" if self._is_v1 else "memory.events"
        counts = dict(line.split() for line in (self._path / name).open())
        return int(counts["oom_kill"])

    def remove(self) -> None:
        """Remove the empty group."""
        self._path.rmdir()


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup | None]:
    """Yield a new group; None where groups cannot be made (not root, no such controller)."""
    root = _V1 if _V1.is_dir() else _V2
    group = MemoryGroup(root / f"headrace-bench-{os.getpid()}", limit_bytes)
    try:
        group.create()
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        group.remove()


def resident_bytes(pid: int | str = "self") -> int:
    """Return the anonymous memory of a process: what cannot be reclaimed."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0
