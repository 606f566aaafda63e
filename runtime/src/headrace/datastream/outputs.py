"""What local sinks send to the program: lines of ``print``, rows of ``execute_and_collect``.

The engine calls `Outputs.deliver` from any thread with what slots sent; after a failover output of
repeated epochs comes again, as in Flink's ``print``.
"""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Final

from headrace.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

PRINT_CHANNEL: Final = "print"
"""Channel of all ``print`` sinks; its items are UTF-8 lines. Other channels carry pickles."""


class Outputs:
    """Receives the output of local sinks of one environment."""

    def __init__(self, printed: TextIO) -> None:
        """Write printed lines to ``printed``."""
        self._printed = printed
        self._lock = threading.Lock()
        self._collected: dict[str, list[object]] = {}
        self._limits: dict[str, int] = {}

    def expect(self, channel: str, limit: int | None) -> None:
        """Collect what comes over ``channel``, at most ``limit`` values."""
        with self._lock:
            self._collected[channel] = []
            if limit is not None:
                self._limits[channel] = limit

    def deliver(self, channel: str, items: Sequence[bytes]) -> None:
        """Take items that a slot sent.

        Raises:
            InternalError: nobody asked for this channel.
        """
        if channel == PRINT_CHANNEL:
            with self._lock:
                self._printed.writelines(f"{item.decode()}\n" for item in items)
                self._printed.flush()
            return
        # Items are pickles from slots that proved that they belong to this job.
        values = [pickle.loads(item) for item in items]  # noqa: S301
        with self._lock:
            collected = self._collected.get(channel)
            if collected is None:
                msg = f"output for a channel that nobody reads; channel={channel}"
                raise InternalError(msg)
            room = self._limits.get(channel, len(collected) + len(values)) - len(collected)
            collected.extend(values[:room])

    def is_satisfied(self) -> bool:
        """Return whether every limited channel is full: the job may be stopped."""
        with self._lock:
            return bool(self._limits) and all(
                len(self._collected[channel]) >= limit for channel, limit in self._limits.items()
            )

    def take(self, channel: str) -> list[object]:
        """Return what came over ``channel`` and forget it."""
        with self._lock:
            self._limits.pop(channel, None)
            return self._collected.pop(channel, [])
