"""Savepoints in canonical format: rows written anew, from real checkpoints of both backends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.protocol.savepoints import SavepointFormat
from headrace.checkpoint.protocol.types import CheckpointMetadata
from headrace.checkpoint.savepoint import Savepoint, SavepointWriter
from headrace.checkpoint.storage import ObjectStore
from headrace.checkpoint.transfer import TransferPool
from headrace.errors import CorruptStateError, IncompatibleStateError, StorageUnavailableError
from headrace.state.rows import rows_of_range
from headrace.state.stored import open_stored_rows
from headrace.testing.object_store import MemoryBucket, Operation
from runtime_tests.checkpoint.builders import JOB_ID, checkpoint, keyed_handle, slot_snapshot
from runtime_tests.checkpoint.test_savepoint import FailAt

GOLDEN = Path(__file__).parent.parent / "golden" / "v1"
JOB = "memory://test/job"
TARGET = "memory://test/sp"


def real_checkpoint(bucket: MemoryBucket, backend: str, job: str = JOB) -> CheckpointMetadata:
    """Put checkpoint 2 of a real job into the bucket: two slots, every kind of state."""
    store = bucket.open(job)
    root = GOLDEN / backend / "checkpoints"
    for path in root.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(root).as_posix(), path.read_bytes())
    return read_checkpoint_at(f"{job}/chk-2", bucket.open)


class Maker:
    """Makes canonical savepoints with a scratch directory of its own."""

    def __init__(self, bucket: MemoryBucket, scratch: Path, pool: TransferPool) -> None:
        self.bucket = bucket
        self.scratch = scratch
        self.pool = pool
        self.cancelled = threading.Event()
        scratch.mkdir(exist_ok=True)

    def write(
        self,
        source: CheckpointMetadata,
        open_store: Callable[[str], ObjectStore] | None = None,
        location: str = TARGET,
    ) -> Savepoint:
        writer = SavepointWriter(
            JOB_ID,
            self.pool,
            open_store=open_store or self.bucket.open,
            scratch_dir=self.scratch,
            cancelled=self.cancelled,
        )
        return writer.write(source, location, SavepointFormat.CANONICAL)

    def left_behind(self) -> list[str]:
        """Files in the target and in the scratch directory."""
        stored = [info.path for info in self.bucket.open(TARGET).list()]
        return stored + [path.name for path in self.scratch.iterdir()]


@pytest.fixture
def maker(tmp_path: Path, pool: TransferPool) -> Maker:
    return Maker(MemoryBucket(), tmp_path / "scratch", pool)


def rows_of(metadata: CheckpointMetadata, maker: Maker, directory: Path) -> list[object]:
    """Every row of every operator and slot, with whose it is."""
    downloader = SnapshotDownloader(
        maker.bucket.open(JOB), maker.pool, open_elsewhere=maker.bucket.open
    )
    found: list[object] = []
    for index, handle in enumerate(h for slot in metadata.slots for h in slot.keyed):
        source = downloader.download_keyed(handle, directory / f"files-{index}")
        stored = open_stored_rows(source, directory / f"reading-{index}")
        bounds = rows_of_range(handle.key_group_range)
        for schema in handle.schemas:
            rows = list(stored.rows(schema.name).scan(*bounds))
            found.append((handle.operator_uid, handle.slot, schema.name, rows))
        stored.close()
    return found


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_a_canonical_savepoint_holds_the_rows_of_the_checkpoint_to_the_byte(
    maker: Maker, tmp_path: Path, backend: str
) -> None:
    source = real_checkpoint(maker.bucket, backend)
    expected = rows_of(source, maker, tmp_path / "native")
    assert any(rows for *_, rows in expected), "the checkpoint has state"  # type: ignore[misc]
    maker.write(source)
    job = maker.bucket.open(JOB)
    job.delete([info.path for info in job.list()])
    restored = read_checkpoint_at(TARGET, maker.bucket.open)
    assert expected == rows_of(restored, maker, tmp_path / "canonical")


def test_only_its_files_tell_a_canonical_savepoint_from_a_native_one(maker: Maker) -> None:
    source = real_checkpoint(maker.bucket, "rocksdb")
    made = maker.write(source).metadata
    assert msgspec.structs.replace(source, slots=[], kind="savepoint", parent=None) == (
        msgspec.structs.replace(made, slots=[])
    )
    stored = {info.path: info.size_bytes for info in maker.bucket.open(TARGET).list()}
    referred = {
        file.path: file.size_bytes
        for slot in made.slots
        for keyed in slot.keyed
        for file in keyed.files
    }
    assert stored.keys() == referred.keys() | {"_metadata"}
    assert sum(referred.values()) == sum(slot.state_size_bytes for slot in made.slots)
    for before, after in zip(source.slots, made.slots, strict=True):
        assert ([], before.operator) == (after.committables, after.operator)
        assert after.uploaded_bytes == after.state_size_bytes
        assert [
            msgspec.structs.replace(keyed, files=[], backend="canonical") for keyed in before.keyed
        ] == [msgspec.structs.replace(keyed, files=[]) for keyed in after.keyed]


def test_a_canonical_savepoint_can_be_written_from_a_canonical_one(
    maker: Maker, tmp_path: Path
) -> None:
    """A job that has just started from one may have no native file of its own yet."""
    maker.write(real_checkpoint(maker.bucket, "hashmap"))
    first = read_checkpoint_at(TARGET, maker.bucket.open)
    maker.write(first, location="memory://test/second")
    second = read_checkpoint_at("memory://test/second", maker.bucket.open)
    assert rows_of(first, maker, tmp_path / "1") == rows_of(second, maker, tmp_path / "2")


def test_nothing_stays_on_the_local_disk(maker: Maker) -> None:
    maker.write(real_checkpoint(maker.bucket, "rocksdb"))
    assert [] == list(maker.scratch.iterdir())


@pytest.mark.parametrize("part", ["slot-0000-0-0000.parquet", "slot-0001-0-0003.parquet"])
def test_a_failed_upload_leaves_nothing_behind(maker: Maker, part: str) -> None:
    source = real_checkpoint(maker.bucket, "rocksdb")
    faults = FailAt(Operation.PUT, part)

    def open_store(uri: str) -> ObjectStore:
        return maker.bucket.open(uri, faults if uri == TARGET else None)

    with pytest.raises(StorageUnavailableError):
        maker.write(source, open_store)
    assert 1 == faults.seen
    assert [] == maker.left_behind()


def test_a_job_that_ends_gives_the_savepoint_up(maker: Maker) -> None:
    source = real_checkpoint(maker.bucket, "hashmap")
    maker.cancelled.set()
    with pytest.raises(StorageUnavailableError, match="given up"):
        maker.write(source)
    assert [] == maker.left_behind()


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_rot_in_the_checkpoint_is_named_and_never_converted(maker: Maker, backend: str) -> None:
    source = real_checkpoint(maker.bucket, backend)
    files = [file for slot in source.slots for keyed in slot.keyed for file in keyed.files]
    victim = max(files, key=lambda file: file.size_bytes).path
    root, _, name = victim.rpartition("/")
    store = maker.bucket.open(root)
    data = bytearray(store.get(name))
    data[len(data) // 2] ^= 1
    store.put(name, bytes(data))
    with pytest.raises(CorruptStateError, match=f"not what was stored.*{name}"):
        maker.write(source)
    assert [] == maker.left_behind()


def test_state_of_an_unknown_format_is_refused_by_name(maker: Maker) -> None:
    handle = msgspec.structs.replace(keyed_handle(), backend="forst")
    source = checkpoint(7, slots=[slot_snapshot(keyed=[handle])])
    with pytest.raises(IncompatibleStateError, match="format='forst'"):
        maker.write(source)
    assert [] == maker.left_behind()


def test_a_job_without_state_has_a_canonical_savepoint_too(maker: Maker) -> None:
    maker.write(checkpoint(7, slots=[slot_snapshot(keyed=[])]))
    assert 7 == read_checkpoint_at(TARGET, maker.bucket.open).checkpoint_id
