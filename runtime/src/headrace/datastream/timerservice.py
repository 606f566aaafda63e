"""Timers as a function sees them, as ``pyflink.datastream.timerservice``."""

from __future__ import annotations

import abc


class TimerService(abc.ABC):
    """Reads time and sets timers of the current key. Times are ms since the Unix epoch."""

    @abc.abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time: of the present epoch, the same in every slot."""

    @abc.abstractmethod
    def current_watermark(self) -> int:
        """Return the event-time watermark; it moves at the end of every epoch."""

    @abc.abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Set a timer that fires when processing time passes ``timestamp``."""

    @abc.abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Set a timer that fires when the watermark passes ``timestamp``."""

    @abc.abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the timer at ``timestamp``, if there is one."""

    @abc.abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the timer at ``timestamp``, if there is one."""
