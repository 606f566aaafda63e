"""Checkpoints that clean-up must leave alone although newer ones are complete.

A savepoint in progress holds the checkpoint that it copies (D10, T5). One object lives as long as
the driver: the stores of all its generations ask it, so a failover does not cut off a copy. Nothing
is written to storage. When the driver dies, its copies die with it and need nothing any more; when
it is deposed, its successor may delete what it holds, and the copy fails for want of a file.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.ids import CheckpointId


class HeldCheckpoints:
    """A multiset of checkpoint numbers; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[CheckpointId] = Counter()

    def hold(self, checkpoint_id: CheckpointId) -> None:
        """Keep a checkpoint from the next clean-up on; it must be the newest complete one."""
        with self._lock:
            self._counts[checkpoint_id] += 1

    def release(self, checkpoint_id: CheckpointId) -> None:
        """Take back one `hold`; the next clean-up decides by the usual rules."""
        with self._lock:
            self._counts[checkpoint_id] -= 1
            self._counts = +self._counts  # drops what is no longer positive

    def numbers(self) -> frozenset[CheckpointId]:
        """Return what is held now."""
        with self._lock:
            return frozenset(self._counts)
