"""Which files a checkpoint sends, and which it only refers to (D9, T5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.storage import ObjectStore
from headrace.checkpoint.transfer import TransferPool
from headrace.checkpoint.upload import (
    KeyedOwner,
    LocalFile,
    ReusableFiles,
    SnapshotUploader,
    UploadedState,
)
from headrace.errors import CorruptStateError, InternalError, StorageUnavailableError
from headrace.ids import CheckpointId, Generation, SlotIndex
from headrace.testing.object_store import Fault, Faults, MemoryStore, Operation, Outage
from runtime_tests.checkpoint.builders import UID, local_snapshot, random_bytes

OWNER = KeyedOwner(UID, SlotIndex(0), "rocksdb")


class Slot:
    """One backend instance with the files that its database consists of."""

    def __init__(self, store: ObjectStore, pool: TransferPool, disk: Path) -> None:
        self.store = store
        self.uploader = SnapshotUploader(store, pool, Generation(1))
        self.disk = disk
        self.reusable = ReusableFiles()
        self.files: dict[str, bytes] = {}

    def write(self, *names: str) -> None:
        self.files.update({name: random_bytes() for name in names})

    def compact(self, *names: str, into: str) -> None:
        for name in names:
            del self.files[name]
        self.write(into)

    def checkpoint(self, n: int) -> UploadedState:
        self.files["MANIFEST"] = random_bytes(50)
        snapshot = local_snapshot(self.disk / f"snapshot-{n}", self.files)
        return self.uploader.upload_keyed(snapshot, OWNER, CheckpointId(n), self.reusable)

    def completed_checkpoint(self, n: int) -> UploadedState:
        state = self.checkpoint(n)
        self.reusable.completed(CheckpointId(n))
        return state

    def shared(self) -> list[str]:
        return [i.path.rsplit("-", 1)[1] for i in self.store.list("shared/")]


@pytest.fixture
def slot(store: ObjectStore, pool: TransferPool, tmp_path: Path) -> Slot:
    return Slot(store, pool, tmp_path / "disk")


@pytest.fixture
def memory_slot(pool: TransferPool, tmp_path: Path) -> Slot:
    return Slot(MemoryStore(), pool, tmp_path / "disk")


def test_four_checkpoints_send_abc_then_d_then_e_after_compaction_then_nothing(slot: Slot) -> None:
    """The story of D9, counted in objects; the manifest is each checkpoint's own file."""
    slot.write("A.sst", "B.sst", "C.sst")
    sent = [slot.completed_checkpoint(1)]
    assert sorted(slot.shared()) == ["A.sst", "B.sst", "C.sst"]

    slot.write("D.sst")
    sent.append(slot.completed_checkpoint(2))
    assert sorted(slot.shared()) == ["A.sst", "B.sst", "C.sst", "D.sst"]

    slot.compact("C.sst", "D.sst", into="E.sst")
    sent.append(slot.completed_checkpoint(3))
    names = sorted(file.name for file in sent[2].handle.files)
    assert names == ["A.sst", "B.sst", "E.sst", "MANIFEST"]

    sent.append(slot.completed_checkpoint(4))
    assert [(s.uploaded_files, s.reused_files) for s in sent] == [(4, 0), (2, 3), (2, 2), (1, 3)]
    assert [s.uploaded_bytes for s in sent] == [3050, 1050, 1050, 50]
    assert [s.state_size_bytes for s in sent] == [3050, 4050, 3050, 3050]
    assert sorted(slot.shared()) == ["A.sst", "B.sst", "C.sst", "D.sst", "E.sst"]
    # Nothing refers to C and D any more once checkpoints 1 and 2 are subsumed.
    referred = {file.path for file in sent[3].handle.files if file.path.startswith("shared/")}
    assert sorted(path.rsplit("-", 1)[1] for path in referred) == ["A.sst", "B.sst", "E.sst"]


def test_files_of_an_aborted_checkpoint_are_sent_again(memory_slot: Slot) -> None:
    memory_slot.write("A.sst")
    memory_slot.checkpoint(1)
    memory_slot.reusable.aborted(CheckpointId(1))
    assert memory_slot.checkpoint(2).reused_files == 0


def test_files_of_a_checkpoint_in_progress_are_not_referred_to(memory_slot: Slot) -> None:
    memory_slot.write("A.sst")
    memory_slot.checkpoint(1)
    assert memory_slot.checkpoint(2).reused_files == 0


def test_a_new_database_does_not_inherit_files_by_name(memory_slot: Slot) -> None:
    """SST numbers repeat between databases (T5)."""
    memory_slot.write("000011.sst")
    first = memory_slot.completed_checkpoint(1)
    memory_slot.reusable = ReusableFiles()
    memory_slot.files = {}
    memory_slot.write("000011.sst")
    second = memory_slot.completed_checkpoint(2)
    assert second.reused_files == 0
    paths = {f.path for state in (first, second) for f in state.handle.files}
    assert len(paths) == 4


def test_a_database_on_restored_files_refers_to_them(memory_slot: Slot) -> None:
    memory_slot.write("A.sst", "B.sst")
    restored = memory_slot.completed_checkpoint(1).handle
    memory_slot.reusable = ReusableFiles(restored)
    memory_slot.write("C.sst")
    state = memory_slot.completed_checkpoint(2)
    assert (state.uploaded_files, state.reused_files) == (2, 2)


def test_a_shared_file_that_changed_under_its_name_is_an_internal_error(memory_slot: Slot) -> None:
    memory_slot.write("A.sst")
    memory_slot.completed_checkpoint(1)
    memory_slot.files["A.sst"] = b"another length"
    with pytest.raises(InternalError, match=r"A\.sst"):
        memory_slot.checkpoint(2)


def test_a_file_that_grew_while_it_was_sent_is_an_internal_error(
    memory_slot: Slot, tmp_path: Path
) -> None:
    (tmp_path / "spool").write_bytes(b"longer than recorded")
    with pytest.raises(InternalError, match="changed"):
        memory_slot.uploader.upload_files(
            [LocalFile("spool", tmp_path / "spool", 3)], CheckpointId(1)
        )
    assert list(memory_slot.store.list()) == []


def test_file_names_say_which_generation_and_checkpoint_wrote_them(memory_slot: Slot) -> None:
    memory_slot.write("A.sst")
    handle = memory_slot.checkpoint(12).handle
    by_name = {file.name: file.path for file in handle.files}
    assert by_name["A.sst"].startswith("shared/g1-c12-")
    assert by_name["MANIFEST"].startswith("chk-12/g1-c12-")


def test_spool_files_keep_their_order(slot: Slot, tmp_path: Path) -> None:
    files = []
    for i in range(9):
        path = tmp_path / f"spool-{i}"
        path.write_bytes(b"x" * (9 - i))
        files.append(LocalFile(path.name, path, 9 - i))
    handles = slot.uploader.upload_files(files, CheckpointId(3))
    assert [f"spool-{i}" for i in range(9)] == [h.name for h in handles]
    assert [9 - i for i in range(9)] == [h.size_bytes for h in handles]


class _FailNth(Faults):
    """Refuses the nth write."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def choose(self, operation: Operation, path: str) -> Fault:
        if operation is Operation.PUT:
            self.left -= 1
        return Fault.REFUSED if operation is Operation.PUT and self.left == 0 else Fault.NONE


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_failed_upload_cleans_up_what_it_sent(memory_slot: Slot, nth: int) -> None:
    memory_slot.write("A.sst", "B.sst", "C.sst", "D.sst")
    store = memory_slot.store
    assert isinstance(store, MemoryStore)
    store.faults = _FailNth(nth)
    with pytest.raises(StorageUnavailableError):
        memory_slot.checkpoint(1)
    assert list(store.list()) == []


def test_a_failed_upload_is_reported_also_when_clean_up_fails(memory_slot: Slot) -> None:
    memory_slot.write("A.sst")
    store = memory_slot.store
    assert isinstance(store, MemoryStore)
    outage = Outage()
    outage.active = True
    store.faults = outage
    with pytest.raises(StorageUnavailableError, match="operation=put"):
        memory_slot.checkpoint(1)


def _downloader(store: ObjectStore, pool: TransferPool) -> SnapshotDownloader:
    def refuse(uri: str) -> ObjectStore:
        raise AssertionError(uri)

    return SnapshotDownloader(store, pool, open_elsewhere=refuse)


def test_what_was_uploaded_comes_back_byte_for_byte(
    slot: Slot, pool: TransferPool, tmp_path: Path
) -> None:
    slot.write("A.sst", "B.sst")
    state = slot.completed_checkpoint(1)
    source = _downloader(slot.store, pool).download_keyed(state.handle, tmp_path / "restored")
    restored = {path.name: path.read_bytes() for path in source.directory.iterdir()}
    assert slot.files == restored
    assert source.key_group_range == state.handle.key_group_range


def test_an_empty_handle_makes_an_empty_directory(
    memory_slot: Slot, pool: TransferPool, tmp_path: Path
) -> None:
    assert _downloader(memory_slot.store, pool).download_files([], tmp_path / "empty") == []
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.mark.parametrize("damage", ["bytes", "length", "missing"])
def test_a_damaged_object_is_named_and_leaves_no_directory(
    memory_slot: Slot, pool: TransferPool, tmp_path: Path, damage: str
) -> None:
    memory_slot.write("A.sst", "B.sst")
    handle = memory_slot.completed_checkpoint(1).handle
    victim = next(file.path for file in handle.files if file.name == "B.sst")
    content = memory_slot.store.get(victim)
    if damage == "missing":
        memory_slot.store.delete([victim])
    else:
        changed = content[:-1] + bytes([content[-1] ^ 1]) if damage == "bytes" else content[:-1]
        memory_slot.store.put(victim, changed)
    with pytest.raises(CorruptStateError, match=victim):
        _downloader(memory_slot.store, pool).download_keyed(handle, tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
