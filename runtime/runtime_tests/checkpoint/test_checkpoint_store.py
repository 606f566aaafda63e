"""One coordinator and its successors over storage: claim, publish, subsume, read."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from headrace.checkpoint.held import HeldCheckpoints
from headrace.checkpoint.protocol import paths
from headrace.checkpoint.protocol.types import (
    CheckpointMetadata,
    FileHandle,
    encode_metadata,
)
from headrace.checkpoint.storage import ObjectStore
from headrace.checkpoint.store import ObjectCheckpointStore
from headrace.clock import SystemClock
from headrace.errors import (
    CorruptStateError,
    FencedError,
    IncompatibleStateError,
    InternalError,
    NoRestorableStateError,
    ObjectExistsError,
    StorageUnavailableError,
)
from headrace.ids import CheckpointId, Generation
from headrace.testing.object_store import Fault, Faults, MemoryBucket, MemoryStore, Operation
from runtime_tests.checkpoint.builders import (
    JOB_ID,
    UID,
    checkpoint,
    file_handle,
    keyed_handle,
    slot_snapshot,
)


class Coordinator:
    """A coordinator life that has claimed its generation."""

    def __init__(self, storage: ObjectStore, held: HeldCheckpoints | None = None) -> None:
        self.storage = storage
        self.store = ObjectCheckpointStore(
            storage, JOB_ID, SystemClock(), open_elsewhere=lambda _: storage, held=held
        )
        self.claimed = self.store.claim_generation()
        self.files: dict[str, FileHandle] = {}
        if self.claimed.restore:
            handle = self.claimed.restore.slots[0].keyed[0]
            self.files = {file.name: file for file in handle.files}

    @property
    def restored(self) -> int | None:
        return self.claimed.restore.checkpoint_id if self.claimed.restore else None

    def write(self, n: int, *names: str) -> None:
        """Upload files for checkpoint ``n``."""
        writer = paths.FileWriter(self.claimed.generation, CheckpointId(n))
        for name in names:
            path = paths.shared_path(writer, f"u{n}", name)
            self.storage.put(path, b"content")
            self.files[name] = file_handle(path, name=name)

    def forget(self, *names: str) -> None:
        """Let a compaction drop files."""
        for name in names:
            del self.files[name]

    def metadata(self, n: int) -> CheckpointMetadata:
        slot = slot_snapshot(keyed=[keyed_handle(files=list(self.files.values()))])
        return checkpoint(n, self.claimed.generation, self.restored, [slot])

    def publish(self, n: int) -> None:
        self.store.publish(self.metadata(n))


@pytest.fixture
def bucket() -> MemoryBucket:
    return MemoryBucket()


@pytest.fixture
def new_coordinator(bucket: MemoryBucket) -> Callable[[], Coordinator]:
    return lambda: Coordinator(MemoryStore(bucket=bucket))


Factory = Callable[[], Coordinator]


def names(storage: ObjectStore, prefix: str = "") -> list[str]:
    return [info.path for info in storage.list(prefix)]


# --- claim -----------------------------------------------------------------------------------


def test_the_first_generation_starts_empty_with_number_one(new_coordinator: Factory) -> None:
    claimed = new_coordinator().claimed
    assert (claimed.generation, claimed.restore, claimed.next_checkpoint_id) == (1, None, 1)


def test_the_next_generation_continues_from_the_newest_checkpoint(store: ObjectStore) -> None:
    first = Coordinator(store)
    first.write(1, "A.sst")
    first.publish(1)
    first.write(2, "B.sst")
    first.publish(2)
    second = Coordinator(store)
    assert second.claimed.generation == 2
    assert second.claimed.restore == first.metadata(2)
    assert second.claimed.next_checkpoint_id == 3


def test_two_generations_in_a_row_restore_the_same_checkpoint(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.publish(1)
    assert [new_coordinator().restored for _ in range(3)] == [1, 1, 1]


def test_numbers_go_on_above_a_partial_checkpoint(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.publish(1)
    writer = paths.FileWriter(Generation(1), CheckpointId(9))
    first.storage.put(paths.exclusive_path(writer, "u", "MANIFEST"), b"")
    assert new_coordinator().claimed.next_checkpoint_id == 10


def test_a_claim_without_a_start_is_passed_over(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.publish(1)
    first.storage.put(paths.claim_path(Generation(2)), b"{}")
    third = new_coordinator()
    assert (third.claimed.generation, third.restored) == (3, 1)


def test_lost_checkpoints_never_turn_into_an_empty_start(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.publish(1)
    first.storage.delete(["chk-1/_metadata"])
    with pytest.raises(NoRestorableStateError, match="expected=chk-1"):
        new_coordinator()


def test_a_lost_newest_checkpoint_is_never_replaced_by_an_older_one(
    new_coordinator: Factory,
) -> None:
    first = new_coordinator()
    first.publish(1)
    first.publish(2)
    first.storage.delete(["chk-2/_metadata"])
    with pytest.raises(NoRestorableStateError, match=r"expected=chk-2 .*candidates=\['chk-1'\]"):
        new_coordinator()


def test_lost_markers_never_turn_into_an_empty_start(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.publish(1)
    first.storage.delete(names(first.storage, "generations/"))
    with pytest.raises(NoRestorableStateError, match="every generation marker is gone"):
        new_coordinator()


def test_unreadable_metadata_stops_the_start(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.publish(1)
    first.storage.put("chk-1/_metadata", b"{torn")
    with pytest.raises(NoRestorableStateError, match="cannot be read"):
        new_coordinator()


@pytest.mark.parametrize("damage", ["missing", "size"])
def test_a_lost_or_cut_file_is_found_before_anything_restores(
    new_coordinator: Factory, damage: str
) -> None:
    first = new_coordinator()
    first.write(1, "A.sst", "B.sst")
    first.publish(1)
    path = first.files["B.sst"].path
    first.storage.delete([path]) if damage == "missing" else first.storage.put(path, b"cut")
    with pytest.raises(CorruptStateError, match=f"wrong_files=1 of=2 first={path}"):
        new_coordinator()


def test_one_store_claims_once(new_coordinator: Factory) -> None:
    coordinator = new_coordinator()
    with pytest.raises(InternalError):
        coordinator.store.claim_generation()


def test_nothing_works_before_a_claim(bucket: MemoryBucket) -> None:
    storage = MemoryStore(bucket=bucket)
    store = ObjectCheckpointStore(storage, JOB_ID, SystemClock(), open_elsewhere=lambda _: storage)
    with pytest.raises(InternalError, match="claim_generation"):
        store.publish(checkpoint(1))


# --- publish ---------------------------------------------------------------------------------


def test_a_deposed_coordinator_can_publish_nothing_that_counts(new_coordinator: Factory) -> None:
    zombie = new_coordinator()
    zombie.publish(1)
    successor = new_coordinator()
    with pytest.raises(FencedError, match="generation=1 newest=2"):
        zombie.publish(2)
    with pytest.raises(FencedError):
        zombie.store.check_fence()
    successor.store.check_fence()
    assert new_coordinator().restored == 1


def test_a_number_used_by_a_zombie_is_reported_and_the_next_one_works(
    new_coordinator: Factory,
) -> None:
    zombie = new_coordinator()
    successor = new_coordinator()
    with pytest.raises(FencedError):
        zombie.publish(1)
    with pytest.raises(ObjectExistsError):
        successor.publish(1)
    successor.publish(2)
    assert new_coordinator().restored == 2


def test_a_zombie_that_finds_its_number_used_learns_that_it_is_fenced(
    new_coordinator: Factory,
) -> None:
    zombie = new_coordinator()
    successor = new_coordinator()
    successor.publish(1)
    with pytest.raises(FencedError):
        zombie.publish(1)


class _FailOnce(Faults):
    def __init__(self, operation: Operation, prefix: str, fault: Fault) -> None:
        self.left = 1
        self.matches = (operation, prefix)
        self.fault = fault

    def choose(self, operation: Operation, path: str) -> Fault:
        wanted, prefix = self.matches
        if self.left and operation is wanted and path.startswith(prefix):
            self.left -= 1
            return self.fault
        return Fault.NONE


@pytest.mark.parametrize(
    ("operation", "prefix", "fault"),
    [
        (Operation.CREATE, "chk-2/", Fault.REFUSED),
        (Operation.CREATE, "chk-2/", Fault.REPLY_LOST),
        (Operation.LIST, "generations/", Fault.REFUSED),
        (Operation.PUT, "generations/", Fault.REFUSED),
        (Operation.PUT, "generations/", Fault.REPLY_LOST),
    ],
)
def test_after_a_failed_publication_the_next_one_stands_and_a_failover_restores_it(
    bucket: MemoryBucket, operation: Operation, prefix: str, fault: Fault
) -> None:
    storage = MemoryStore(bucket=bucket)
    first = Coordinator(storage)
    first.publish(1)
    storage.faults = _FailOnce(operation, prefix, fault)
    with pytest.raises(StorageUnavailableError):
        first.publish(2)
    first.publish(3)
    first.store.subsume(1)
    assert [n for n in names(storage) if n.endswith("_metadata")] == ["chk-3/_metadata"]
    assert Coordinator(MemoryStore(bucket=bucket)).restored == 3


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.REPLY_LOST])
def test_a_failover_after_a_failed_publication_finds_out_whether_it_happened(
    bucket: MemoryBucket, fault: Fault
) -> None:
    storage = MemoryStore(bucket=bucket)
    first = Coordinator(storage)
    first.publish(1)
    storage.faults = _FailOnce(Operation.CREATE, "chk-2/", fault)
    with pytest.raises(StorageUnavailableError):
        first.publish(2)
    expected = 2 if fault is Fault.REPLY_LOST else 1
    assert expected == Coordinator(MemoryStore(bucket=bucket)).restored


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint_id": CheckpointId(1)},
        {"generation": Generation(7)},
        {"parent": CheckpointId(5)},
        {"job_id": "f" * 32},
    ],
)
def test_metadata_that_does_not_continue_the_last_checkpoint_is_refused(
    new_coordinator: Factory, changes: dict[str, object]
) -> None:
    coordinator = new_coordinator()
    coordinator.publish(1)
    with pytest.raises(InternalError, match="does not continue"):
        coordinator.store.publish(msgspec.structs.replace(coordinator.metadata(2), **changes))


def test_a_file_that_the_last_checkpoint_did_not_hold_cannot_be_referred_to(
    new_coordinator: Factory,
) -> None:
    """Else a file could be referred to after it was deleted."""
    coordinator = new_coordinator()
    coordinator.write(1, "A.sst")
    coordinator.publish(1)
    dropped = coordinator.files.pop("A.sst")
    coordinator.publish(2)
    coordinator.files["A.sst"] = dropped
    with pytest.raises(InternalError, match=r"foreign_files=.*A\.sst"):
        coordinator.publish(3)


# --- subsume and clean-up --------------------------------------------------------------------


def test_shared_files_live_as_long_as_a_retained_checkpoint_refers_to_them(
    store: ObjectStore,
) -> None:
    """The end of the story of D9, and D10."""
    job = Coordinator(store)
    job.write(1, "A.sst", "B.sst", "C.sst")
    job.publish(1)
    job.write(2, "D.sst")
    job.publish(2)
    assert job.store.subsume(2) == 0
    job.forget("C.sst", "D.sst")
    job.write(3, "E.sst")
    job.publish(3)
    assert job.store.subsume(2) == 1  # chk-1; chk-2 still refers to C and D
    assert [n[-5:] for n in names(store, "shared/")] == [f"{c}.sst" for c in "ABCDE"]
    job.publish(4)
    assert job.store.subsume(2) == 3  # chk-2, C, D
    assert [n[-5:] for n in names(store, "shared/")] == ["A.sst", "B.sst", "E.sst"]
    assert names(store, "chk-") == ["chk-3/_metadata", "chk-4/_metadata"]


def test_a_held_checkpoint_keeps_its_files_until_it_is_released(bucket: MemoryBucket) -> None:
    """A savepoint is copied from chk-1 while the job goes on and fails over (D10, T5)."""
    held = HeldCheckpoints()
    first = Coordinator(MemoryStore(bucket=bucket), held)
    first.write(1, "A.sst")
    first.publish(1)
    held.hold(CheckpointId(1))
    first.forget("A.sst")
    first.write(2, "B.sst")
    first.publish(2)
    assert 0 == first.store.subsume(1)

    second = Coordinator(MemoryStore(bucket=bucket), held)
    assert 0 == second.store.clean_orphans()
    second.publish(3)
    assert 1 == second.store.subsume(1), "chk-2 goes, chk-1 stays"
    assert ["chk-1/_metadata", "chk-3/_metadata"] == names(second.storage, "chk-")
    assert ["A.sst", "B.sst"] == [name[-5:] for name in names(second.storage, "shared/")]

    held.release(CheckpointId(1))
    assert 2 == second.store.subsume(1)
    assert ["B.sst"] == [name[-5:] for name in names(second.storage, "shared/")]


def test_a_checkpoint_is_held_as_long_as_anybody_holds_it() -> None:
    held = HeldCheckpoints()
    for _ in range(2):
        held.hold(CheckpointId(1))
    held.release(CheckpointId(1))
    assert {1} == held.numbers()
    held.release(CheckpointId(1))
    assert set() == held.numbers()


def test_subsuming_counts_checkpoints_of_earlier_generations(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.write(1, "A.sst")
    first.publish(1)
    first.publish(2)
    second = new_coordinator()
    second.publish(3)
    second.store.subsume(2)
    assert names(second.storage, "chk-") == ["chk-2/_metadata", "chk-3/_metadata"]
    second.store.subsume(1)
    assert names(second.storage, "chk-") == ["chk-3/_metadata"]
    assert len(names(second.storage, "shared/")) == 1  # chk-3 still refers to A


def test_files_of_a_checkpoint_in_progress_are_never_deleted(new_coordinator: Factory) -> None:
    job = new_coordinator()
    job.publish(1)
    job.write(2, "in-progress.sst")
    job.store.subsume(1)
    job.publish(2)
    assert new_coordinator().restored == 2


def test_files_of_an_aborted_checkpoint_go_with_the_next_completed_one(
    new_coordinator: Factory,
) -> None:
    job = new_coordinator()
    job.write(1, "aborted.sst")
    job.forget("aborted.sst")
    assert job.store.subsume(1) == 0
    job.publish(2)
    assert job.store.subsume(1) == 1
    assert names(job.storage, "shared/") == []


def test_pending_sink_output_is_a_reference(new_coordinator: Factory) -> None:
    from headrace.checkpoint.protocol.types import SinkCommittable

    job = new_coordinator()
    writer = paths.FileWriter(Generation(1), CheckpointId(1))
    path = paths.exclusive_path(writer, "u", "spool")
    job.storage.put(path, b"content")
    pending = SinkCommittable(UID, "slot-0000", CheckpointId(1), [file_handle(path)], 1)
    slot = slot_snapshot(committables=[pending])
    # chk-1 was aborted; its spool travels in chk-2 and, unconfirmed, in chk-3.
    for n in (2, 3):
        job.store.publish(checkpoint(n, 1, None, [slot]))
        job.store.subsume(1)
        assert path in names(job.storage)
    job.publish(4)
    job.store.subsume(1)
    assert path not in names(job.storage)


def test_orphans_of_deposed_coordinators_are_removed_at_start(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.write(1, "A.sst")
    first.publish(1)
    first.write(2, "partial.sst")
    second = new_coordinator()
    with pytest.raises(FencedError):
        first.publish(2)  # an orphan
    third = new_coordinator()
    assert second.restored == third.restored == 1
    third.store.clean_orphans()
    assert names(third.storage, "chk-") == ["chk-1/_metadata"]
    assert [n[-5:] for n in names(third.storage, "shared/")] == ["A.sst"]


def test_a_deposed_coordinator_deletes_nothing(new_coordinator: Factory) -> None:
    zombie = new_coordinator()
    zombie.publish(1)
    zombie.publish(2)
    new_coordinator()
    before = names(zombie.storage)
    for clean in (
        zombie.store.clean_orphans,
        lambda: zombie.store.subsume(1),
        zombie.store.discard_all,
    ):
        with pytest.raises(FencedError):
            clean()
    assert before == names(zombie.storage)


def test_unreadable_metadata_deletes_nothing(new_coordinator: Factory) -> None:
    job = new_coordinator()
    for n in (1, 2, 3):
        job.publish(n)
    job.storage.put("chk-1/_metadata", b"{torn")
    before = names(job.storage)
    with pytest.raises(CorruptStateError):
        job.store.subsume(1)
    assert before == names(job.storage)


def test_metadata_is_deleted_before_the_files_that_it_refers_to(bucket: MemoryBucket) -> None:
    storage = MemoryStore(bucket=bucket)
    job = Coordinator(storage)
    job.write(1, "A.sst")
    job.publish(1)
    job.forget("A.sst")
    job.publish(2)
    deleted: list[str] = []

    class Record(Faults):
        def choose(self, operation: Operation, path: str) -> Fault:
            if operation is Operation.DELETE:
                deleted.append(path)
            return Fault.NONE

    storage.faults = Record()
    job.store.subsume(1)
    assert deleted == ["chk-1/_metadata", "shared/g1-c1-u1-A.sst"]


def test_objects_that_are_not_ours_are_never_deleted(new_coordinator: Factory) -> None:
    first = new_coordinator()
    foreign = ["shared/notes.txt", "chk-1/readme", "taskowned/x", "other"]
    for path in foreign:
        first.storage.put(path, b"")
    first.publish(2)
    second = new_coordinator()
    second.publish(3)
    second.store.clean_orphans()
    second.store.subsume(1)
    second.store.discard_all()
    assert set(foreign) <= set(names(second.storage))


def test_old_generation_markers_are_pruned_and_the_line_stays(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.publish(1)
    for _ in range(20):
        latest = new_coordinator()
        latest.store.clean_orphans()
    generations = {n.split("/")[1] for n in names(latest.storage, "generations/")}
    assert len(generations) == 9
    assert (new_coordinator().claimed.generation, latest.restored) == (22, 1)


def test_after_cancellation_everything_is_gone_and_a_restart_is_refused(
    new_coordinator: Factory,
) -> None:
    job = new_coordinator()
    job.write(1, "A.sst")
    job.publish(1)
    job.store.discard_all()
    left = names(job.storage)
    assert all(path.startswith("generations/") for path in left)
    with pytest.raises(NoRestorableStateError):
        new_coordinator()


# --- reading ---------------------------------------------------------------------------------


def test_listed_checkpoints_are_those_of_the_line_newest_first(new_coordinator: Factory) -> None:
    first = new_coordinator()
    first.publish(1)
    second = new_coordinator()
    with pytest.raises(FencedError):
        first.publish(2)
    second.publish(3)
    summaries = second.store.list_checkpoints()
    assert [(s.id, s.generation) for s in summaries] == [(3, 2), (1, 1)]
    assert [s.path for s in summaries] == ["memory://test/chk-3", "memory://test/chk-1"]
    assert (
        summaries[0].state_size_bytes,
        summaries[0].uploaded_bytes,
        summaries[0].sync_ms,
    ) == (100, 10, 1.5)


def _read(bucket: MemoryBucket, uri: str) -> CheckpointMetadata:
    """Read a checkpoint in the eyes of another job."""
    reader = ObjectCheckpointStore(MemoryStore(), JOB_ID, SystemClock(), open_elsewhere=bucket.open)
    return reader.read_checkpoint(uri)


@pytest.mark.parametrize("suffix", ["", "/", "/_metadata"])
def test_a_checkpoint_of_another_job_is_read_by_its_uri_with_absolute_files(
    new_coordinator: Factory, bucket: MemoryBucket, suffix: str
) -> None:
    job = new_coordinator()
    job.write(4, "A.sst")
    job.publish(4)
    metadata = _read(bucket, f"memory://test/chk-4{suffix}")
    assert [f.path for f in metadata.slots[0].keyed[0].files] == [
        "memory://test/shared/g1-c4-u4-A.sst"
    ]


def test_a_path_without_a_complete_checkpoint_is_refused(
    new_coordinator: Factory, bucket: MemoryBucket
) -> None:
    new_coordinator()
    with pytest.raises(NoRestorableStateError, match="memory://test/chk-3"):
        _read(bucket, "memory://test/chk-3")


def test_a_checkpoint_read_by_path_has_all_its_files(
    new_coordinator: Factory, bucket: MemoryBucket
) -> None:
    job = new_coordinator()
    job.write(1, "A.sst")
    job.publish(1)
    job.storage.delete([job.files["A.sst"].path])
    with pytest.raises(CorruptStateError, match=r"chk-1 wrong_files=1 .*A\.sst size=missing"):
        _read(bucket, "memory://test/chk-1")


def test_metadata_of_an_unknown_kind_is_refused_by_name(
    new_coordinator: Factory, bucket: MemoryBucket
) -> None:
    metadata = msgspec.structs.replace(checkpoint(1), kind="snapshot")
    new_coordinator().storage.put("chk-1/_metadata", encode_metadata(metadata))
    with pytest.raises(CorruptStateError, match="kind='snapshot'"):
        _read(bucket, "memory://test/chk-1")


def test_another_jobs_checkpoint_in_the_jobs_own_directory_is_refused_with_the_way_out(
    new_coordinator: Factory,
) -> None:
    """A copied directory: what was published is known to the ledger of the other job alone."""
    first = new_coordinator()
    first.publish(1)
    foreign = msgspec.structs.replace(first.metadata(2), job_id="f" * 32)
    first.storage.put("chk-2/_metadata", encode_metadata(foreign))
    latest = b'{"generation":1,"checkpoint_id":2}'
    first.storage.put(paths.latest_path(Generation(1)), latest)
    with pytest.raises(
        IncompatibleStateError, match=f"state-recovery.path; .*chk-2 .* other_job={'f' * 32}"
    ):
        new_coordinator()


def test_a_job_that_starts_from_another_jobs_checkpoint_goes_on_above_its_number(
    new_coordinator: Factory, bucket: MemoryBucket
) -> None:
    """Sinks record the numbers that they have published: a lower one would count as done."""
    foreign = checkpoint(41, slots=[slot_snapshot(keyed=[keyed_handle(files=[])])])
    job = new_coordinator()
    claimed = job.claimed.starting_from(foreign)
    assert (foreign, 42, None) == (claimed.restore, claimed.next_checkpoint_id, claimed.parent)
    job.publish(claimed.next_checkpoint_id)
    assert (42, 43) == (new_coordinator().restored, new_coordinator().claimed.next_checkpoint_id)


def test_the_parent_of_a_claim_is_what_it_restores(new_coordinator: Factory) -> None:
    assert new_coordinator().claimed.parent is None
    new_coordinator().publish(1)
    assert new_coordinator().claimed.parent == 1
