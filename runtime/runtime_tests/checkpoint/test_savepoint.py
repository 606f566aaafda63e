"""Making a savepoint of a checkpoint: self-contained, movable, complete or not there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.protocol import paths
from headrace.checkpoint.protocol.savepoints import plan_savepoint, savepoint_dir
from headrace.checkpoint.protocol.types import CheckpointMetadata, SinkCommittable, encode_metadata
from headrace.checkpoint.savepoint import SavepointWriter
from headrace.checkpoint.storage import ObjectStore, open_store
from headrace.checkpoint.transfer import TransferPool
from headrace.errors import (
    CorruptStateError,
    InternalError,
    NoRestorableStateError,
    StorageUnavailableError,
)
from headrace.ids import CheckpointId, Generation, TriggerId
from headrace.testing.object_store import (
    Fault,
    Faults,
    MemoryBucket,
    Operation,
    RandomFaults,
)
from runtime_tests.checkpoint.builders import (
    JOB_ID,
    UID,
    checkpoint,
    file_handle,
    keyed_handle,
    slot_snapshot,
)
from runtime_tests.checkpoint.conftest import Place

TRIGGER = TriggerId("a" * 32)
CONTENT = {"A.sst": b"aaaa", "B.sst": b"bb" * 1000, "MANIFEST": b"m"}


def put_checkpoint(store: ObjectStore, n: int = 7) -> CheckpointMetadata:
    """Store a complete checkpoint of two slots, with files of the same names, and a spool."""
    writer = paths.FileWriter(Generation(1), CheckpointId(n))
    slots = []
    for slot in range(2):
        files = []
        for name, content in CONTENT.items():
            build = paths.shared_path if name.endswith(".sst") else paths.exclusive_path
            path = build(writer, f"u{slot}", name)
            store.put(path, content)
            files.append(file_handle(path, content, name))
        spool = file_handle(paths.exclusive_path(writer, f"u{slot}", "spool"), b"rows", "spool")
        store.put(spool.path, b"rows")
        pending = SinkCommittable(UID, f"slot-000{slot}", CheckpointId(n), [spool], 1)
        slots.append(
            slot_snapshot(slot, 2, keyed=[keyed_handle(slot, 2, files)], committables=[pending])
        )
    metadata = checkpoint(n, 1, 3, slots)
    store.put(paths.metadata_path(CheckpointId(n)), encode_metadata(metadata))
    return metadata


@pytest.fixture
def new_writer(tmp_path: Path, pool: TransferPool) -> Callable[..., SavepointWriter]:
    def build(
        open_any: Callable[[str], ObjectStore], cancelled: threading.Event | None = None
    ) -> SavepointWriter:
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        return SavepointWriter(
            JOB_ID,
            pool,
            open_store=open_any,
            scratch_dir=scratch,
            cancelled=cancelled or threading.Event(),
        )

    return build


NewWriter = Callable[..., SavepointWriter]


def content_of(metadata: CheckpointMetadata, open_any: Callable[[str], ObjectStore]) -> list[str]:
    """Return what is in the files of all slots, as text."""
    found = []
    for slot in metadata.slots:
        for file in slot.keyed[0].files:
            root, _, name = file.path.rpartition("/")
            found.append(f"{slot.slot} {file.name} {open_any(root).get(name).decode()}")
    return found


EXPECTED = [
    f"{slot} {name} {content.decode()}" for slot in range(2) for name, content in CONTENT.items()
]


def test_a_savepoint_outlives_all_checkpoints_of_its_job_and_can_be_moved(
    place: Place, new_writer: NewWriter
) -> None:
    """T6: the whole checkpoint directory goes, then the savepoint is copied to another place."""
    job = place.open(f"{place.uri}/job")
    put_checkpoint(job)
    source = read_checkpoint_at(f"{place.uri}/job/chk-7", place.open)
    writer = new_writer(place.open)
    location = writer.location(f"{place.uri}/savepoints/", TRIGGER)
    made = writer.write(source, location)
    assert f"{place.uri}/savepoints/{savepoint_dir(JOB_ID, TRIGGER)}" == made.location

    job.delete([info.path for info in job.list()])
    moved = place.open(f"{place.uri}/elsewhere/other name")
    old = place.open(location)
    for info in old.list():
        moved.put(info.path, old.get(info.path))
    old.delete([info.path for info in old.list()])

    restored = read_checkpoint_at(f"{place.uri}/elsewhere/other name", place.open)
    assert EXPECTED == content_of(restored, place.open)
    assert msgspec.structs.replace(restored, slots=[]) == msgspec.structs.replace(
        source, slots=[], kind="savepoint", parent=None
    )


def test_a_savepoint_holds_no_output_and_its_whole_state_counts_as_written(
    new_writer: NewWriter,
) -> None:
    bucket = MemoryBucket()
    put_checkpoint(bucket.open("memory://test/job"))
    source = read_checkpoint_at("memory://test/job/chk-7", bucket.open)
    made = new_writer(bucket.open).write(source, "memory://test/sp")
    assert [[], []] == [slot.committables for slot in made.metadata.slots]
    assert [100, 100] == [slot.uploaded_bytes for slot in made.metadata.slots]
    names = [info.path for info in bucket.open("memory://test/sp").list()]
    assert 7 == len(names)
    assert not [name for name in names if "spool" in name]


def test_paths_of_a_savepoint_are_relative_to_its_own_directory(new_writer: NewWriter) -> None:
    bucket = MemoryBucket()
    put_checkpoint(bucket.open("memory://test/job"))
    source = read_checkpoint_at("memory://test/job/chk-7", bucket.open)
    made = new_writer(bucket.open).write(source, "memory://test/sp")
    stored = {info.path for info in bucket.open("memory://test/sp").list()}
    referred = {f.path for slot in made.metadata.slots for f in slot.keyed[0].files}
    assert stored == referred | {"_metadata"}


def test_the_same_trigger_finds_the_savepoint_that_is_there(new_writer: NewWriter) -> None:
    """Whoever lost the answer asks again, perhaps another driver that stands on a newer state."""
    bucket = MemoryBucket()
    put_checkpoint(bucket.open("memory://test/job"), 7)
    put_checkpoint(bucket.open("memory://test/job"), 9)
    writer = new_writer(bucket.open)
    first, second = (
        writer.write(
            read_checkpoint_at(f"memory://test/job/chk-{n}", bucket.open), "memory://test/sp"
        )
        for n in (7, 9)
    )
    assert first.metadata == second.metadata
    assert 7 == len(list(bucket.open("memory://test/sp").list()))


def test_between_two_attempts_the_conditional_create_decides(new_writer: NewWriter) -> None:
    """A deposed driver and its successor make the savepoint of one trigger at once."""
    bucket = MemoryBucket()
    put_checkpoint(bucket.open("memory://test/job"), 7)
    put_checkpoint(bucket.open("memory://test/job"), 9)
    newer = read_checkpoint_at("memory://test/job/chk-9", bucket.open)
    writer = new_writer(bucket.open)

    class Overtaken(Faults):
        """Before its own metadata is created, the other attempt makes the savepoint."""

        def choose(self, operation: Operation, path: str) -> Fault:
            if operation is Operation.CREATE:
                writer.write(newer, "memory://test/sp")
            return Fault.NONE

    slow = new_writer(lambda uri: bucket.open(uri, Overtaken() if uri.endswith("/sp") else None))
    made = slow.write(
        read_checkpoint_at("memory://test/job/chk-7", bucket.open), "memory://test/sp"
    )
    assert 9 == made.metadata.checkpoint_id
    assert 7 == len(list(bucket.open("memory://test/sp").list())), "the loser removed its files"
    read_checkpoint_at("memory://test/sp", bucket.open)


def test_a_directory_without_metadata_is_not_a_savepoint(new_writer: NewWriter) -> None:
    bucket = MemoryBucket()
    put_checkpoint(bucket.open("memory://test/job"))
    source = read_checkpoint_at("memory://test/job/chk-7", bucket.open)
    new_writer(bucket.open).write(source, "memory://test/sp")
    bucket.open("memory://test/sp").delete(["_metadata"])
    with pytest.raises(NoRestorableStateError, match="memory://test/sp"):
        read_checkpoint_at("memory://test/sp", bucket.open)
    assert new_writer(bucket.open).find("memory://test/sp") is None


@dataclass
class FailAt(Faults):
    """One operation on one kind of path goes wrong, every time."""

    operation: Operation
    part: str
    fault: Fault = Fault.REFUSED
    seen: int = 0
    late: list[Callable[[], None]] = field(default_factory=list)

    def choose(self, operation: Operation, path: str) -> Fault:
        hit = operation is self.operation and self.part in path
        self.seen += hit
        return self.fault if hit else Fault.NONE

    def delay(self, effect: Callable[[], None]) -> None:
        self.late.append(effect)


def write_with(faults: Faults, bucket: MemoryBucket, new_writer: NewWriter) -> None:
    put_checkpoint(bucket.open("memory://test/job"))
    source = read_checkpoint_at("memory://test/job/chk-7", bucket.open)
    writer = new_writer(lambda uri: bucket.open(uri, faults if uri.endswith("/sp") else None))
    writer.write(source, "memory://test/sp")


def test_a_failed_copy_leaves_nothing_behind(new_writer: NewWriter) -> None:
    bucket = MemoryBucket()
    with pytest.raises(StorageUnavailableError):
        write_with(FailAt(Operation.PUT, "u1-B.sst"), bucket, new_writer)
    assert [] == list(bucket.open("memory://test/sp").list())


def test_files_stay_while_the_metadata_may_still_arrive(new_writer: NewWriter) -> None:
    """A create that outlived its timeout lands after the attempt was given up."""
    bucket = MemoryBucket()
    faults = FailAt(Operation.CREATE, "_metadata", Fault.DELAYED)
    with pytest.raises(StorageUnavailableError):
        write_with(faults, bucket, new_writer)
    faults.late[0]()
    assert EXPECTED == content_of(read_checkpoint_at("memory://test/sp", bucket.open), bucket.open)


def test_a_lost_answer_to_the_create_is_asked_again(new_writer: NewWriter) -> None:
    bucket = MemoryBucket()

    class LostOnce(FailAt):
        def choose(self, operation: Operation, path: str) -> Fault:
            chosen = super().choose(operation, path)
            return chosen if self.seen == 1 else Fault.NONE

    write_with(LostOnce(Operation.CREATE, "_metadata", Fault.REPLY_LOST), bucket, new_writer)
    read_checkpoint_at("memory://test/sp", bucket.open)


def test_a_cancelled_savepoint_begins_no_file(new_writer: NewWriter) -> None:
    bucket = MemoryBucket()
    put_checkpoint(bucket.open("memory://test/job"))
    source = read_checkpoint_at("memory://test/job/chk-7", bucket.open)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(StorageUnavailableError, match="given up"):
        new_writer(bucket.open, cancelled).write(source, "memory://test/sp")
    assert [] == list(bucket.open("memory://test/sp").list())


def test_a_file_that_a_successor_has_deleted_fails_the_savepoint(new_writer: NewWriter) -> None:
    bucket = MemoryBucket()
    metadata = put_checkpoint(bucket.open("memory://test/job"))
    source = read_checkpoint_at("memory://test/job/chk-7", bucket.open)
    bucket.open("memory://test/job").delete([metadata.slots[0].keyed[0].files[0].path])
    with pytest.raises(CorruptStateError, match="is gone"):
        new_writer(bucket.open).write(source, "memory://test/sp")
    assert [] == list(bucket.open("memory://test/sp").list())


@pytest.mark.parametrize("target", ["file", "memory"])
def test_rot_in_a_checkpoint_is_found_when_its_bytes_are_read(
    tmp_path: Path, new_writer: NewWriter, target: str
) -> None:
    bucket = MemoryBucket()
    root = (tmp_path / "job").as_uri()
    job = open_store(root, {})
    metadata = put_checkpoint(job)
    victim = metadata.slots[1].keyed[0].files[1]
    job.put(victim.path, b"cc" * 1000)
    location = "memory://test/sp" if target == "memory" else (tmp_path / "sp").as_uri()

    def open_any(uri: str) -> ObjectStore:
        return bucket.open(uri) if uri.startswith("memory:") else open_store(uri, {})

    source = read_checkpoint_at(f"{root}/chk-7", open_any)
    with pytest.raises(CorruptStateError, match=victim.path):
        new_writer(open_any).write(source, location)
    assert [] == list(open_any(location).list())


def test_a_file_between_two_storages_goes_through_a_local_one_that_is_removed(
    tmp_path: Path, new_writer: NewWriter
) -> None:
    bucket = MemoryBucket()
    put_checkpoint(bucket.open("memory://test/job"))

    def open_any(uri: str) -> ObjectStore:
        return bucket.open(uri) if uri.startswith("memory:") else open_store(uri, {})

    source = read_checkpoint_at("memory://test/job/chk-7", open_any)
    location = (tmp_path / "sp").as_uri()
    new_writer(open_any).write(source, location)
    assert EXPECTED == content_of(read_checkpoint_at(location, open_any), open_any)
    assert [] == list((tmp_path / "scratch").iterdir())


def test_a_job_without_state_has_a_savepoint_too(new_writer: NewWriter) -> None:
    bucket = MemoryBucket()
    source = checkpoint(7, slots=[slot_snapshot(keyed=[])])
    new_writer(bucket.open).write(source, "memory://test/sp")
    assert 7 == read_checkpoint_at("memory://test/sp", bucket.open).checkpoint_id


def test_two_files_of_one_name_are_refused_before_anything_is_copied() -> None:
    files = [file_handle("a://x/shared/g1-c1-u-A"), file_handle("a://y/shared/g1-c1-u-A")]
    with pytest.raises(InternalError, match="one name"):
        plan_savepoint(checkpoint(1, slots=[slot_snapshot(keyed=[keyed_handle(files=files)])]), "x")


@pytest.mark.property
@pytest.mark.parametrize("seed", range(60))
def test_whatever_storage_does_a_savepoint_is_whole_or_not_there(
    new_writer: NewWriter, seed: int
) -> None:
    bucket = MemoryBucket()
    put_checkpoint(bucket.open("memory://test/job"))
    source = read_checkpoint_at("memory://test/job/chk-7", bucket.open)
    faults = RandomFaults(seed, refused_rate=0.06, reply_lost_rate=0.06)
    writer = new_writer(lambda uri: bucket.open(uri, faults))
    for _ in range(30):
        try:
            writer.write(source, "memory://test/sp")
        except StorageUnavailableError:
            pass
        else:
            break
        finally:
            if "sp/_metadata" in bucket.objects:
                restored = read_checkpoint_at("memory://test/sp", bucket.open)
                assert EXPECTED == content_of(restored, bucket.open)
    else:
        raise AssertionError("no attempt came through")
