"""Frozen directories of a slot: kept to roll back to, removed when nobody needs them (T17, I6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.ids import CheckpointId, Generation
from headrace.slot.snapshots import FrozenSlot, SlotSnapshots
from runtime_tests.checkpoint.builders import keyed_handle, local_snapshot, slot_snapshot


class Disk:
    """A slot's snapshots with real directories of one operator."""

    def __init__(self, root: Path) -> None:
        self.snapshots = SlotSnapshots(root)

    def freeze(self, n: int) -> None:
        """Run the sync phase of checkpoint ``n``."""
        directory = self.snapshots.directory(CheckpointId(n), 0)
        local_snapshot(directory, {"A.sst": b"a"})

    def ack(self, n: int, generation: int = 1) -> None:
        frozen = FrozenSlot(CheckpointId(n), (), (), (), (), (), 0.0)
        self.snapshots.acked(frozen, slot_snapshot(keyed=[keyed_handle()]), Generation(generation))

    def checkpoint(self, n: int) -> None:
        self.freeze(n)
        self.ack(n)
        self.snapshots.completed(CheckpointId(n))

    def numbers(self) -> list[int]:
        root = self.snapshots.root
        return sorted(int(path.name) for path in root.iterdir()) if root.exists() else []

    @property
    def recovery(self) -> int | None:
        recovery = self.snapshots.recovery
        return recovery.checkpoint_id if recovery is not None else None


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path / "snapshots")


def test_the_last_completed_checkpoint_stays_for_rolling_back(disk: Disk) -> None:
    for n in (1, 2, 3):
        disk.checkpoint(n)
    assert ([3], 3) == (disk.numbers(), disk.recovery)


def test_two_copies_exist_while_a_checkpoint_is_in_progress(disk: Disk) -> None:
    """The transient double use of the disk: hard links, so only compacted files cost space."""
    disk.checkpoint(1)
    disk.freeze(2)
    assert ([1, 2], 1) == (disk.numbers(), disk.recovery)


def test_an_aborted_checkpoint_leaves_nothing_and_the_last_one_stays(disk: Disk) -> None:
    disk.checkpoint(1)
    disk.freeze(2)
    disk.ack(2)
    disk.snapshots.aborted(CheckpointId(2))
    assert ([1], 1) == (disk.numbers(), disk.recovery)


def test_a_roll_back_keeps_what_it_restores_and_nothing_else(disk: Disk) -> None:
    disk.checkpoint(1)
    disk.freeze(2)
    disk.snapshots.rolled_back(CheckpointId(1))
    assert ([1], 1) == (disk.numbers(), disk.recovery)


def test_a_checkpoint_that_completed_unheard_is_there_to_roll_back_to(disk: Disk) -> None:
    """The coordinator published it and died before it could say so."""
    disk.checkpoint(1)
    disk.freeze(2)
    disk.ack(2)
    disk.snapshots.rolled_back(CheckpointId(2))
    assert ([2], 2) == (disk.numbers(), disk.recovery)


@pytest.mark.parametrize("restored", [None, 7])
def test_a_roll_back_to_something_else_keeps_nothing(disk: Disk, restored: int | None) -> None:
    disk.checkpoint(1)
    disk.freeze(2)
    disk.ack(2)
    disk.snapshots.rolled_back(None if restored is None else CheckpointId(restored))
    assert ([], None) == (disk.numbers(), disk.recovery)


def test_an_acknowledged_checkpoint_that_nobody_confirmed_is_no_place_to_roll_back_to(
    disk: Disk,
) -> None:
    disk.freeze(1)
    disk.ack(1)
    assert disk.recovery is None
