"""What the outside may know of the job: written by its master, read by REST."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from headrace.api.driver import JobError, JobState, JobStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.api.driver import CheckpointSummary
    from headrace.checkpoint.history import CheckpointCounts
    from headrace.clock import Clock
    from headrace.errors import HeadraceError


class StatusBoard:
    """The job's present status; thread-safe."""

    def __init__(self, status: JobStatus, clock: Clock) -> None:
        self._lock = threading.Lock()
        self._clock = clock
        self._status = status
        self._checkpoints: list[CheckpointSummary] = []
        self._counts: CheckpointCounts | None = None
        self._metrics: dict[str, float] = {}

    def get(self) -> JobStatus:
        """Return the status as of now."""
        with self._lock:
            return self._status

    def update(self, **changes: object) -> None:
        """Replace fields of the status."""
        with self._lock:
            self._status = self._status.model_copy(update=changes)

    def fail(self, state: JobState, error: HeadraceError) -> None:
        """Note a failure and the state that it leads to."""
        notes = "\n".join(getattr(error, "__notes__", []))
        described = JobError(
            kind=error.kind,
            message=str(error),
            traceback=getattr(error, "traceback_text", "") or notes,
            restartable=error.restartable,
            at_ms=self._clock.now_ms(),
        )
        self.update(state=state, last_error=described)

    def checkpoints(self) -> tuple[list[CheckpointSummary], CheckpointCounts | None]:
        """Return the remembered checkpoints, newest first, and the totals."""
        with self._lock:
            return list(self._checkpoints), self._counts

    def set_checkpoints(self, entries: list[CheckpointSummary], counts: CheckpointCounts) -> None:
        """Replace the checkpoints that are shown."""
        with self._lock:
            self._checkpoints, self._counts = entries, counts

    def metrics(self) -> dict[str, float]:
        """Return the job's gauges by name."""
        with self._lock:
            return dict(self._metrics)

    def set_metrics(self, metrics: Mapping[str, float | None]) -> None:
        """Set gauges; those not named keep their values, None takes one away."""
        with self._lock:
            for name, value in metrics.items():
                if value is None:
                    self._metrics.pop(name, None)
                else:
                    self._metrics[name] = value
