"""Time as the operator sees it; tests hand in a manual clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall clock and monotonic clock."""

    def now(self) -> datetime:
        """Return the time in UTC, cut to milliseconds."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds of a clock that never goes back; only differences mean something."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the time in UTC, cut to milliseconds."""
        return datetime.fromtimestamp(time.time_ns() // 1_000_000 / 1000, tz=UTC)

    def monotonic_s(self) -> float:
        """Return seconds of the monotonic clock."""
        return time.monotonic()
