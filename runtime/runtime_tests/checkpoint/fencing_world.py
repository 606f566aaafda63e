"""A job with a ledgered sink over shared storage, run by coordinators that may be zombies.

The job: epoch e emits the record e. A checkpoint holds the number of epochs done, SST-like files
and the spools (sealed output) that are not committed yet. The sink's ledger is the number of the
last spool that it took, as in `headrace.connectors`. Exactly-once therefore means: the output is
1, 2, 3, ... without gap and repetition, whatever the coordinators do.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import msgspec

from headrace.checkpoint.inventory import Inventory
from headrace.checkpoint.protocol import paths
from headrace.checkpoint.protocol.cleanup import references_of
from headrace.checkpoint.protocol.generations import (
    ObservedCheckpoint,
    StartEmpty,
    StartFrom,
    resolve_start,
)
from headrace.checkpoint.protocol.types import CheckpointMetadata, FileHandle, SinkCommittable
from headrace.checkpoint.store import ObjectCheckpointStore
from headrace.clock import SystemClock
from headrace.errors import (
    FencedError,
    ObjectExistsError,
    ObjectMissingError,
    StorageUnavailableError,
)
from headrace.ids import CheckpointId, Epoch, Generation
from headrace.testing.object_store import MemoryBucket, MemoryStore
from runtime_tests.checkpoint.builders import (
    JOB_ID,
    UID,
    checkpoint,
    file_handle,
    keyed_handle,
    slot_snapshot,
)
from runtime_tests.checkpoint.interleaving import CurrentActor, current_actor

Spool = SinkCommittable


class World:
    """Storage and sink, which outlive every coordinator."""

    def __init__(self) -> None:
        self.bucket = MemoryBucket()
        self.output: list[int] = []
        self.ledger = 0
        self.generations_run: list[int] = []
        self._inventory = Inventory(MemoryStore(bucket=self.bucket))

    def commit(self, spool: Spool, records: list[int]) -> None:
        """Publish a spool unless the ledger says that it was; atomic, as the real sinks are."""
        if spool.checkpoint_id > self.ledger:
            self.ledger = spool.checkpoint_id
            self.output += records

    def check(self) -> None:
        """Assert what must hold between any two operations of anybody."""
        assert self.output == list(range(1, len(self.output) + 1)), f"output={self.output}"
        restored = self._what_a_new_coordinator_would_restore()
        if restored is None:
            assert self.output == [], "committed output would be followed by an empty start"
            return
        objects = self.bucket.objects
        missing = [f.path for f in references_of(restored) if f.path not in objects]
        assert missing == [], f"chk-{restored.checkpoint_id} lost {missing}"
        pending = [
            record
            for spool in pending_of(restored)
            if spool.checkpoint_id > self.ledger
            for record in records_of(objects[spool.files[0].path][0])
        ]
        assert restored.source is not None
        expected = list(range(len(self.output) + 1, restored.source.epoch + 1))
        assert expected == pending, f"restore of chk-{restored.checkpoint_id}"

    def _what_a_new_coordinator_would_restore(self) -> CheckpointMetadata | None:
        listing = self._inventory.list_all()
        complete = self._inventory.complete(listing)
        decision = resolve_start(
            self._inventory.observed_generation(listing),
            [ObservedCheckpoint(n, metadata.generation) for n, metadata in complete.items()],
        )
        if isinstance(decision, StartEmpty):
            return None
        assert isinstance(decision, StartFrom), decision
        return complete[decision.checkpoint_id]


def pending_of(metadata: CheckpointMetadata) -> list[Spool]:
    return [spool for slot in metadata.slots for spool in slot.committables]


def records_of(content: bytes) -> list[int]:
    records: list[int] = json.loads(content)
    return records


class Coordinator:
    """One coordinator life; `live` is its main thread, clean-up runs beside it."""

    def __init__(
        self,
        world: World,
        name: str,
        checkpoints: int,
        in_background: Callable[[Callable[[], None]], None],
    ) -> None:
        """Describe a life.

        Args:
            world: what it works on.
            name: unique.
            checkpoints: how many it tries to take before it ends.
            in_background: starts another thread of the same process.
        """
        self.world = world
        self.name = name
        self.attempts = checkpoints
        self.in_background = in_background
        self.storage = MemoryStore(bucket=world.bucket, faults=CurrentActor())
        self.checkpoints = ObjectCheckpointStore(
            self.storage,
            JOB_ID,
            SystemClock(),
            open_elsewhere=lambda _: self.storage,
            claimant=name,
        )
        self._cleans = False
        self.epoch = 0
        self.files: list[FileHandle] = []
        self.pending: list[tuple[Spool, list[int]]] = []
        self.unsealed: list[int] = []

    def live(self) -> None:
        with contextlib.suppress(FencedError):
            self._run()

    def _clean(self) -> None:
        with contextlib.suppress(FencedError, StorageUnavailableError):
            self.checkpoints.subsume(1)
        self._cleans = False

    def _run(self) -> None:
        claimed = self.checkpoints.claim_generation()
        self.generation = claimed.generation
        self.parent = claimed.restore.checkpoint_id if claimed.restore else None
        self.number = claimed.next_checkpoint_id
        self.world.generations_run.append(claimed.generation)
        if claimed.restore:
            try:
                self._restore(claimed.restore)
            except ObjectMissingError:
                self.checkpoints.check_fence()  # a newer one has superseded it, or it is a loss
                raise
        with contextlib.suppress(StorageUnavailableError):
            self.checkpoints.clean_orphans()
        for _ in range(self.attempts):
            self._take_checkpoint()
            self.number = CheckpointId(self.number + 1)

    def _restore(self, metadata: CheckpointMetadata) -> None:
        assert metadata.source is not None
        self.epoch = metadata.source.epoch
        self.files = list(metadata.slots[0].keyed[0].files)
        for file in self.files:
            self.storage.get(file.path)
        for spool in pending_of(metadata):
            self.pending.append((spool, records_of(self.storage.get(spool.files[0].path))))
        self._commit()

    def _take_checkpoint(self) -> None:
        self.epoch = Epoch(self.epoch + 1)
        self.unsealed.append(self.epoch)
        try:
            self._seal()
            files = [*self.files[-1:], self._upload(paths.shared_path, f"{self.epoch}.sst", b"s")]
            self.checkpoints.publish(self._metadata(files))
        except (StorageUnavailableError, ObjectExistsError):
            return  # aborted: output stays pending and travels with the next checkpoint
        self.files = files
        self._commit()
        if not self._cleans:
            self._cleans = True
            self.in_background(self._clean)

    def _seal(self) -> None:
        content = json.dumps(self.unsealed).encode()
        file = self._upload(paths.exclusive_path, "spool", content)
        spool = SinkCommittable(UID, "slot-0000", self.number, [file], len(self.unsealed))
        self.pending.append((spool, self.unsealed))
        self.unsealed = []

    def _upload(
        self, build: Callable[[paths.FileWriter, str, str], str], name: str, content: bytes
    ) -> FileHandle:
        writer = paths.FileWriter(Generation(self.generation), self.number)
        path = build(writer, f"u{self.name}", name)
        self.storage.put(path, content)
        return file_handle(path, content, name)

    def _metadata(self, files: list[FileHandle]) -> CheckpointMetadata:
        slot = slot_snapshot(
            keyed=[keyed_handle(files=files)], committables=[spool for spool, _ in self.pending]
        )
        metadata = checkpoint(self.number, self.generation, self.parent, [slot])
        assert metadata.source is not None
        return msgspec.structs.replace(
            metadata, source=msgspec.structs.replace(metadata.source, epoch=Epoch(self.epoch))
        )

    def _commit(self) -> None:
        while self.pending:
            spool, records = self.pending[0]
            current_actor().pause(f"commit {spool.checkpoint_id}")
            self.world.commit(spool, records)
            self.pending.pop(0)
