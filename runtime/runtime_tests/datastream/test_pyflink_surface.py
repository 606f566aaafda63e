"""Names and parameters are PyFlink's, so that moving a program is changing its imports.

``pyflink_surface.json`` lists the public classes, methods and parameters of PyFlink 2.3 in the
modules that have a counterpart here. What exists on both sides must have the same parameters in the
same order; further ones of ours must be optional.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import json
from pathlib import Path

import pytest

SURFACE = json.loads((Path(__file__).parent / "pyflink_surface.json").read_text())

REQUIRED = {
    "datastream.data_stream": {
        "DataStream": "map filter flat_map key_by process union assign_timestamps_and_watermarks "
        "sink_to print uid name set_parallelism rebalance execute_and_collect get_type",
        "KeyedStream": "process reduce map flat_map filter key_by",
        "DataStreamSink": "name uid set_parallelism",
    },
    "datastream.stream_execution_environment": {
        "StreamExecutionEnvironment": "get_execution_environment set_parallelism get_parallelism "
        "set_max_parallelism enable_checkpointing get_checkpoint_config configure from_source "
        "from_collection execute get_execution_plan set_runtime_mode"
    },
    "datastream.functions": {
        "KeyedProcessFunction": "process_element on_timer",
        "KeyedProcessFunction.Context": "get_current_key timer_service timestamp",
        "KeyedProcessFunction.OnTimerContext": "time_domain",
        "RuntimeContext": "get_index_of_this_subtask get_number_of_parallel_subtasks",
        "KeyedStateStore": "get_state get_list_state get_map_state get_reducing_state "
        "get_aggregating_state",
        "AggregateFunction": "create_accumulator add get_result merge",
    },
    "datastream.state": {
        "AppendingState": "get add",
        "ListState": "add_all update",
        "MapState": "get put put_all remove contains items keys values is_empty",
        "State": "clear",
        "StateDescriptor": "get_name enable_time_to_live",
        "StateTtlConfig": "new_builder get_ttl get_update_type get_state_visibility is_enabled "
        "get_ttl_time_characteristic get_cleanup_strategies",
        "StateTtlConfig.Builder": "set_update_type update_ttl_on_create_and_write "
        "update_ttl_on_read_and_write set_state_visibility return_expired_if_not_cleaned_up "
        "never_return_expired set_ttl_time_characteristic use_processing_time "
        "cleanup_full_snapshot cleanup_incrementally cleanup_in_rocksdb_compact_filter "
        "disable_cleanup_in_background set_ttl build",
        "StateTtlConfig.CleanupStrategies": "is_cleanup_in_background in_full_snapshot "
        "get_incremental_cleanup_strategy get_rocksdb_compact_filter_cleanup_strategy",
    },
    "common.watermark_strategy": {
        "WatermarkStrategy": "for_bounded_out_of_orderness for_monotonous_timestamps "
        "no_watermarks with_idleness with_timestamp_assigner"
    },
}
"""What the first part of the surface promises."""


def ours(module, path):
    """Return our class of a dotted path, None when there is none."""
    found = importlib.import_module(f"headrace.{module}")
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def parameters(function):
    names = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in {"self", "cls"}:
            continue
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(
            parameter.kind, ""
        )
        optional = parameter.default is not parameter.empty or prefix
        names.append((prefix + parameter.name, bool(optional)))
    return names


SHARED = [
    (module, path, method)
    for module, classes in SURFACE.items()
    for path, described in classes.items()
    for method in described["methods"]
    if hasattr(ours(module, path), method)
]


@pytest.mark.parametrize(("module", "path", "method"), SHARED, ids=str)
def test_a_method_takes_pyflinks_parameters(module, path, method):
    theirs = SURFACE[module][path]["methods"][method]
    found = parameters(getattr(ours(module, path), method))

    assert [name for name, _ in found][: len(theirs)] == theirs
    assert [name for name, optional in found[len(theirs) :] if not optional] == []


@pytest.mark.parametrize(
    ("module", "path"),
    [(m, p) for m, classes in SURFACE.items() for p, d in classes.items() if "members" in d],
)
def test_enums_have_pyflinks_members(module, path):
    found = ours(module, path)
    if found is None:
        return
    assert issubclass(found, enum.Enum)
    assert [member.name for member in found] == SURFACE[module][path]["members"]


@pytest.mark.parametrize(
    ("module", "path", "method"),
    [
        (module, path, method)
        for module, classes in REQUIRED.items()
        for path, methods in classes.items()
        for method in methods.split()
    ],
)
def test_the_promised_part_of_the_surface_is_there(module, path, method):
    assert method in SURFACE[module][path]["methods"]
    assert hasattr(ours(module, path), method)
