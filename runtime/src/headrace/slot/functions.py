"""User functions of a slot: their life, and the operator state that they keep.

``initialize_state``, ``open``, records, ``snapshot_state`` at every barrier, ``close``. Source:
Flink's ``StreamingFunctionUtils``, ``AbstractUdfStreamOperator``.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from headrace.datastream.checkpointed_function import (
    FunctionInitializationContext,
    FunctionSnapshotContext,
    OperatorStateStore,
    checkpointed,
)
from headrace.errors import HeadraceError, UserCodeError
from headrace.graph.stream_graph import BroadcastState, OperatorKind
from headrace.slot import operator_state
from headrace.slot.broadcast import BroadcastStates
from headrace.slot.runtime_context import SlotRuntimeContext
from headrace.slot.user_code import user_traceback

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.checkpoint.protocol.types import OperatorStateHandle
    from headrace.clock import Clock
    from headrace.datastream.functions import KeyedStateStore
    from headrace.datastream.state import (
        BroadcastState as PublicBroadcastState,
    )
    from headrace.datastream.state import (
        ListState,
        ListStateDescriptor,
        MapStateDescriptor,
    )
    from headrace.graph.job_graph import JobGraph, JobOperator
    from headrace.ids import CheckpointId, SlotIndex
    from headrace.slot.messages import Restore
    from headrace.slot.settings import SlotSettings
    from headrace.state.contract import KeyedStateBackend

log = logging.getLogger(__name__)


class SlotFunctions:
    """All user functions of one slot in one generation; used by the slot's main thread.

    Attributes:
        broadcasts: broadcast state, by operator id.
    """

    def __init__(
        self,
        order: Restore,
        graph: JobGraph,
        slot: SlotIndex,
        settings: SlotSettings,
        clock: Clock,
    ) -> None:
        """Restore operator state.

        Raises:
            IncompatibleStateError: broadcast state of the checkpoint has another type.
        """
        self._order = order
        self._graph = graph
        self._slot = slot
        self._settings = settings
        self._clock = clock
        self._opened: list[JobOperator] = []
        self._stores = {
            operator.id: operator_state.OperatorStateStore(
                operator.uid, slot, [h for h in order.operator if h.operator_uid == operator.uid]
            )
            for operator in graph.operators()
        }
        self.broadcasts = {
            operator.id: BroadcastStates(operator, self._stores[operator.id])
            for operator in graph.operators_in(slot)
            if operator.kind.takes_broadcast
        }

    def open(
        self, operators: Iterable[JobOperator], backends: Mapping[int, KeyedStateBackend]
    ) -> None:
        """Initialize and open the functions of one level.

        Raises:
            UserCodeError: a hook raised.
            HeadraceError: state was asked for that cannot be given.
        """
        for operator in operators:
            parallelism = self._graph.parallelism_of(operator)
            if operator.kind is OperatorKind.SINK or self._slot >= parallelism:
                continue
            context = SlotRuntimeContext(
                operator=operator,
                slot=self._slot,
                parallelism=parallelism,
                max_parallelism=self._order.max_parallelism,
                job_id=self._settings.job_id,
                job_name=self._settings.job_name,
                backend=backends.get(operator.id),
            )
            self._opened.append(operator)
            function = checkpointed(operator.function)
            if function is not None:
                store = _PublicStore(self._stores[operator.id])
                _call(
                    operator,
                    function.initialize_state,
                    _Initialization(self._order.checkpoint_id, store, context),
                )
            opener = getattr(operator.function, "open", None)
            if opener is not None:
                _call(operator, opener, context)

    def finish_registration(self) -> None:
        """Settle what becomes of operator state that no function asked for.

        Raises:
            IncompatibleStateError: there is some, and it may not be dropped.
        """
        for store in self._stores.values():
            store.finish_registration(
                allow_non_restored_state=self._settings.allow_non_restored_state
            )

    def snapshot(self, checkpoint_id: CheckpointId) -> list[OperatorStateHandle]:
        """Call ``snapshot_state`` of all functions and return what they keep.

        Raises:
            UserCodeError: a hook raised.
        """
        context = _Snapshot(checkpoint_id, self._clock.now_ms())
        handles: list[OperatorStateHandle] = []
        for operator in self._opened:
            function = checkpointed(operator.function)
            if function is not None:
                _call(operator, function.snapshot_state, context)
            handles += self._stores[operator.id].store()
        return handles

    def close(self) -> None:
        """Close what was opened."""
        for operator in self._opened:
            closer = getattr(operator.function, "close", None)
            if closer is None:
                continue
            try:
                closer()
            except Exception:
                log.exception("close of a user function failed operator=%s", operator.name)


def _call(operator: JobOperator, hook: Callable[[Any], None], context: object) -> None:
    try:
        hook(context)
    except HeadraceError:
        raise
    except Exception as error:
        msg = f"{hook.__name__} failed: {type(error).__name__}: {error}; operator={operator.name!r}"
        raise UserCodeError(msg, traceback_text=user_traceback(error)) from error


class _PublicStore(OperatorStateStore):
    """The API's view of an operator's store."""

    def __init__(self, store: operator_state.OperatorStateStore) -> None:
        self._store = store

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        serializer = descriptor.elem_type_info.value_serializer()
        # The state objects have the methods of these classes; layers keep them apart. So below.
        return cast("ListState[Any]", self._store.list_state(descriptor.name, serializer))

    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        serializer = descriptor.elem_type_info.value_serializer()
        state = self._store.list_state(descriptor.name, serializer, union=True)
        return cast("ListState[Any]", state)

    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> PublicBroadcastState[Any, Any]:
        declared = BroadcastState(
            descriptor.name,
            descriptor.key_type_info.key_serializer(),
            descriptor.value_type_info.value_serializer(),
        )
        return cast("PublicBroadcastState[Any, Any]", self._store.broadcast_state(declared))


@dataclass(frozen=True, slots=True)
class _Initialization(FunctionInitializationContext):
    checkpoint_id: CheckpointId | None
    operator_state: OperatorStateStore
    keyed_state: KeyedStateStore

    def is_restored(self) -> bool:
        return self.checkpoint_id is not None

    def get_restored_checkpoint_id(self) -> int | None:
        return self.checkpoint_id

    def get_operator_state_store(self) -> OperatorStateStore:
        return self.operator_state

    def get_keyed_state_store(self) -> KeyedStateStore:
        return self.keyed_state


@dataclass(frozen=True, slots=True)
class _Snapshot(FunctionSnapshotContext):
    checkpoint_id: CheckpointId
    timestamp_ms: int

    def get_checkpoint_id(self) -> int:
        return self.checkpoint_id

    def get_checkpoint_timestamp(self) -> int:
        return self.timestamp_ms
