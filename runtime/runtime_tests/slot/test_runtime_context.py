"""What a keyed function gets from its runtime context: state of every kind (B7-B11, B15)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.common import Time, Types
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.errors import IncompatibleStateError, InvalidProgramError
from headrace.ids import JobId, SlotIndex
from headrace.slot.runtime_context import SlotRuntimeContext
from headrace.state.access import TimeToLive
from runtime_tests.datastream.test_state_descriptors import Count
from runtime_tests.state.bench_of_state import StateBench

LONG, STRING = Types.LONG(), Types.STRING()


def context_of(backend) -> SlotRuntimeContext:
    return SlotRuntimeContext(
        operator=SimpleNamespace(name="Count", uid="count"),
        slot=SlotIndex(0),
        parallelism=1,
        max_parallelism=16,
        job_id=JobId("0" * 32),
        job_name="job",
        backend=backend,
    )


@pytest.fixture
def bench(tmp_path):
    bench = StateBench.open("hashmap", tmp_path)
    yield bench
    bench.backend.close()


def test_state_of_every_kind_belongs_to_the_current_key(bench):
    context = context_of(bench.backend)
    value = context.get_state(ValueStateDescriptor("value", LONG))
    items = context.get_list_state(ListStateDescriptor("items", STRING))
    entries = context.get_map_state(MapStateDescriptor("entries", STRING, LONG))
    total = context.get_reducing_state(ReducingStateDescriptor("total", lambda a, b: a + b, LONG))
    count = context.get_aggregating_state(AggregatingStateDescriptor("count", Count(), LONG))
    for number, key in enumerate("aba"):
        bench.select(key)
        value.update(number)
        items.add(key)
        entries[f"{number}"] = number
        total.add(number)
        count.add("anything")

    bench.select("a")
    assert value.value() == 2
    assert list(items) == items.get() == ["a", "a"]
    assert list(entries.items()) == [("0", 0), ("2", 2)]
    assert (total.get(), count.get()) == (2, 2)


@pytest.mark.parametrize(
    ("configure", "expected"),
    [
        (lambda builder: builder, TimeToLive(60_000)),
        (
            lambda builder: builder.update_ttl_on_read_and_write(),
            TimeToLive(60_000, on_read=True),
        ),
        (
            lambda builder: builder.return_expired_if_not_cleaned_up(),
            TimeToLive(60_000, return_expired=True),
        ),
        (
            lambda builder: builder.disable_cleanup_in_background(),
            TimeToLive(60_000, purge_in_background=False),
        ),
        (
            lambda builder: builder.disable_cleanup_in_background().cleanup_incrementally(9, False),
            TimeToLive(60_000, purge_in_background=False, purge_per_access=9),
        ),
        (
            lambda builder: builder.disable_cleanup_in_background().cleanup_incrementally(9, True),
            TimeToLive(60_000, purge_per_access=9),
        ),
        (
            lambda builder: (
                builder.disable_cleanup_in_background().cleanup_in_rocksdb_compact_filter(1000)
            ),
            TimeToLive(60_000),
        ),
        (
            lambda builder: builder.cleanup_full_snapshot(),
            TimeToLive(60_000, purge_at_snapshot=True),
        ),
        (
            lambda builder: builder.set_update_type(StateTtlConfig.UpdateType.Disabled),
            None,
        ),
    ],
)
def test_expiry_is_handed_to_the_backend(bench, configure, expected):
    descriptor = ValueStateDescriptor("value", LONG)
    descriptor.enable_time_to_live(configure(StateTtlConfig.new_builder(Time.minutes(1))).build())
    context_of(bench.backend).get_state(descriptor)

    assert bench.backend._states._traits["value"].ttl == expected


def test_state_expires_by_the_slots_clock(bench):
    descriptor = MapStateDescriptor("entries", STRING, LONG)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    entries = context_of(bench.backend).get_map_state(descriptor)
    bench.select("a")
    entries["x"] = 1
    bench.clock.time_ms += 1000

    assert "x" not in entries


@pytest.mark.parametrize(
    "get",
    [
        lambda context: context.get_state(ValueStateDescriptor("x", LONG)),
        lambda context: context.get_list_state(ListStateDescriptor("x", LONG)),
        lambda context: context.get_map_state(MapStateDescriptor("x", LONG, LONG)),
        lambda context: context.get_reducing_state(ReducingStateDescriptor("x", max, LONG)),
        lambda context: context.get_aggregating_state(
            AggregatingStateDescriptor("x", Count(), LONG)
        ),
    ],
)
def test_state_without_a_key_is_refused(get):
    with pytest.raises(InvalidProgramError, match=r"call key_by .* state='x'"):
        get(context_of(None))


def test_one_name_is_one_kind_of_state(bench):
    context = context_of(bench.backend)
    context.get_list_state(ListStateDescriptor("x", LONG))

    with pytest.raises(IncompatibleStateError, match=r"from list to map.*state=x"):
        context.get_map_state(MapStateDescriptor("x", LONG, LONG))


def test_a_map_whose_keys_have_no_order_is_refused(bench):
    with pytest.raises(InvalidProgramError, match="cannot be keys"):
        context_of(bench.backend).get_map_state(
            MapStateDescriptor("x", Types.MAP(STRING, LONG), LONG)
        )
