"""A slot process ends when it is told to, also when user code never gives its main thread back."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

GRACE_S: Final = 10.0
"""Time for the main thread to end by itself: longer than user code is between two records."""


def end_hard_unless(
    ended: threading.Event, grace_s: float = GRACE_S, exit_now: Callable[[int], object] = os._exit
) -> None:
    """Begin to wait for ``ended``; ends the process when it does not come in time."""

    def watch() -> None:
        if not ended.wait(grace_s):
            log.error("the main thread is stuck, most likely in user code: the process ends now")
            exit_now(1)

    threading.Thread(target=watch, name="hard-end", daemon=True).start()
