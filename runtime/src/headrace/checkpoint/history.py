"""Counters and history of checkpoints for REST, metrics and status (K5, K6, D23)."""

from __future__ import annotations

import dataclasses
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.api.driver import CheckpointSummary

HISTORY_LENGTH_DEFAULT: Final = 10
"""Flink's ``web.checkpoints.history``."""


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """Totals over the life of the driver, as Flink's ``/jobs/<id>/checkpoints`` counts them."""

    triggered: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0
    restored: int = 0


class CheckpointHistory:
    """The last checkpoints, newest first, and totals. Used by one thread."""

    def __init__(self, length: int = HISTORY_LENGTH_DEFAULT) -> None:
        self._entries: deque[CheckpointSummary] = deque(maxlen=length)
        self.counts = CheckpointCounts()
        self.last_completed: CheckpointSummary | None = None
        self.last_failed: CheckpointSummary | None = None

    def triggered(self, summary: CheckpointSummary) -> None:
        """Note a checkpoint that has begun."""
        self._entries.appendleft(summary)
        self._count(triggered=1, in_progress=1)

    def completed(self, summary: CheckpointSummary) -> None:
        """Note that the checkpoint of ``summary.id`` has completed."""
        self._replace(summary)
        self.last_completed = summary
        self._count(in_progress=-1, completed=1)

    def failed(self, summary: CheckpointSummary) -> None:
        """Note that the checkpoint of ``summary.id`` was given up."""
        self._replace(summary)
        self.last_failed = summary
        self._count(in_progress=-1, failed=1)

    def restored(self) -> None:
        """Note that a generation continued from a checkpoint."""
        self._count(restored=1)

    def entries(self) -> list[CheckpointSummary]:
        """Return the remembered checkpoints, newest first."""
        return list(self._entries)

    def _replace(self, summary: CheckpointSummary) -> None:
        for index, entry in enumerate(self._entries):
            if (entry.id, entry.generation) == (summary.id, summary.generation):
                self._entries[index] = summary
                return

    def _count(self, **changes: int) -> None:
        updated = {name: getattr(self.counts, name) + by for name, by in changes.items()}
        self.counts = dataclasses.replace(self.counts, **updated)
