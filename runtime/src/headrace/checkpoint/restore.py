"""Who gets what of a checkpoint: redistribution of state over the slots of the next generation (F1-F6).

Pure. Keyed state goes to every slot whose key groups overlap the handle's, operator state as its mode says,
a spool of unpublished output to exactly one slot (`headrace.connectors.spools.owner_of_spool`).
Source: Flink's ``StateAssignmentOperation`` and ``RoundRobinOperatorStateRepartitioner``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.spools import owner_of_spool
from headrace.errors import IncompatibleStateError
from headrace.keygroups import key_group_range_of_slot

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import (
        CheckpointMetadata,
        KeyedStateHandle,
        OperatorStateHandle,
        SinkCommittable,
    )
    from headrace.graph.job_graph import JobGraph


@dataclass(frozen=True, slots=True)
class SlotAssignment:
    """What one slot restores."""

    keyed: tuple[KeyedStateHandle, ...]
    operator: tuple[OperatorStateHandle, ...]
    committables: tuple[SinkCommittable, ...]


def assign_restore(
    metadata: CheckpointMetadata, graph: JobGraph, allow_non_restored_state: bool
) -> list[SlotAssignment]:
    """Return what each slot of ``graph`` restores from the checkpoint.

    Raises:
        IncompatibleStateError: another max parallelism, or state of operators that the program does
            not have, unless ``allow_non_restored_state`` drops that.
    """
    if metadata.max_parallelism != graph.max_parallelism:
        msg = (
            "max parallelism is fixed by the first start, set it back; "
            f"stored={metadata.max_parallelism} program={graph.max_parallelism}"
        )
        raise IncompatibleStateError(msg)
    known = {operator.uid for operator in graph.operators()}
    keyed = [handle for slot in metadata.slots for handle in slot.keyed]
    committables = [item for slot in metadata.slots for item in slot.committables]
    lost = sorted(
        {handle.operator_uid for handle in keyed if handle.operator_uid not in known}
        | {c.operator_uid for c in committables if c.operator_uid not in known and c.files}
    )
    if lost and not allow_non_restored_state:
        msg = (
            "the checkpoint holds state of operators that the program does not have, give them "
            "their old uid or set allowNonRestoredState to drop it; "
            f"uids={lost} checkpoint={metadata.checkpoint_id}"
        )
        raise IncompatibleStateError(msg)
    operator = tuple(handle for slot in metadata.slots for handle in slot.operator)
    return [
        _assignment(slot, graph, keyed, operator, committables, known)
        for slot in range(graph.parallelism)
    ]


def _assignment(
    slot: int,
    graph: JobGraph,
    keyed: list[KeyedStateHandle],
    operator: tuple[OperatorStateHandle, ...],
    committables: list[SinkCommittable],
    known: set[object],
) -> SlotAssignment:
    own = key_group_range_of_slot(slot, graph.parallelism, graph.max_parallelism)
    return SlotAssignment(
        keyed=tuple(
            handle
            for handle in keyed
            if handle.operator_uid in known and handle.key_group_range.intersection(own)
        ),
        operator=operator,
        committables=tuple(
            item
            for item in committables
            if item.operator_uid in known and owner_of_spool(item.spool_id, graph.parallelism) == slot
        ),
    )
