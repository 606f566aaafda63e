"""Waiting for a condition that can only be observed by looking again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from headrace.clock import Clock, SystemClock


def poll_until(
    condition: Callable[[], bool],
    timeout_s: float,
    interval_s: float = 0.05,
    clock: Clock | None = None,
) -> bool:
    """Looks until a condition holds.

    Args:
        condition: Looked at once at least, and once more after the time is up. May raise to give
            up early.
        timeout_s: How long to go on looking.
        interval_s: Pause between two looks.
        clock: The machine's, unless a test hands in another.

    Returns:
        Whether it held in time.
    """
    clock = clock or SystemClock()
    pause = threading.Event()
    deadline_s = clock.monotonic_s() + timeout_s
    while not condition():
        if clock.monotonic_s() > deadline_s:
            return False
        clock.wait(pause, interval_s)
    return True
