"""Which new slot restores what (F3, F5, F6, T12, E5)."""

from __future__ import annotations

import collections

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoint.protocol.types import (
    CheckpointMetadata,
    OperatorRecord,
    OperatorStateHandle,
    SinkCommittable,
    SlotSnapshot,
)
from headrace.checkpoint.restore import RestorePlan, RestoreTarget, assign_restore
from headrace.errors import CorruptStateError, IncompatibleStateError
from headrace.ids import CheckpointId, OperatorUid, SlotIndex
from headrace.keygroups import key_group_range_of_slot
from runtime_tests.checkpoint.builders import (
    MAX_PARALLELISM,
    UID,
    checkpoint,
    file_handle,
    keyed_handle,
    slot_snapshot,
)

SINK = OperatorUid("sink")


def target(parallelism: int, **changes: object) -> RestoreTarget:
    fields: dict[str, object] = {
        "parallelism": parallelism,
        "max_parallelism": MAX_PARALLELISM,
        "operator_uids": [UID, SINK],
    }
    return RestoreTarget(**{**fields, **changes})  # type: ignore[arg-type]


def operator_state(slot: int, mode: str, *items: bytes) -> OperatorStateHandle:
    return OperatorStateHandle(UID, SlotIndex(slot), f"{mode}-state", mode, list(items))


def spool(slot: int, checkpoint_id: int) -> SinkCommittable:
    file = file_handle(f"chk-{checkpoint_id}/g1-c{checkpoint_id}-u{slot}-spool")
    return SinkCommittable(SINK, f"slot-{slot:04d}", CheckpointId(checkpoint_id), [file], 5)


def taken_at(parallelism: int, slots: list[dict[str, object]] | None = None) -> CheckpointMetadata:
    """A checkpoint of a job with that many slots; ``slots`` changes each slot's snapshot."""
    changes = slots or [{} for _ in range(parallelism)]
    return checkpoint(
        7, slots=[slot_snapshot(i, parallelism, **changes[i]) for i in range(parallelism)]
    )


def items_of(plan: RestorePlan) -> list[list[bytes]]:
    return [[i for handle in slot.operator for i in handle.items] for slot in plan.slots]


@pytest.mark.property
@settings(deadline=None)
@given(st.integers(1, MAX_PARALLELISM), st.integers(1, MAX_PARALLELISM))
def test_a_slot_gets_exactly_the_handles_that_overlap_its_key_groups(old: int, new: int) -> None:
    plan = assign_restore(taken_at(old), target(new))
    for slot in plan.slots:
        owned = key_group_range_of_slot(slot.slot, new, MAX_PARALLELISM)
        reachable = {group for handle in slot.keyed for group in handle.key_group_range}
        assert set(owned) <= reachable
        assert all(handle.key_group_range.intersection(owned) for handle in slot.keyed)


def test_at_the_same_parallelism_each_slot_gets_its_own_handle_back() -> None:
    plan = assign_restore(taken_at(3), target(3))
    assert [[handle.slot for handle in slot.keyed] for slot in plan.slots] == [[0], [1], [2]]


def test_doubling_reads_one_old_handle_a_slot() -> None:
    plan = assign_restore(taken_at(2), target(4))
    assert [[handle.slot for handle in slot.keyed] for slot in plan.slots] == [[0], [0], [1], [1]]


def test_split_items_are_dealt_out_in_turn_and_none_is_lost_when_scaling_in() -> None:
    slots: list[dict[str, object]] = [
        {"operator": [operator_state(i, "split", b"%d-a" % i, b"%d-b" % i)]} for i in range(4)
    ]
    plan = assign_restore(taken_at(4, slots), target(2))
    assert items_of(plan) == [
        [b"0-a", b"1-a", b"2-a", b"3-a"],
        [b"0-b", b"1-b", b"2-b", b"3-b"],
    ]


def test_split_items_stay_where_they_were_at_the_same_parallelism() -> None:
    slots: list[dict[str, object]] = [
        {"operator": [operator_state(0, "split", b"a", b"b", b"c")]},
        {"operator": []},
    ]
    plan = assign_restore(taken_at(2, slots), target(2))
    assert items_of(plan) == [[b"a", b"b", b"c"], []]


def test_union_items_go_to_every_slot() -> None:
    slots: list[dict[str, object]] = [
        {"operator": [operator_state(i, "union", b"%d" % i)]} for i in range(2)
    ]
    plan = assign_restore(taken_at(2, slots), target(3))
    assert items_of(plan) == [[b"0", b"1"]] * 3


def test_broadcast_state_is_one_copy_in_every_slot() -> None:
    slots: list[dict[str, object]] = [
        {"operator": [operator_state(i, "broadcast", b"rule")]} for i in range(2)
    ]
    plan = assign_restore(taken_at(2, slots), target(3))
    assert items_of(plan) == [[b"rule"]] * 3


@pytest.mark.property
@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_split_items_are_neither_lost_nor_doubled_over_any_rescale(
    old: int, new: int, data: st.DataObject
) -> None:
    counts = data.draw(st.lists(st.integers(0, 5), min_size=old, max_size=old))
    slots: list[dict[str, object]] = [
        {"operator": [operator_state(i, "split", *(b"%d-%d" % (i, k) for k in range(n)))]}
        for i, n in enumerate(counts)
    ]
    plan = assign_restore(taken_at(old, slots), target(new))
    dealt = [item for items in items_of(plan) for item in items]
    assert sorted(b"%d-%d" % (i, k) for i, n in enumerate(counts) for k in range(n)) == sorted(
        dealt
    )
    if old != new:
        sizes = [len(items) for items in items_of(plan)]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.property
@settings(deadline=None)
@given(st.integers(1, 9), st.integers(1, 9))
def test_every_spool_is_published_by_exactly_one_slot_in_checkpoint_order(
    old: int, new: int
) -> None:
    slots: list[dict[str, object]] = [
        {"committables": [spool(i, 7), spool(i, 5), spool(i, 6)]} for i in range(old)
    ]
    plan = assign_restore(taken_at(old, slots), target(new))
    owners = collections.defaultdict(set)
    for slot in plan.slots:
        order: dict[str, list[int]] = collections.defaultdict(list)
        for pending in slot.committables:
            owners[pending.spool_id, pending.checkpoint_id].add(slot.slot)
            order[pending.spool_id].append(pending.checkpoint_id)
        assert all(numbers == [5, 6, 7] for numbers in order.values())
    assert len(owners) == 3 * old
    assert all(len(slots_of_spool) == 1 for slots_of_spool in owners.values())


def test_a_changed_max_parallelism_is_refused() -> None:
    with pytest.raises(IncompatibleStateError, match="stored=128 configured=256"):
        assign_restore(taken_at(1), target(1, max_parallelism=256))


def test_state_of_an_operator_that_the_program_lost_is_refused_by_name() -> None:
    with pytest.raises(IncompatibleStateError, match=r"count \(count\)"):
        assign_restore(taken_at(1), target(1, operator_uids=[SINK]))


def test_a_generated_uid_is_named_as_the_likely_reason() -> None:
    """State of an operator without a uid of its own is lost when the program changes (E7)."""
    record = OperatorRecord(UID, "count", stateful=True, uid_is_generated=True)
    metadata = msgspec.structs.replace(taken_at(1), operators=[record])
    with pytest.raises(IncompatibleStateError, match=r"count \(count, uid generated from"):
        assign_restore(metadata, target(1, operator_uids=[SINK]))


def test_keyed_state_of_an_operator_that_became_stateless_is_refused_by_name() -> None:
    """The uid is still there, but nobody would open the state: it must not vanish."""
    with pytest.raises(IncompatibleStateError, match=r"count \(count, another kind of operator"):
        assign_restore(taken_at(1), target(1, keyed_uids=[], sink_uids=[SINK]))
    allowed = target(1, keyed_uids=[], sink_uids=[SINK], allow_non_restored_state=True)
    plan = assign_restore(taken_at(1), allowed)
    assert ((UID,), ()) == (plan.dropped, plan.slots[0].keyed)


def test_output_of_an_operator_that_is_no_sink_any_more_is_refused_by_name() -> None:
    pending: list[dict[str, object]] = [{"committables": [spool(0, 7)]}]
    uid = pending[0]["committables"][0].operator_uid  # type: ignore[index]
    everything = [UID, SINK]
    plan = assign_restore(taken_at(1, pending), target(1, sink_uids=[uid]))
    assert 1 == len(plan.slots[0].committables)
    with pytest.raises(IncompatibleStateError, match="another kind of operator"):
        assign_restore(taken_at(1, pending), target(1, keyed_uids=everything, sink_uids=[]))


def test_lost_operators_are_dropped_when_that_is_allowed() -> None:
    plan = assign_restore(
        taken_at(1), target(1, operator_uids=[SINK], allow_non_restored_state=True)
    )
    assert plan.dropped == (UID,)
    assert plan.slots[0].keyed == ()


def test_an_operator_that_is_new_in_the_program_starts_empty() -> None:
    plan = assign_restore(taken_at(1), target(1, operator_uids=[UID, SINK, OperatorUid("new")]))
    assert plan.dropped == ()


def _slots_with(*ranges: tuple[int, int]) -> list[SlotSnapshot]:
    return [
        slot_snapshot(
            i,
            len(ranges),
            keyed=[msgspec.structs.replace(keyed_handle(), key_group_start=a, key_group_end=b)],
        )
        for i, (a, b) in enumerate(ranges)
    ]


@pytest.mark.parametrize("ranges", [[(0, 60), (62, 127)], [(0, 63), (63, 127)], [(0, 100)]])
def test_handles_that_leave_a_gap_or_overlap_are_corrupt(ranges: list[tuple[int, int]]) -> None:
    with pytest.raises(CorruptStateError, match="every key group exactly once"):
        assign_restore(checkpoint(1, slots=_slots_with(*ranges)), target(2))
