"""What local sinks send back to the program: the records of ``execute_and_collect``.

The engine calls `Outputs.collect` from any thread. After a failover the records of repeated epochs
come again, as the job's local sinks are at least once.
"""

from __future__ import annotations

import threading

from headrace.errors import InternalError


class Outputs:
    """Receives the records that one environment's program asked for, by channel."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collected: dict[str, list[object]] = {}
        self._limits: dict[str, int] = {}

    def expect(self, channel: str, limit: int | None) -> None:
        """Collect what comes over ``channel``, at most ``limit`` records."""
        with self._lock:
            self._collected[channel] = []
            if limit is not None:
                self._limits[channel] = limit

    def collect(self, channel: str, record: object) -> None:
        """Take one record that a slot sent; records beyond the limit are dropped.

        Raises:
            InternalError: nobody asked for this channel.
        """
        with self._lock:
            collected = self._collected.get(channel)
            if collected is None:
                msg = f"output for a channel that nobody reads; channel={channel}"
                raise InternalError(msg)
            if len(collected) < self._limits.get(channel, len(collected) + 1):
                collected.append(record)

    def is_satisfied(self) -> bool:
        """Return whether every limited channel is full, so that the job may be stopped."""
        with self._lock:
            return bool(self._limits) and all(
                len(self._collected[channel]) >= limit for channel, limit in self._limits.items()
            )

    def take(self, channel: str) -> list[object]:
        """Return what came over ``channel`` and forget it."""
        with self._lock:
            self._limits.pop(channel, None)
            return self._collected.pop(channel, [])
