"""Durations and instants, as ``pyflink.common.time``. All are whole milliseconds."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.config.values import format_duration

_SECOND_MS = 1_000
_MINUTE_MS = 60 * _SECOND_MS
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    """A length of time; made by the ``of_`` methods."""

    milliseconds: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """Return so many days of 24 hours."""
        return Duration(days * _DAY_MS)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Return so many hours."""
        return Duration(hours * _HOUR_MS)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Return so many minutes."""
        return Duration(minutes * _MINUTE_MS)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Return so many seconds."""
        return Duration(seconds * _SECOND_MS)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Return so many milliseconds."""
        return Duration(millis)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Return so many nanoseconds, rounded down to milliseconds."""
        return Duration(nanos // 1_000_000)

    def to_millis(self) -> int:
        """Return the length in milliseconds."""
        return self.milliseconds

    def __str__(self) -> str:
        return format_duration(self.milliseconds)


class Time:
    """A length of time of windows and state; made by the unit methods."""

    __slots__ = ("_milliseconds",)

    def __init__(self, milliseconds: int) -> None:
        self._milliseconds = milliseconds

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Time):
            return NotImplemented
        return self._milliseconds == other._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        return f"Time({self._milliseconds})"

    def to_milliseconds(self) -> int:
        """Return the length in milliseconds."""
        return self._milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Return so many milliseconds."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Return so many seconds."""
        return Time(seconds * _SECOND_MS)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Return so many minutes."""
        return Time(minutes * _MINUTE_MS)

    @staticmethod
    def hours(hours: int) -> Time:
        """Return so many hours."""
        return Time(hours * _HOUR_MS)

    @staticmethod
    def days(days: int) -> Time:
        """Return so many days of 24 hours."""
        return Time(days * _DAY_MS)


@dataclass(frozen=True, order=True, slots=True)
class Instant:
    """A point in time: seconds and nanoseconds since the Unix epoch."""

    seconds: int
    nanos: int

    def to_epoch_milli(self) -> int:
        """Return milliseconds since the Unix epoch, rounded down."""
        return self.seconds * 1_000 + self.nanos // 1_000_000

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant so many milliseconds after the Unix epoch."""
        seconds, millis = divmod(epoch_milli, 1_000)
        return Instant(seconds, millis * 1_000_000)
