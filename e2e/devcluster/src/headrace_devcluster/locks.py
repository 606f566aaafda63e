"""Locks between ``headrace cluster`` commands, held by the kernel and so never stale.

Directories are locked, not lock files: nothing is left behind, and a killed holder lets go.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace_devcluster.layout import Layout

HOST_LOCK = Path("/run")
"""Locked for the few milliseconds in which what clusters share is changed."""


@contextmanager
def _locked(directory: Path) -> Iterator[int]:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


@contextmanager
def host_lock() -> Iterator[None]:
    """Serializes changes of what all clusters share: indices and mount points."""
    with _locked(HOST_LOCK):
        yield


@contextmanager
def cluster_lock(layout: Layout) -> Iterator[None]:
    """Serializes commands on one cluster; makes its directory if there is none.

    Waits for the command that holds the lock. That command may remove the directory; then a new
    one is made and locked.
    """
    while True:
        layout.directory.mkdir(parents=True, exist_ok=True, mode=0o755)
        with _locked(layout.directory) as handle:
            try:
                current = layout.directory.stat().st_ino == os.fstat(handle).st_ino
            except FileNotFoundError:
                current = False
            if current:
                yield
                return
