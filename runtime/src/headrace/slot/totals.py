"""Counters of one epoch over the levels of a slot, on their way to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.slot.messages import EpochResult

if TYPE_CHECKING:
    from headrace.slot.level import SlotLevel


@dataclass(slots=True)
class EpochTotals:
    """Counters of one epoch over the levels of this slot."""

    records_in: int = 0
    records_out: int = 0
    decode_ns: int = 0
    user_ns: int = 0
    timers_ns: int = 0
    chunks_in: int = 0

    def add(self, runtime: SlotLevel) -> None:
        """Add what one level has counted."""
        counters = runtime.counters
        if runtime.level.level == 1:
            self.records_in += counters.records_in
        self.records_out += counters.records_out
        self.decode_ns += counters.decode_ns
        self.user_ns += counters.user_ns
        self.timers_ns += counters.timers_ns
        self.chunks_in += counters.chunks_in

    def to_result(self, watermark_ms: int | None, source_records: int) -> EpochResult:
        """Return what the driver is told."""
        return EpochResult(
            records_in=self.records_in,
            records_out=self.records_out,
            late_records=0,
            watermark_ms=watermark_ms,
            decode_ns=self.decode_ns,
            user_ns=self.user_ns,
            timers_ns=self.timers_ns,
            chunks_in=self.chunks_in,
            source_records=source_records,
        )
