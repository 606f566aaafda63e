"""A whole job over storage that fails at random: real coordinator, uploader, store and downloader.

The job: every epoch adds its number to the state of every slot, in a new immutable file; now and
then files are compacted. What each checkpoint must hold is written down at its barrier. After every
start the restored state is compared with that, and with what was acknowledged before. Savepoints
are ordered at any time and copied some epochs after their checkpoint, when newer ones have
superseded it and generations may have passed. Everything happens in one thread, in an order that
follows from the seed.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from headrace.checkpoint.coordinator import CheckpointCoordinator, Instant
from headrace.checkpoint.decisions import (
    AbortCheckpoint,
    CompleteCheckpoint,
    CopySavepoint,
    Decision,
    FailJob,
    FailSavepoints,
    PublishCheckpoint,
    TriggerCheckpoint,
)
from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.held import HeldCheckpoints
from headrace.checkpoint.protocol.types import (
    CheckpointMetadata,
    KeyedStateHandle,
    SlotSnapshot,
)
from headrace.checkpoint.savepoint import SavepointWriter
from headrace.checkpoint.settings import CheckpointSettings
from headrace.checkpoint.storage import ObjectStore
from headrace.checkpoint.store import ObjectCheckpointStore
from headrace.checkpoint.transfer import TransferPool
from headrace.checkpoint.upload import KeyedOwner, ReusableFiles, SnapshotUploader
from headrace.clock import SystemClock
from headrace.errors import (
    CorruptStateError,
    NoRestorableStateError,
    ObjectExistsError,
    StorageUnavailableError,
)
from headrace.ids import CheckpointId, Epoch, Generation, SlotIndex, TriggerId
from headrace.testing.object_store import Faults, MemoryBucket, MemoryStore, Operation, RandomFaults
from runtime_tests.checkpoint.builders import (
    JOB_ID,
    UID,
    checkpoint,
    local_snapshot,
    position,
    slot_snapshot,
)

T = TypeVar("T")

SLOTS = 2
TOLERATED = 2
INTERVAL_MS, TIMEOUT_MS = 1000, 20_000
SLOW_MS_MAX = 30_000
"""Some operations take longer than a checkpoint may."""


class CallersThread(TransferPool):
    """Moves files in the caller's thread, so that a run follows from its seed."""

    def run(self, transfers: Sequence[Callable[[], T]]) -> list[T]:
        return [transfer() for transfer in transfers]


class Restart(Exception):  # noqa: N818 - what ends a generation is no error of the test
    """The generation has failed; the next one is claimed."""


@dataclass
class Slot:
    """One slot's state: name of a file -> the epochs in it."""

    index: int
    files: dict[str, list[int]] = field(default_factory=dict)
    reusable: ReusableFiles = field(default_factory=ReusableFiles)

    def epochs(self) -> list[int]:
        return sorted(epoch for epochs in self.files.values() for epoch in epochs)

    def add(self, epoch: int, chooser: random.Random) -> None:
        """Write a file; sometimes a compaction puts several files into one."""
        names = sorted(self.files)
        if len(names) > 2 and chooser.random() < 0.4:
            chosen = chooser.sample(names, chooser.randint(2, len(names)))
            self.files[f"{epoch:06d}c.sst"] = [e for name in chosen for e in self.files.pop(name)]
        self.files[f"{epoch:06d}.sst"] = [epoch]


class FaultyJob:
    """Runs generations of a job until it has seen ``epochs`` epochs."""

    def __init__(self, seed: int, disk: Path) -> None:
        self.chooser = random.Random(seed)
        self.truncated_rate = self.chooser.choice([0.0, 0.05, 0.15])
        self.refusals = 0
        self.disk = disk
        self.pool = CallersThread()
        self.now_ms = 0
        self.bucket = MemoryBucket()
        self.faults: Faults = RandomFaults(
            seed,
            refused_rate=self.chooser.choice([0.0, 0.01, 0.03]),
            reply_lost_rate=self.chooser.choice([0.0, 0.02, 0.06]),
            truncated_rate=self.truncated_rate,
            latency=self._take_time,
        )
        settings = CheckpointSettings(
            INTERVAL_MS, timeout_ms=TIMEOUT_MS, tolerable_failures=TOLERATED
        )
        self.coordinator = CheckpointCoordinator(settings, root_uri="memory://test")
        self.truth: dict[tuple[int, int], list[int]] = {}
        self.acknowledged = 0
        self.failures_in_a_row = 0
        self.restores = 0
        self.failed_over_by_checkpoints = 0
        self.held = HeldCheckpoints()
        self.archive = MemoryBucket(uri="memory://archive")
        self.ordered = 0
        self.uncopied: list[CheckpointId] = []
        self.copies: list[tuple[CheckpointId, TriggerId]] = []
        self.savepoints: dict[str, list[int]] = {}
        self.failed_savepoints = 0

    def open(self, uri: str) -> ObjectStore:
        """Open any directory, faults included."""
        bucket = self.archive if uri.startswith(self.archive.uri) else self.bucket
        return bucket.open(uri, self.faults)

    def _take_time(self, operation: Operation, path: str) -> None:
        del operation, path
        self.now_ms += 5 if self.chooser.random() < 0.99 else self.chooser.randrange(SLOW_MS_MAX)

    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms)

    def run(self, epochs: int) -> None:
        """Run until that many epochs are in the state, over as many generations as it takes.

        A start that is refused is started again, as a person would: reads may be cut off so often
        in a row that they look like rot. Without cut reads nothing may look like rot.
        """
        for _ in range(400):
            try:
                with contextlib.suppress(Restart, StorageUnavailableError):
                    self._run_generation(epochs)
                    return
            except (CorruptStateError, NoRestorableStateError):
                self.refusals += 1
                if self.truncated_rate == 0:
                    raise
        raise AssertionError("the job never came through")

    # --- one generation ----------------------------------------------------------------------

    def _run_generation(self, epochs: int) -> None:
        self.store = MemoryStore(bucket=self.bucket, faults=self.faults)
        self.checkpoints = ObjectCheckpointStore(
            self.store, JOB_ID, SystemClock(), open_elsewhere=self.open, held=self.held
        )
        self._release_uncopied()
        claimed = self.checkpoints.claim_generation()
        self.generation = Generation(claimed.generation)
        self.parent = claimed.parent
        self.uploader = SnapshotUploader(self.store, self.pool, self.generation)
        self.slots = self._restore(claimed.restore)
        with contextlib.suppress(StorageUnavailableError, CorruptStateError):
            self.checkpoints.clean_orphans()
        self.failures_in_a_row = 0
        self.triggered_ms = self.now_ms
        self._follow(
            self.coordinator.start_generation(
                self.generation,
                next_checkpoint_id=claimed.next_checkpoint_id,
                parallelism=SLOTS,
                restored=claimed.restore is not None,
                now=self.now(),
            )
        )
        epoch = max((e for slot in self.slots for e in slot.epochs()), default=0)
        while epoch < epochs:
            epoch += 1
            self._epoch(epoch)
            if self.chooser.random() < 0.05:
                raise Restart

    def _restore(self, metadata: CheckpointMetadata | None) -> list[Slot]:
        slots = [Slot(index) for index in range(SLOTS)]
        if metadata is None:
            assert self.acknowledged == 0, "an acknowledged checkpoint was forgotten"
            return slots
        assert metadata.checkpoint_id >= self.acknowledged, "restored an older checkpoint"
        downloader = SnapshotDownloader(self.store, self.pool, open_elsewhere=self.bucket.open)
        for slot, snapshot in zip(slots, metadata.slots, strict=True):
            handle = snapshot.keyed[0]
            slot.files = self._download(downloader, handle)
            slot.reusable = ReusableFiles(handle)
            expected = self.truth[metadata.checkpoint_id, metadata.generation]
            assert slot.epochs() == expected, "restored another state than was checkpointed"
        self.restores += 1
        return slots

    def _download(
        self, downloader: SnapshotDownloader, handle: KeyedStateHandle
    ) -> dict[str, list[int]]:
        target = self.disk / "restore"
        try:
            source = downloader.download_keyed(handle, target)
            return {
                path.name: json.loads(path.read_text())
                for path in source.directory.iterdir()
                if path.suffix == ".sst"
            }
        finally:
            shutil.rmtree(target, ignore_errors=True)

    def _epoch(self, epoch: int) -> None:
        for slot in self.slots:
            slot.add(epoch, self.chooser)
        self.now_ms += 500
        if self.chooser.random() < 0.1:
            self.ordered += 1
            self.coordinator.request_savepoint(TriggerId(f"{self.ordered:032x}"))
        if self.copies and self.chooser.random() < 0.2:
            self._copy(*self.copies.pop(0))
        self._follow(self.coordinator.tick(self.now()))
        self.barrier_ms = self.now_ms
        self._follow(self.coordinator.epoch_finished(Epoch(epoch), self.now()))

    # --- checkpoints -------------------------------------------------------------------------

    def _follow(self, decisions: list[Decision]) -> None:  # noqa: C901, PLR0912 - one case a decision
        for decision in decisions:
            match decision:
                case TriggerCheckpoint(n, epoch):
                    # Taken for savepoints alone, it is no sign of a sick job when it fails.
                    self.counts = self.barrier_ms - self.triggered_ms >= INTERVAL_MS
                    self.triggered_ms = self.barrier_ms
                    self.truth[n, self.generation] = list(range(1, epoch + 1))
                    for slot in self.slots:
                        self._upload(slot, n)
                case PublishCheckpoint():
                    self._publish(decision)
                case CompleteCheckpoint(n, held):
                    self.acknowledged = n
                    self.failures_in_a_row = 0
                    if held:
                        self.held.hold(n)
                        self.uncopied.append(n)
                    for slot in self.slots:
                        slot.reusable.completed(n)
                    with contextlib.suppress(StorageUnavailableError, CorruptStateError):
                        self.checkpoints.subsume(1)
                    if self.chooser.random() < 0.9:  # else a failover comes before the output
                        for slot in self.slots:
                            index = SlotIndex(slot.index)
                            self._follow(self.coordinator.slot_committed(index, n))
                case CopySavepoint(n, trigger_ids):
                    self.uncopied.remove(n)
                    for trigger_id in trigger_ids:
                        self.held.hold(n)
                        self.copies.append((n, trigger_id))
                    self.held.release(n)
                case FailSavepoints(trigger_ids):
                    self.failed_savepoints += len(trigger_ids)
                case AbortCheckpoint(n):
                    self.failures_in_a_row += self.counts and not self.number_was_taken
                    for slot in self.slots:
                        slot.reusable.aborted(n)
                    failed = self.coordinator.history.last_failed
                    assert failed is not None
                    assert (failed.id, failed.status) == (n, "FAILED")
                    assert failed.failure
                case FailJob():
                    assert self.failures_in_a_row > TOLERATED
                    self.failed_over_by_checkpoints += 1
                    raise Restart
        assert self.failures_in_a_row <= TOLERATED, "too many failures were tolerated"

    number_was_taken = False
    counts = False

    def _release_uncopied(self) -> None:
        for n in self.uncopied:
            self.held.release(n)
        self.uncopied = []

    def _copy(self, n: CheckpointId, trigger_id: TriggerId) -> None:
        writer = SavepointWriter(
            JOB_ID,
            self.pool,
            open_store=self.open,
            scratch_dir=self.disk,
            cancelled=threading.Event(),
        )
        location = writer.location(self.archive.uri, trigger_id)
        try:
            made = writer.write(
                self.checkpoints.read_checkpoint(f"memory://test/chk-{n}"), location
            )
        except StorageUnavailableError:
            self.failed_savepoints += 1
        except (CorruptStateError, NoRestorableStateError):
            assert self.truncated_rate > 0, "a held checkpoint has lost files"
            self.failed_savepoints += 1
        else:
            metadata = made.metadata
            truth = self.truth[metadata.checkpoint_id, metadata.generation]
            self.savepoints[location] = truth
        finally:
            self.held.release(n)

    def check_savepoints(self) -> None:
        """Delete the job's directory, then compare every savepoint with what it must hold."""
        self.bucket.objects.clear()
        self.faults = Faults()
        downloader = SnapshotDownloader(self.store, self.pool, open_elsewhere=self.open)
        for location, truth in self.savepoints.items():
            for snapshot in read_checkpoint_at(location, self.open).slots:
                files = self._download(downloader, snapshot.keyed[0])
                assert truth == sorted(epoch for epochs in files.values() for epoch in epochs)

    def _upload(self, slot: Slot, n: CheckpointId) -> None:
        directory = self.disk / f"snapshot-{self.generation}-{n}-{slot.index}"
        contents = {name: json.dumps(e).encode() for name, e in slot.files.items()}
        snapshot = local_snapshot(directory, {**contents, "MANIFEST": str(n).encode()})
        owner = KeyedOwner(UID, SlotIndex(slot.index), "rocksdb")
        try:
            state = self.uploader.upload_keyed(snapshot, owner, n, slot.reusable)
        except StorageUnavailableError as error:
            self._follow(
                self.coordinator.slot_declined(SlotIndex(slot.index), n, str(error), self.now())
            )
            return
        finally:
            shutil.rmtree(directory)
        self._follow(self.coordinator.tick(self.now()))
        acked = slot_snapshot(slot.index, SLOTS, keyed=[state.handle])
        self._follow(self.coordinator.slot_acked(SlotIndex(slot.index), n, acked))

    def _publish(self, decision: PublishCheckpoint) -> None:
        n = decision.checkpoint_id
        slots: list[SlotSnapshot] = list(decision.slots)
        metadata = checkpoint(
            n, self.generation, self.parent, slots, source=position(decision.epoch)
        )
        self.number_was_taken = False
        try:
            self.checkpoints.publish(metadata)
        except StorageUnavailableError as error:
            self._follow(self.coordinator.publish_failed(n, str(error), self.now()))
        except ObjectExistsError:
            self.number_was_taken = True
            self._follow(self.coordinator.number_taken(n, self.now()))
            self.number_was_taken = False
        else:
            self._follow(self.coordinator.published(n, self.now()))
