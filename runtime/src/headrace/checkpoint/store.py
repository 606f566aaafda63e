"""The checkpoints of one job over an `ObjectStore`: claim, publish, subsume (`CheckpointStore`).

Reads facts, asks the pure functions of `protocol.generations` and `protocol.cleanup`, and executes
what they decide. One instance serves one generation; several threads may use it: publication from
one, clean-up from another. Order of writes is the protocol: see docs/adr/0005 and 0006 before
moving a line.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import uuid
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.checkpoint.contract import ClaimedGeneration
from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.held import HeldCheckpoints
from headrace.checkpoint.inventory import Inventory, Listing, check_files, complete_checkpoint
from headrace.checkpoint.protocol import paths
from headrace.checkpoint.protocol.cleanup import (
    Garbage,
    Position,
    find_garbage,
    line_of,
    references_of,
)
from headrace.checkpoint.protocol.generations import (
    ClaimRecord,
    LatestRecord,
    ObservedCheckpoint,
    ObservedGeneration,
    StartEmpty,
    StartFrom,
    StartRecord,
    is_fenced,
    next_checkpoint_id,
    next_generation,
    resolve_start,
)
from headrace.checkpoint.protocol.types import CheckpointMetadata, encode_metadata
from headrace.checkpoint.summaries import summary_of
from headrace.errors import (
    CorruptStateError,
    FencedError,
    IncompatibleStateError,
    InternalError,
    NoRestorableStateError,
    ObjectExistsError,
    StorageUnavailableError,
)
from headrace.ids import CheckpointId

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.api.driver import CheckpointSummary
    from headrace.checkpoint.storage import ObjectStore
    from headrace.clock import Clock
    from headrace.ids import Generation, JobId

_LOG = logging.getLogger(__name__)

_CLAIM_ATTEMPTS: Final = 100
"""Each lost race means that another coordinator won a generation; a hundred means a loop."""


class ObjectCheckpointStore:
    """`CheckpointStore` over an object store rooted at the job's directory."""

    def __init__(
        self,
        store: ObjectStore,
        job_id: JobId,
        clock: Clock,
        *,
        open_elsewhere: Callable[[str], ObjectStore],
        claimant: str | None = None,
        held: HeldCheckpoints | None = None,
    ) -> None:
        """Create the store of one coordinator life.

        Args:
            store: rooted at `paths.job_root`.
            job_id: whose checkpoints these are.
            clock: for the time in claims.
            open_elsewhere: opens a store over a directory URI, for `read_checkpoint`.
            claimant: unique name of this life; random when not given.
            held: checkpoints that clean-up must keep; none when not given.
        """
        self._store = store
        self._job_id = job_id
        self._clock = clock
        self._open_elsewhere = open_elsewhere
        self._claimant = claimant or uuid.uuid4().hex
        self._held = held or HeldCheckpoints()
        self._inventory = Inventory(store)
        self._position: Position | None = None
        self._base: frozenset[str] = frozenset()
        self._cleaning = threading.Lock()

    def probe_writable(self) -> None:
        """Check that storage serves and honours conditional create."""
        self._store.check()

    def claim_generation(self) -> ClaimedGeneration:
        """Fence every older coordinator and decide where to continue."""
        if self._position is not None:
            msg = "a generation was claimed already; make a store for each coordinator life"
            raise InternalError(msg)
        generation = self._create_claim()
        listing = self._inventory.list_all()
        _refuse_if_fenced(generation, listing.claims)
        try:
            last = self._inventory.observed_generation(listing)
            restore = self._choose_start(last, listing)
            if restore is not None:
                self._refuse_if_foreign(restore)
                check_files(self._store, restore)
        except (NoRestorableStateError, CorruptStateError):
            # If a newer coordinator has moved on meanwhile, what we miss is what it has superseded.
            _refuse_if_fenced(generation, self._inventory.claims())
            raise
        start = restore.checkpoint_id if restore else None
        first = next_checkpoint_id(last, listing.numbers)
        self._create_start(StartRecord(generation, self._claimant, start, first))
        _refuse_if_fenced(generation, self._inventory.claims())
        self._position = Position(generation, first, restored=start, latest=None)
        self._base = _paths(restore)
        _LOG.info(
            "claimed a generation; job=%s generation=%d restore=%s", self._job_id, generation, start
        )
        return ClaimedGeneration(generation, restore, first, parent=start)

    def publish(self, metadata: CheckpointMetadata) -> None:
        """Make a checkpoint exist, then check the fence."""
        position = self._claimed()
        self._assert_publishable(metadata, position)
        path = paths.metadata_path(metadata.checkpoint_id)
        try:
            self._store.create(path, encode_metadata(metadata))
        except ObjectExistsError:
            self.check_fence()  # it was ours to stop if the other one is newer
            raise
        self.check_fence()
        latest = LatestRecord(position.generation, metadata.checkpoint_id)
        self._store.put(paths.latest_path(position.generation), msgspec.json.encode(latest))
        self._position = dataclasses.replace(position, latest=metadata.checkpoint_id)
        self._base = _paths(metadata)

    def subsume(self, retained: int) -> int:
        """Discard superseded checkpoints and unreferenced files."""
        return self._clean(retained)

    def clean_orphans(self) -> int:
        """Delete what older generations left behind."""
        return self._clean(None)

    def discard_all(self) -> int:
        """Delete every checkpoint, keep the generation markers."""
        self._claimed()
        with self._cleaning:
            self.check_fence()
            listing = self._inventory.list_all()
            files = [path for path in listing.objects if paths.parse_file_writer(path)]
            metadata = [paths.metadata_path(n) for n in sorted(listing.complete)]
            return self._delete(Garbage(tuple(metadata), tuple(files)))

    def check_fence(self) -> None:
        """Raise FencedError when a newer generation exists."""
        _refuse_if_fenced(self._claimed().generation, self._inventory.claims())

    def list_checkpoints(self) -> list[CheckpointSummary]:
        """Return the complete checkpoints on this generation's line, newest first."""
        complete = self._inventory.complete(self._inventory.list_all())
        known = {n: complete_checkpoint(metadata) for n, metadata in complete.items()}
        line = line_of(self._claimed(), known)
        return [summary_of(complete[n], self._store.root_uri) for n in line]

    def read_checkpoint(self, path: str) -> CheckpointMetadata:
        """Read a checkpoint of any job by its URI; handles come back with absolute URIs."""
        return read_checkpoint_at(path, self._open_elsewhere)

    def _refuse_if_foreign(self, restore: CheckpointMetadata) -> None:
        """Refuse another job's checkpoint in this job's directory: its ledgers are not ours."""
        if restore.job_id != self._job_id:
            msg = (
                "the newest checkpoint in the job's directory is another job's, remove it and "
                "start from where it came from with execution.state-recovery.path; "
                f"checkpoint={self._store.root_uri}/{paths.checkpoint_dir(restore.checkpoint_id)} "
                f"job={self._job_id} other_job={restore.job_id}"
            )
            raise IncompatibleStateError(msg)

    def _create_claim(self) -> Generation:
        for _ in range(_CLAIM_ATTEMPTS):
            generation = next_generation(self._inventory.claims())
            record = ClaimRecord(generation, self._claimant, self._clock.now_ms())
            try:
                self._store.create(paths.claim_path(generation), msgspec.json.encode(record))
            except ObjectExistsError:
                continue
            return generation
        msg = f"no generation could be claimed, others keep winning; uri={self._store.root_uri}"
        raise StorageUnavailableError(msg)

    def _choose_start(
        self, last: ObservedGeneration | None, listing: Listing
    ) -> CheckpointMetadata | None:
        found: dict[CheckpointId, CheckpointMetadata] = {}
        observed = []
        for n in listing.complete:
            try:
                metadata = self._inventory.metadata(n)
            except CorruptStateError as error:
                _LOG.error("checkpoint metadata is unreadable; checkpoint=%d error=%s", n, error)
                observed.append(ObservedCheckpoint(n, None))
                continue
            if metadata is not None:
                found[n] = metadata
                observed.append(ObservedCheckpoint(n, metadata.generation))
        decision = resolve_start(last, observed)
        if isinstance(decision, StartFrom):
            return found[decision.checkpoint_id]
        if isinstance(decision, StartEmpty):
            return None
        msg = (
            "state must exist and cannot be restored, bring it back or start under a new job id; "
            f"uri={self._store.root_uri} expected=chk-{decision.expected} reason={decision.reason} "
            f"candidates={[f'chk-{o.checkpoint_id}' for o in observed]}"
        )
        raise NoRestorableStateError(msg)

    def _create_start(self, record: StartRecord) -> None:
        try:
            self._store.create(paths.start_path(record.generation), msgspec.json.encode(record))
        except ObjectExistsError as error:
            msg = f"somebody else started our generation; generation={record.generation}"
            raise InternalError(msg) from error

    def _assert_publishable(self, metadata: CheckpointMetadata, position: Position) -> None:
        wrong = [
            path
            for path in _paths(metadata) - self._base
            if not _is_new(paths.parse_file_writer(path), position)
        ]
        if (
            wrong
            or metadata.job_id != self._job_id
            or metadata.generation != position.generation
            or metadata.parent != position.restored
            or metadata.checkpoint_id < position.first
            or metadata.checkpoint_id <= (position.latest or 0)
        ):
            msg = (
                "checkpoint does not continue the last one, refusing to publish it; "
                f"checkpoint={metadata.checkpoint_id} generation={metadata.generation} "
                f"parent={metadata.parent} job={metadata.job_id} position={position} "
                f"foreign_files={sorted(wrong)[:5]}"
            )
            raise InternalError(msg)

    def _clean(self, retained: int | None) -> int:
        with self._cleaning:
            position = self._claimed()
            self.check_fence()
            listing = self._inventory.list_all()
            complete = self._inventory.complete(listing)
            base = position.latest or position.restored
            if base is not None and base not in complete:
                # Only a newer coordinator deletes it. Its checkpoints share files with ours, which
                # would look unreferenced to us: stop before anything is classified.
                self.check_fence()
                msg = (
                    "the checkpoint that the job stands on has vanished, nothing was deleted; "
                    f"uri={self._store.root_uri} checkpoint={base}"
                )
                raise CorruptStateError(msg)
            known = {n: complete_checkpoint(metadata) for n, metadata in complete.items()}
            held = self._held.numbers()
            return self._delete(find_garbage(position, known, listing.objects, retained, held))

    def _delete(self, garbage: Garbage) -> int:
        for metadata in garbage.metadata:
            self._store.delete([metadata])
        if garbage.files:
            self._store.delete(garbage.files)
        return len(garbage)

    def _claimed(self) -> Position:
        if self._position is None:
            msg = "no generation is claimed; call claim_generation first"
            raise InternalError(msg)
        return self._position


def _refuse_if_fenced(own: Generation, claims: list[Generation]) -> None:
    if is_fenced(own, claims):
        msg = f"a newer coordinator owns the job, stop; generation={own} newest={max(claims)}"
        raise FencedError(msg)


def _paths(metadata: CheckpointMetadata | None) -> frozenset[str]:
    return frozenset(file.path for file in references_of(metadata)) if metadata else frozenset()


def _is_new(writer: paths.FileWriter | None, position: Position) -> bool:
    """Return whether a file was written by this generation since its last completed checkpoint."""
    return (
        writer is not None
        and writer.generation == position.generation
        and writer.checkpoint_id > (position.latest or 0)
    )
