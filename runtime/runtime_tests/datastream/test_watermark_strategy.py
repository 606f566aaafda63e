"""Strategies of event time (B5)."""

from __future__ import annotations

import pytest

from headrace.common import Duration, TimestampAssigner, WatermarkStrategy
from headrace.errors import InvalidProgramError


class FirstField(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value[0] + max(record_timestamp, 0)


def test_the_order_of_settings_does_not_matter():
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    assigner = FirstField()
    one = bounded.with_idleness(Duration.of_minutes(1)).with_timestamp_assigner(assigner)
    other = bounded.with_timestamp_assigner(assigner).with_idleness(Duration.of_minutes(1))

    assert one == other
    assert (one.to_spec().idleness_ms, one.to_spec().out_of_orderness_ms) == (60_000, 5_000)


def test_a_strategy_is_never_changed():
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
    bounded.with_idleness(Duration.of_minutes(1))

    assert bounded.to_spec().idleness_ms is None


@pytest.mark.parametrize("assigner", [FirstField(), lambda value, stamp: value[0] + max(stamp, 0)])
def test_an_assigner_is_an_object_or_a_function(assigner):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(assigner)

    assert strategy.to_spec().timestamp_assigner((7,), -1) == 7


def test_without_watermarks_there_is_no_event_time():
    assert not WatermarkStrategy.no_watermarks().to_spec().is_event_time
    with pytest.raises(InvalidProgramError, match="for_monotonous_timestamps"):
        WatermarkStrategy.no_watermarks().with_timestamp_assigner(FirstField())


def test_impossible_times_are_refused():
    monotonous = WatermarkStrategy.for_monotonous_timestamps()
    with pytest.raises(InvalidProgramError, match="idleness must be positive; milliseconds=0"):
        monotonous.with_idleness(Duration.of_millis(0))
    with pytest.raises(InvalidProgramError, match="must not be negative; milliseconds=-1"):
        WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(-1))
    with pytest.raises(InvalidProgramError, match="type=int"):
        monotonous.with_timestamp_assigner(5)
