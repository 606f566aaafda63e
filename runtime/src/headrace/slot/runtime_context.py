"""What a user function learns of its surroundings: PyFlink's ``RuntimeContext``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from headrace.datastream.functions import RuntimeContext
from headrace.datastream.state_ttl import StateTtlConfig
from headrace.errors import InvalidProgramError
from headrace.state.access import PLAIN, StateTraits, TimeToLive

if TYPE_CHECKING:
    from headrace.datastream.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReducingState,
        ReducingStateDescriptor,
        StateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )
    from headrace.graph.job_graph import JobOperator
    from headrace.ids import JobId, SlotIndex
    from headrace.state.contract import KeyedStateBackend


@dataclass(frozen=True, slots=True)
class SlotRuntimeContext(RuntimeContext):
    """Runtime context of one operator in one slot."""

    operator: JobOperator
    slot: SlotIndex
    parallelism: int
    max_parallelism: int
    job_id: JobId
    job_name: str
    backend: KeyedStateBackend | None

    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the keyed value state of this name.

        Raises:
            InvalidProgramError: the operator is not keyed.
            IncompatibleStateError: stored state of this name has another kind or type.
        """
        state = self._keyed(state_descriptor).value_state(
            state_descriptor.name,
            state_descriptor.type_info.value_serializer(),
            _traits(state_descriptor),
        )
        # The state objects have the methods of these classes; layers keep them apart. So below.
        return cast("ValueState[Any]", state)

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the keyed list state of this name; raises as `get_state`."""
        state = self._keyed(state_descriptor).list_state(
            state_descriptor.name,
            state_descriptor.elem_type_info.value_serializer(),
            _traits(state_descriptor),
        )
        return cast("ListState[Any]", state)

    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the keyed map state of this name; raises as `get_state`."""
        state = self._keyed(state_descriptor).map_state(
            state_descriptor.name,
            state_descriptor.key_type_info.key_serializer(),
            state_descriptor.value_type_info.value_serializer(),
            _traits(state_descriptor),
        )
        return cast("MapState[Any, Any]", state)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the keyed reducing state of this name; raises as `get_state`."""
        state = self._keyed(state_descriptor).reducing_state(
            state_descriptor.name,
            state_descriptor.type_info.value_serializer(),
            state_descriptor.get_reduce_function().reduce,
            _traits(state_descriptor),
        )
        return cast("ReducingState[Any]", state)

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """Return the keyed aggregating state of this name; raises as `get_state`."""
        state = self._keyed(state_descriptor).aggregating_state(
            state_descriptor.name,
            state_descriptor.type_info.value_serializer(),
            state_descriptor.get_agg_function(),
            _traits(state_descriptor),
        )
        return cast("AggregatingState[Any, Any]", state)

    def _keyed(self, descriptor: StateDescriptor) -> KeyedStateBackend:
        if self.backend is None:
            msg = (
                "keyed state needs a keyed stream, call key_by before this operator; "
                f"operator={self.operator.name!r} state={descriptor.name!r}"
            )
            raise InvalidProgramError(msg)
        return self.backend

    def get_task_name(self) -> str:
        """Return the operator's name."""
        return self.operator.name

    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with the 1-based subtask, as Flink writes it."""
        return f"{self.operator.name} ({self.slot + 1}/{self.parallelism})"

    def get_index_of_this_subtask(self) -> int:
        """Return the slot's index, from 0."""
        return self.slot

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism."""
        return self.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the max parallelism."""
        return self.max_parallelism

    def get_attempt_number(self) -> int:
        """Return 0: attempts are counted by generation, see the job's status."""
        return 0

    def get_job_parameter(self, key: str, default_value: str) -> str:  # noqa: ARG002 - PyFlink's signature
        """Return ``default_value``: there are no global job parameters yet."""
        return default_value


def _traits(descriptor: StateDescriptor) -> StateTraits:
    """Return what a descriptor says beside name and type."""
    config = descriptor.ttl_config
    if config is None or not config.is_enabled():
        return PLAIN
    strategies = config.get_cleanup_strategies()
    kinds = StateTtlConfig.CleanupStrategies.Strategies
    incremental = (
        strategies.get_incremental_cleanup_strategy()
        if strategies.is_configured(kinds.INCREMENTAL_CLEANUP)
        else None
    )
    return StateTraits(
        TimeToLive(
            ttl_ms=config.get_ttl().to_milliseconds(),
            on_read=config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
            return_expired=config.get_state_visibility()
            is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
            purge_in_background=strategies.is_cleanup_in_background()
            or strategies.is_configured(kinds.ROCKSDB_COMPACTION_FILTER)
            or (incremental is not None and incremental.run_cleanup_for_every_record()),
            purge_per_access=incremental.get_cleanup_size() if incremental else 0,
            purge_at_snapshot=strategies.in_full_snapshot(),
        )
    )
