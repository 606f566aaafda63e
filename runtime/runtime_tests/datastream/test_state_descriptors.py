"""Descriptors and expiry of keyed state, as PyFlink's (B7-B12, B15)."""

from __future__ import annotations

import inspect

import pytest

from headrace.common import Duration, Time, Types
from headrace.datastream import state
from headrace.datastream.functions import AggregateFunction, ReduceFunction
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.errors import InvalidProgramError
from headrace.serialization.types import ListType, MapType
from headrace.state.folding_state import AggregatingState, ReducingState
from headrace.state.list_state import CachedListState
from headrace.state.map_state import CachedMapState
from headrace.state.ttl import ExpiringListState, ExpiringMapState, ExpiringValueState
from headrace.state.value_state import CachedValueState, SerializedValueState

LONG, STRING = Types.LONG(), Types.STRING()


class Longest(ReduceFunction):
    def reduce(self, value1, value2):
        return max(value1, value2, key=len)


class Count(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


@pytest.mark.parametrize(
    ("declared", "objects"),
    [
        (state.ValueState, [CachedValueState, SerializedValueState, ExpiringValueState]),
        (state.ListState, [CachedListState, ExpiringListState]),
        (state.MapState, [CachedMapState, ExpiringMapState]),
        (state.ReducingState, [ReducingState]),
        (state.AggregatingState, [AggregatingState]),
    ],
)
def test_the_objects_that_functions_get_have_every_declared_method(declared, objects):
    """Layers keep the declarations apart from the objects, so nothing else would notice."""
    methods = {
        name: list(inspect.signature(method).parameters)
        for name, method in inspect.getmembers(declared, inspect.isfunction)
        if name != "__init__"
    }
    for found in objects:
        in_instances = {"get", "clear"} if found is ReducingState else {"clear"}
        for name, parameters in methods.items():
            if not (hasattr(found, name) or name in in_instances):
                pytest.fail(f"{found.__name__} has no {name}")
            if hasattr(found, name):
                assert list(inspect.signature(getattr(found, name)).parameters) == parameters


def test_descriptors_have_pyflinks_types():
    items, entries = ListStateDescriptor("a", LONG), MapStateDescriptor("b", STRING, LONG)

    assert items.type_info.description == ListType(LONG.description)
    assert entries.type_info.description == MapType(STRING.description, LONG.description)
    assert (items.elem_type_info, entries.key_type_info, entries.value_type_info) == (
        LONG,
        STRING,
        LONG,
    )


def test_reducing_takes_functions_and_function_objects():
    plain = ReducingStateDescriptor("a", lambda one, other: one + other, LONG)

    assert plain.get_reduce_function().reduce(1, 2) == 3
    function = Longest()
    assert ReducingStateDescriptor("a", function, STRING).get_reduce_function() is function
    with pytest.raises(InvalidProgramError, match="state='a'"):
        ReducingStateDescriptor("a", 5, LONG)


def test_aggregating_takes_an_aggregate_function():
    function = Count()

    assert AggregatingStateDescriptor("a", function, LONG).get_agg_function() is function
    with pytest.raises(InvalidProgramError, match="AggregateFunction"):
        AggregatingStateDescriptor("a", lambda one, other: one, LONG)


def test_expiry_has_flinks_defaults():
    config = StateTtlConfig.new_builder(Time.hours(24)).build()

    assert config.get_ttl() == Time.days(1)
    assert config.is_enabled()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    strategies = config.get_cleanup_strategies()
    assert strategies.is_cleanup_in_background()
    assert not strategies.in_full_snapshot()
    assert strategies.get_incremental_cleanup_strategy().get_cleanup_size() == 5
    compaction = strategies.get_rocksdb_compact_filter_cleanup_strategy()
    assert compaction.get_query_time_after_num_entries() == 1000
    assert compaction.get_periodic_compaction_time() == Duration.of_days(30)


def test_everything_about_expiry_can_be_set():
    config = (
        StateTtlConfig.new_builder(Time.seconds(1))
        .set_ttl(Duration.of_minutes(1))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .disable_cleanup_in_background()
        .cleanup_full_snapshot()
        .cleanup_incrementally(7, True)
        .build()
    )

    assert config.get_ttl() == Time.minutes(1)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert (
        config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    )
    strategies = config.get_cleanup_strategies()
    assert not strategies.is_cleanup_in_background()
    assert strategies.in_full_snapshot()
    assert strategies.get_incremental_cleanup_strategy().get_cleanup_size() == 7
    assert strategies.get_incremental_cleanup_strategy().run_cleanup_for_every_record()
    assert strategies.get_rocksdb_compact_filter_cleanup_strategy() is None


@pytest.mark.parametrize("ttl", [Time.seconds(0), Duration.of_seconds(-1)])
def test_a_time_to_live_of_nothing_is_refused(ttl):
    with pytest.raises(InvalidProgramError, match="ttl_ms="):
        StateTtlConfig.new_builder(ttl).build()


def test_a_descriptor_without_expiry_has_none():
    assert ValueStateDescriptor("a", LONG).ttl_config is None
