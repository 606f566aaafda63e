"""Numbers of a running job: rates, sizes, durations, as REST shows them (K1, K2).

Names are Flink's where Flink has one. Rates are over a sliding window of `WINDOW_S` seconds.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.checkpoint.history import CheckpointHistory
    from headrace.clock import Clock
    from headrace.driver.admission import AdmissionStatus
    from headrace.driver.events import EpochFinished
    from headrace.driver.status import StatusBoard
    from headrace.slot.messages import EpochResult, Restored

log = logging.getLogger(__name__)

WINDOW_S: Final = 10.0


class JobProgress:
    """Keeps the status board up to date; used by the job master's thread."""

    def __init__(self, status: StatusBoard, clock: Clock) -> None:
        self._status = status
        self._clock = clock
        self._records = 0
        self._epochs = 0
        self._claimed_at_s = 0.0
        self._failed_at_s: float | None = None
        self._window: deque[tuple[float, int]] = deque()

    def failed(self) -> None:
        """Note the moment of a failure: recovery time runs from here."""
        if self._failed_at_s is None:
            self._failed_at_s = self._clock.monotonic_s()

    def generation_started(self) -> None:
        """Begin to count epochs anew."""
        self._epochs = 0
        self._claimed_at_s = self._clock.monotonic_s()

    def restored(self, slot: int, message: Restored) -> None:
        """Note that a slot has its state."""
        log.info(
            "slot restored slot=%s local=%s restore_ms=%.0f downloaded_bytes=%s",
            slot,
            message.local,
            message.restore_ms,
            message.downloaded_bytes,
        )

    def epoch_finished(self, event: EpochFinished) -> None:
        """Count an epoch."""
        self._epochs += 1
        now = self._clock.monotonic_s()
        if self._epochs == 1:
            log.info(
                "first epoch has ended epoch=%s duration_ms=%.0f s_since_claim=%.1f",
                event.epoch,
                event.duration_ms,
                now - self._claimed_at_s,
            )
        if self._failed_at_s is not None:
            self._status.update(last_recovery_s=round(now - self._failed_at_s, 3))
            self._failed_at_s = None
        self.records(event.results)
        results = event.results
        self._status.update(
            epoch=int(event.epoch),
            epochs_committed=self._epochs,
            watermark_ms=results[0].watermark_ms,
            source_lag=event.admission.lag,
        )
        self._status.set_metrics(self._source_metrics(event.admission, results[0].watermark_ms))
        busiest_ns = max(r.decode_ns + r.user_ns + r.timers_ns for r in results)
        self._status.set_metrics(
            {
                "epochDuration": event.duration_ms,
                "epochDecodeTime": max(r.decode_ns for r in results) / 1e6,
                "epochUserTime": max(r.user_ns for r in results) / 1e6,
                "epochTimersTime": max(r.timers_ns for r in results) / 1e6,
                "epochSlotBusyTime": busiest_ns / 1e6,
            }
        )

    def _source_metrics(
        self, admission: AdmissionStatus, watermark_ms: int | None
    ) -> dict[str, float | None]:
        """Return how far the job is behind its sources, None where that cannot be told (K8)."""
        behind_ms = None if watermark_ms is None else self._clock.now_ms() - watermark_ms
        return {
            "sourceLag": admission.lag,
            "pendingRecords": admission.lag,
            "epochMaxRows": admission.max_rows,
            "currentInputWatermark": watermark_ms,
            "watermarkLag": behind_ms,
        }

    def records(self, results: Iterable[EpochResult]) -> None:
        """Count the records of one epoch."""
        now = self._clock.monotonic_s()
        self._records += sum(result.records_in for result in results)
        self._window.append((now, self._records))
        while len(self._window) > 2 and now - self._window[0][0] > WINDOW_S:
            self._window.popleft()
        first_s, first_records = self._window[0]
        elapsed = now - first_s
        rate = (self._records - first_records) / elapsed if elapsed > 0 else 0.0
        self._status.update(records_in=self._records)
        self._status.set_metrics({"numRecordsIn": self._records, "numRecordsInPerSecond": rate})

    def checkpoints(self, history: CheckpointHistory) -> None:
        """Show the checkpoints."""
        last = history.last_completed
        self._status.set_checkpoints(history.entries(), history.counts)
        if last is None:
            return
        self._status.update(last_checkpoint=last)
        self._status.set_metrics(
            {
                "checkpointDuration": float(last.duration_ms or 0),
                "lastCheckpointDuration": float(last.duration_ms or 0),
                "lastCheckpointSyncTime": float(last.sync_ms or 0),
                "stateSizeBytes": float(last.state_size_bytes),
                "lastCheckpointFullSize": float(last.state_size_bytes),
                "lastCheckpointSize": float(last.uploaded_bytes),
                "numberOfCompletedCheckpoints": float(history.counts.completed),
                "numberOfFailedCheckpoints": float(history.counts.failed),
            }
        )
