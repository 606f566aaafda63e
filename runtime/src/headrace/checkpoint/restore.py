"""Who restores what: a pure function from a checkpoint to one assignment for each new slot.

Also the place where a rescale happens on paper: parallelism may differ, max parallelism may not.
Called by the driver after `CheckpointStore.claim_generation`.

- keyed state: every handle whose key-group range overlaps the slot's; the backend drops the rest;
- operator state (B17, F5, T12), as Flink's ``RoundRobinOperatorStateRepartitioner``: ``split``
  items of all old slots are dealt out in turn, ``union`` items go to everybody, ``broadcast`` is
  one old slot's copy for everybody. At the same parallelism ``split`` items stay where they were;
- pending sink output: each spool goes to exactly one slot, whole and in checkpoint order
  (`headrace.connectors.spools`).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.protocol.types import OperatorStateHandle
from headrace.connectors.spools import owner_of_spool
from headrace.errors import CorruptStateError, IncompatibleStateError
from headrace.ids import SlotIndex
from headrace.keygroups import key_group_range_of_slot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from headrace.checkpoint.protocol.types import (
        CheckpointMetadata,
        KeyedStateHandle,
        OperatorRecord,
        SinkCommittable,
    )
    from headrace.ids import OperatorUid
    from headrace.keygroups import KeyGroupRange

SPLIT: Final = "split"
UNION: Final = "union"
BROADCAST: Final = "broadcast"


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """The program that shall continue from a checkpoint.

    Attributes:
        parallelism: number of slots, at most ``max_parallelism``.
        max_parallelism: number of key groups; must be the checkpoint's.
        operator_uids: every operator of the program.
        parallelism_by_uid: operators that do not run in all slots -> in how many, the first ones.
        keyed_uids, sink_uids: those of them that own keyed state, and those that publish output;
            None: any may.
        allow_non_restored_state: drop state of operators that the program no longer has.
    """

    parallelism: int
    max_parallelism: int
    operator_uids: Collection[OperatorUid]
    allow_non_restored_state: bool = False
    keyed_uids: Collection[OperatorUid] | None = None
    sink_uids: Collection[OperatorUid] | None = None
    parallelism_by_uid: Mapping[OperatorUid, int] = field(default_factory=dict)

    def parallelism_of(self, uid: OperatorUid) -> int:
        """Return in how many slots an operator runs."""
        return self.parallelism_by_uid.get(uid, self.parallelism)

    @property
    def may_own(self) -> _Owners:
        """Which operators may own what."""
        known = frozenset(self.operator_uids)
        return _Owners(
            keyed=known if self.keyed_uids is None else frozenset(self.keyed_uids),
            operator=known,
            output=known if self.sink_uids is None else frozenset(self.sink_uids),
        )


@dataclass(frozen=True, slots=True)
class _Owners:
    """Operators by what they own: keyed state, operator state, output that is not published."""

    keyed: frozenset[OperatorUid]
    operator: frozenset[OperatorUid]
    output: frozenset[OperatorUid]


@dataclass(frozen=True, slots=True)
class SlotRestore:
    """What one new slot restores; the fields of the message ``Restore``."""

    slot: SlotIndex
    keyed: tuple[KeyedStateHandle, ...]
    operator: tuple[OperatorStateHandle, ...]
    committables: tuple[SinkCommittable, ...]


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Assignments in slot order, and the operators whose state is left behind (to be logged)."""

    slots: tuple[SlotRestore, ...]
    dropped: tuple[OperatorUid, ...]


def assign_restore(metadata: CheckpointMetadata, target: RestoreTarget) -> RestorePlan:
    """Assign everything that a checkpoint holds to the slots of ``target``.

    Raises:
        IncompatibleStateError: max parallelism differs, or state belongs to operators that the
            program does not have and may not be dropped; names them.
        CorruptStateError: keyed handles of one operator do not cover all key groups, or overlap.
    """
    if metadata.max_parallelism != target.max_parallelism:
        msg = (
            "max parallelism is fixed when a job first starts, set it back to the checkpoint's; "
            f"checkpoint=chk-{metadata.checkpoint_id} stored={metadata.max_parallelism} "
            f"configured={target.max_parallelism}"
        )
        raise IncompatibleStateError(msg)
    dropped = _unmatched(metadata, target)
    owners = target.may_own
    keyed = [k for s in metadata.slots for k in s.keyed if k.operator_uid in owners.keyed]
    _check_cover(keyed, metadata)
    operator = _redistribute(
        [o for s in metadata.slots for o in s.operator if o.operator_uid in owners.operator],
        metadata,
        target,
    )
    committables = _assign_spools(
        [c for s in metadata.slots for c in s.committables if c.operator_uid in owners.output],
        target,
    )
    slots = (SlotIndex(i) for i in range(target.parallelism))
    return RestorePlan(
        slots=tuple(
            SlotRestore(
                slot=slot,
                keyed=tuple(handle for handle in keyed if _is_overlapping(handle, slot, target)),
                operator=tuple(operator[slot]),
                committables=tuple(committables[slot]),
            )
            for slot in slots
        ),
        dropped=dropped,
    )


def _unmatched(metadata: CheckpointMetadata, target: RestoreTarget) -> tuple[OperatorUid, ...]:
    """Return the operators whose state nobody takes over.

    Raises:
        IncompatibleStateError: there are some, and their state may not be dropped.
    """
    slots, owners = metadata.slots, target.may_own
    keyed = {k.operator_uid for slot in slots for k in slot.keyed if k.schemas}
    operator = {o.operator_uid for slot in slots for o in slot.operator if o.items}
    output = {c.operator_uid for slot in slots for c in slot.committables if c.files}
    unmatched = tuple(
        sorted(keyed - owners.keyed | operator - owners.operator | output - owners.output)
    )
    if unmatched and not target.allow_non_restored_state:
        records = {record.uid: record for record in metadata.operators}
        described = [
            _described(uid, records.get(uid), changed=uid in owners.operator) for uid in unmatched
        ]
        msg = (
            "checkpoint holds state of operators that the program does not have, restore their "
            "uids or set allowNonRestoredState to drop it; "
            f"checkpoint=chk-{metadata.checkpoint_id} operators={described} "
            f"program={sorted(target.operator_uids)}"
        )
        raise IncompatibleStateError(msg)
    return unmatched


def _described(uid: OperatorUid, record: OperatorRecord | None, *, changed: bool) -> str:
    """Return an operator as a message names it, with the likely reason.

    Args:
        uid: whose state nobody takes over.
        record: what the checkpoint says of it.
        changed: the program has an operator of this uid, but of another kind.
    """
    notes = [] if record is None else [record.name]
    if changed:
        notes.append("another kind of operator in the program")
    elif record is not None and record.uid_is_generated:
        notes.append("uid generated from the program's shape")
    return f"{uid} ({', '.join(notes)})" if notes else uid


def _is_overlapping(handle: KeyedStateHandle, slot: SlotIndex, target: RestoreTarget) -> bool:
    parallelism = target.parallelism_of(handle.operator_uid)
    if slot >= parallelism:
        return False
    owned = key_group_range_of_slot(slot, parallelism, target.max_parallelism)
    return bool(handle.key_group_range.intersection(owned))


def _check_cover(keyed: Iterable[KeyedStateHandle], metadata: CheckpointMetadata) -> None:
    """Assert that the handles of each operator cover every key group exactly once."""
    ranges: dict[OperatorUid, list[KeyGroupRange]] = defaultdict(list)
    for handle in keyed:
        ranges[handle.operator_uid].append(handle.key_group_range)
    for uid, found in ranges.items():
        groups = [group for each in sorted(found, key=lambda r: r.start) for group in each]
        if groups != list(range(metadata.max_parallelism)):
            msg = (
                "keyed state does not cover every key group exactly once, restore another "
                f"checkpoint; checkpoint=chk-{metadata.checkpoint_id} operator={uid} "
                f"ranges={[(r.start, r.end) for r in found]}"
            )
            raise CorruptStateError(msg)


def _redistribute(
    handles: Iterable[OperatorStateHandle], metadata: CheckpointMetadata, target: RestoreTarget
) -> dict[int, list[OperatorStateHandle]]:
    former = {record.uid: record.parallelism for record in metadata.operators}
    by_state: dict[tuple[OperatorUid, str, str], list[OperatorStateHandle]] = defaultdict(list)
    for handle in sorted(handles, key=lambda h: h.slot):
        by_state[handle.operator_uid, handle.name, handle.mode].append(handle)
    assigned: dict[int, list[OperatorStateHandle]] = defaultdict(list)
    for (uid, name, mode), sources in by_state.items():
        old, new = former.get(uid) or metadata.parallelism, target.parallelism_of(uid)
        for slot, items in _deal(sources, mode, old=old, new=new).items():
            assigned[slot].append(
                OperatorStateHandle(uid, SlotIndex(slot), name, mode, items, sources[0].serializer)
            )
    return assigned


def _deal(
    sources: list[OperatorStateHandle], mode: str, *, old: int, new: int
) -> dict[int, list[bytes]]:
    """Return the items of one state by new slot; slots without an entry get none."""
    everything = [item for source in sources for item in source.items]
    if mode == UNION:
        return dict.fromkeys(range(new), everything)
    if mode == BROADCAST:
        return dict.fromkeys(range(new), sources[0].items)
    if mode != SPLIT:
        msg = f"unknown mode of operator state; operator={sources[0].operator_uid} mode={mode}"
        raise CorruptStateError(msg)
    if old == new:
        return {source.slot: source.items for source in sources}
    dealt = {slot: everything[slot::new] for slot in range(new)}
    return {slot: items for slot, items in dealt.items() if items}


def _assign_spools(
    committables: Iterable[SinkCommittable], target: RestoreTarget
) -> dict[int, list[SinkCommittable]]:
    assigned: dict[int, list[SinkCommittable]] = defaultdict(list)
    for pending in sorted(committables, key=lambda c: (c.checkpoint_id, c.spool_id)):
        parallelism = target.parallelism_of(pending.operator_uid)
        assigned[owner_of_spool(pending.spool_id, parallelism)].append(pending)
    return assigned
