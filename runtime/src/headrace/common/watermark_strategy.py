"""Event time of a source, as ``pyflink.common.watermark_strategy`` (B5).

Strategies are immutable: every ``with_`` method returns a new one.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.errors import InvalidProgramError
from headrace.graph.stream_graph import NO_WATERMARKS, WatermarkSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.time import Duration


class TimestampAssigner(abc.ABC):
    """Gives every record its event time."""

    @abc.abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:  # noqa: ANN401 - user's
        """Return the event time of a record in ms since the Unix epoch.

        Args:
            value: the record.
            record_timestamp: its present timestamp in ms, negative when it has none.
        """


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How watermarks follow the timestamps of records; made by the ``for_`` methods."""

    _spec: WatermarkSpec = field(default=NO_WATERMARKS)

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """Return the strategy for timestamps that never go back within a split."""
        return WatermarkStrategy(WatermarkSpec(kind="monotonous"))

    @staticmethod
    def for_bounded_out_of_orderness(max_out_of_orderness: Duration) -> WatermarkStrategy:
        """Return the strategy for records that are late by at most ``max_out_of_orderness``."""
        delay_ms = max_out_of_orderness.to_millis()
        if delay_ms < 0:
            msg = f"out-of-orderness must not be negative; milliseconds={delay_ms}"
            raise InvalidProgramError(msg)
        return WatermarkStrategy(WatermarkSpec(kind="bounded", out_of_orderness_ms=delay_ms))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """Return the strategy for programs without event time."""
        return WatermarkStrategy(NO_WATERMARKS)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Return this strategy with timestamps from ``timestamp_assigner``.

        Args:
            timestamp_assigner: an object, or a function (value, record timestamp) -> ms.

        Raises:
            InvalidProgramError: it is neither, or the strategy has no watermarks.
        """
        if not self._spec.is_event_time:
            msg = (
                "timestamps without watermarks are not supported, begin with "
                "WatermarkStrategy.for_monotonous_timestamps()"
            )
            raise InvalidProgramError(msg)
        assign = (
            timestamp_assigner.extract_timestamp
            if isinstance(timestamp_assigner, TimestampAssigner)
            else timestamp_assigner
        )
        if not callable(assign):
            msg = (
                "a timestamp assigner is a TimestampAssigner or a function; "
                f"type={type(timestamp_assigner).__name__}"
            )
            raise InvalidProgramError(msg)
        return WatermarkStrategy(replace(self._spec, timestamp_assigner=assign))

    def with_idleness(self, idle_timeout: Duration) -> WatermarkStrategy:
        """Return this strategy, in which a split without records for so long does not count."""
        idleness_ms = idle_timeout.to_millis()
        if idleness_ms <= 0:
            msg = f"idleness must be positive; milliseconds={idleness_ms}"
            raise InvalidProgramError(msg)
        return WatermarkStrategy(replace(self._spec, idleness_ms=idleness_ms))

    def to_spec(self) -> WatermarkSpec:
        """Return the strategy as the graph holds it."""
        return self._spec
