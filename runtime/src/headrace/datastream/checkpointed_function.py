"""State that a function keeps itself, beside that of keys (B17, B18).

PyFlink has no counterpart; names and meaning are those of Flink's Java API
(``CheckpointedFunction``, ``FunctionInitializationContext``, ``OperatorStateStore``).
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.datastream.functions import KeyedStateStore
    from headrace.datastream.state import (
        BroadcastState,
        ListState,
        ListStateDescriptor,
        MapStateDescriptor,
    )


class OperatorStateStore(abc.ABC):
    """Access to operator state: small, of one slot, written whole into every checkpoint."""

    @abc.abstractmethod
    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list whose elements are dealt out in turn when the parallelism changes."""

    @abc.abstractmethod
    def get_union_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return a list that after a restore holds the elements of all slots, in every slot."""

    @abc.abstractmethod
    def get_broadcast_state(self, descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """Return a map that after a restore is slot 0's in every slot."""


class FunctionInitializationContext(abc.ABC):
    """What a function may do before `open`."""

    @abc.abstractmethod
    def is_restored(self) -> bool:
        """Return whether the job continues from a checkpoint or savepoint.

        True also for a function that the program did not have then.
        """

    @abc.abstractmethod
    def get_restored_checkpoint_id(self) -> int | None:
        """Return the id of the checkpoint that is restored, None without one."""

    @abc.abstractmethod
    def get_operator_state_store(self) -> OperatorStateStore:
        """Return the store of operator state."""

    @abc.abstractmethod
    def get_keyed_state_store(self) -> KeyedStateStore:
        """Return the store of keyed state; using it needs a keyed stream."""


class FunctionSnapshotContext(abc.ABC):
    """What a function may know of the checkpoint that is being taken."""

    @abc.abstractmethod
    def get_checkpoint_id(self) -> int:
        """Return the checkpoint's id."""

    @abc.abstractmethod
    def get_checkpoint_timestamp(self) -> int:
        """Return the wall-clock time in ms at which this slot takes it."""


class CheckpointedFunction(abc.ABC):
    """A function with hooks for state of its own; a second base class of any function.

    It runs in a slot, also directly after a source. Its operator needs a ``uid``.
    """

    @abc.abstractmethod
    def initialize_state(self, context: FunctionInitializationContext) -> None:
        """Obtain state and take over what was restored; called once, before ``open``."""

    @abc.abstractmethod
    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        """Bring the state up to date; called at the barrier, when no record is on its way.

        What it raises fails the job. It must be quick: records wait.
        """


def checkpointed(function: object) -> CheckpointedFunction | None:
    """Return the function, or the one that an adapter wraps, if it keeps operator state."""
    inner = getattr(function, "wrapped", function)
    return inner if isinstance(inner, CheckpointedFunction) else None
