"""Processes by identity rather than by number.

A process id is reused; a pair of process id and start time is not (within one boot). Everything
that is ever signalled is named by such a pair and signalled through a pidfd, so that no foreign
process can be hit. Who belongs to a cluster is decided by control group (see `cgroups`).
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process that cannot be mistaken for another one."""

    pid: int
    start_ticks: int
    """Start time in clock ticks since boot (field 22 of ``/proc/<pid>/stat``)."""

    boot_id: str


def parse_start_ticks(stat: str) -> int:
    """Reads the start time from ``/proc/<pid>/stat``, whose second field may hold anything."""
    after_name = stat.rpartition(")")[2].split()
    # Field 3 (state) is the first after the name, so field 22 is at position 19.
    return int(after_name[19])


def is_defunct(stat: str) -> bool:
    """Whether a ``stat`` line is that of a zombie or of a process that is just going away."""
    return stat.rpartition(")")[2].split()[0] in {"Z", "X"}


def read_boot_id(proc: Path = PROC) -> str:
    """An identity of the running kernel, since process ids and ticks start anew with it."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def observe_process(pid: int, proc: Path = PROC) -> ProcessId | None:
    """Returns the identity of a running process, or None when there is none of that number."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if is_defunct(stat):
        return None
    return ProcessId(pid, parse_start_ticks(stat), read_boot_id(proc))


def is_running(process: ProcessId, proc: Path = PROC) -> bool:
    """Whether exactly this process runs."""
    return observe_process(process.pid, proc) == process


def kill_process(process: ProcessId) -> None:
    """Sends SIGKILL to exactly this process; does nothing when it is gone already."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The handle is pinned now: if the identity still matches, the signal cannot go astray.
        if is_running(process):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(handle)


def parse_proportional_bytes(rollup: str) -> int:
    """Reads the proportional set size from ``/proc/<pid>/smaps_rollup``, in bytes."""
    for line in rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def observe_proportional_bytes(pid: int, proc: Path = PROC) -> int:
    """Memory of a process in bytes, each shared page divided by its users; 0 when it is gone.

    Sums of it do not count the one ``kube`` program seven times.
    """
    try:
        return parse_proportional_bytes((proc / str(pid) / "smaps_rollup").read_text())
    except (FileNotFoundError, ProcessLookupError):
        return 0
