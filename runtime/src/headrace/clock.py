"""The only place that reads the wall clock or sleeps; everything else is handed a `Clock`."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Time as seen by a component; tests hand in a manual one."""

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since the Unix epoch."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds of a clock that never goes back; only differences mean something."""
        ...

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait until ``event`` is set or ``timeout_s`` has passed; return whether it is set."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Return wall-clock milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        """Return seconds of the monotonic clock."""
        return time.monotonic()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait on ``event`` for at most ``timeout_s`` seconds."""
        return event.wait(timeout_s)
