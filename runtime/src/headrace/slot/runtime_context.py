"""What a user function learns of its surroundings: PyFlink's ``RuntimeContext``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from headrace.datastream.functions import RuntimeContext
from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from headrace.datastream.state import ValueState, ValueStateDescriptor
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
            IncompatibleStateError: stored state of this name has another type.
        """
        if self.backend is None:
            msg = (
                "keyed state needs a keyed stream, call key_by before this operator; "
                f"operator={self.operator.name!r} state={state_descriptor.name!r}"
            )
            raise InvalidProgramError(msg)
        state = self.backend.value_state(state_descriptor.name, state_descriptor.serializer())
        return cast("ValueState[Any]", state)  # same methods, kept apart so that layers stay apart

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
