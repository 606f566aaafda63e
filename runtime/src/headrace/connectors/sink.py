"""The two-phase sink contract between a slot process and a connector (DESIGN 7, H1).

One sink in one slot is a `SinkWriter` and a `Committer`, made by the same `Sink` description:

- the writer runs on the slot's main thread. It collects what the operators emit; at the barrier
  of checkpoint n `prepare_commit(n)` seals everything since the last seal into local files. The
  slot uploads them, so they become durable *with* the checkpoint (`SinkCommittable`);
- the committer runs on the slot's commit thread, and nowhere else. `recover` is its first call and
  must have returned before the slot reports ``Restored``; afterwards `commit` is called once for
  each sealed spool whose checkpoint is complete, in checkpoint order.

Writer and committer share no mutable state. A spool that was sealed for an aborted checkpoint
stays pending: it travels in the next checkpoint under its own checkpoint id, and is published
before the newer one. A spool leaves the checkpoints' list when its commit has returned; its absence
is the record that it was published.

Invariant of every exactly-once committer: `commit` may be repeated after a crash at any
instruction, by this process or another, and readers see the rows once. How each connector keeps it:
docs/adr/0007-exactly-once-sinks.md. The names are Flink's (SinkWriter, Committer,
TwoPhaseCommittingSink); the difference is that Flink's committable is a broker transaction kept
open over the checkpoint, ours is a file, so that no timeout at the broker can lose it (T3, T4).
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from headrace.checkpoint.protocol.types import SinkCommittable
from headrace.clock import Clock
from headrace.errors import InternalError, SinkCommitError
from headrace.ids import CheckpointId, Generation, JobId, OperatorUid, SlotIndex


class DeliveryGuarantee(enum.Enum):
    """What readers of the sink may count on, with PyFlink's names."""

    EXACTLY_ONCE = "exactly-once"
    """Spooled, published after the checkpoint; visible about one checkpoint interval late (H14)."""

    AT_LEAST_ONCE = "at-least-once"
    """Written at once, flushed before the barrier; a failover repeats rows, none is lost."""

    NONE = "none"
    """Written at once, never waited for; rows may be lost or repeated."""


class CommitOutcome(enum.Enum):
    """What a commit found and did; each one is success."""

    PUBLISHED = "published"
    """Written now, or written again where that changes nothing."""

    ALREADY_PUBLISHED = "already-published"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class SinkContext:
    """Who and where one sink instance is.

    Attributes:
        job_id: same over every failover.
        operator_uid: the sink.
        slot: this instance; its own spool is named after it (`headrace.connectors.spools`).
        parallelism: number of instances now.
        generation: fencing number of the coordinator that this instance obeys.
        restored_checkpoint_id: checkpoint restored from, None for empty state.
        restored_parallelism: parallelism of that checkpoint, None for empty state.
        spool_dir: existing, empty local directory that belongs to this instance alone.
        clock: for ages and waits.
        cancelled: set by the slot when the generation is over; waits end early, commits raise.
        storage_options: the job's ``s3.*`` options, for sinks that write to object stores.
    """

    job_id: JobId
    operator_uid: OperatorUid
    slot: SlotIndex
    parallelism: int
    generation: Generation
    restored_checkpoint_id: CheckpointId | None
    restored_parallelism: int | None
    spool_dir: Path
    clock: Clock
    cancelled: threading.Event = field(default_factory=threading.Event)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class SpoolFile:
    """One sealed local file; it never changes again.

    Attributes:
        path: where it is on the local disk.
        size_bytes: exact length.
        checksum: XXH3-128 of the content, 32 lower-case hexadecimal digits, as in `FileHandle`.
    """

    path: Path
    size_bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class PendingSpool:
    """Everything that a sink instance was given between two barriers, sealed.

    The slot uploads ``files`` and reports a `SinkCommittable` with the same fields. Without output
    ``files`` is empty; the committable is reported all the same, for it orders the commits.
    """

    operator_uid: OperatorUid
    spool_id: str
    checkpoint_id: CheckpointId
    files: tuple[SpoolFile, ...]
    records: int


@dataclass(frozen=True, slots=True)
class LocalCommittable:
    """A committable whose files are on this machine, in the order of ``committable.files``."""

    committable: SinkCommittable
    paths: tuple[Path, ...]


class SinkWriter(Protocol):
    """First phase. Called on the slot's main thread only."""

    def write(self, value: object, timestamp_ms: int | None) -> None:
        """Take one record; ``timestamp_ms`` is its event time, None when it has none.

        Raises:
            UserCodeError: the record serializer raised.
            StorageUnavailableError: the local disk refused the spool.
            SourceUnavailableError: a directly writing sink lost its system.
        """
        ...

    def flush_epoch(self) -> None:
        """An epoch has ended; cheap, called several times between two barriers."""
        ...

    def prepare_commit(self, checkpoint_id: CheckpointId) -> PendingSpool:
        """Seal everything since the last seal; at-least-once sinks wait here for their system.

        Returns the sealed spool, whose files the caller owns from now on (and deletes).

        Raises:
            StorageUnavailableError: the local disk refused the spool.
            SourceUnavailableError: a directly writing sink could not flush.
        """
        ...

    def close(self) -> None:
        """Release resources and drop what is not sealed; repeated calls do nothing."""
        ...


class Committer(Protocol):
    """Second phase. Called on the slot's commit thread only, `close` excepted."""

    def recover(self, committables: Sequence[LocalCommittable]) -> list[CommitOutcome]:
        """Take over: fence earlier attempts, publish what a restored checkpoint left pending.

        Must be the first call, with an empty sequence when there is nothing to publish.

        Args:
            committables: pending spools assigned to this slot, in any order; those of other slots
                of an earlier parallelism included.

        Returns:
            one outcome for each committable, in the order given.

        Raises:
            SinkCommitError: a spool may have been published, but the proof is gone (T4).
            InvalidConfigError: the system refuses what is configured.
            SourceUnavailableError: the system cannot be reached, or another attempt took over.
        """
        ...

    def commit(self, committable: LocalCommittable) -> CommitOutcome:
        """Publish one spool of this slot whose checkpoint is complete.

        Raises:
            SinkCommitError: it can never be published; the message says what to do.
            SourceUnavailableError: not now; a failover may try again from the checkpoint.
        """
        ...

    def close(self) -> None:
        """Release resources; from any thread.

        A call that is under way ends by itself soon after ``cancelled`` was set; what it has begun
        is settled by the next attempt's `recover`.
        """
        ...


@runtime_checkable
class TwoPhaseCommittingSink(Protocol):
    """Description of a sink, as a program hands it to ``sink_to``; picklable, without connections.

    Users may write their own. Sinks without a second phase return `NoCommitter`.
    """

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """What readers may count on."""
        ...

    def probe(self) -> None:
        """Check from the driver, within 15 s, that the target exists and may be written.

        Raises:
            InvalidConfigError: a setting is wrong (address, topic, credentials, path).
            SourceUnavailableError: the system did not answer.
        """
        ...

    def create_writer(self, context: SinkContext) -> SinkWriter:
        """Return the writer of one slot; called on the main thread for every generation."""
        ...

    def create_committer(self, context: SinkContext) -> Committer:
        """Return the committer of one slot; called on the commit thread for every generation."""
        ...


class NoCommitter:
    """Second phase of a sink that has none: every commit is empty."""

    def recover(self, committables: Sequence[LocalCommittable]) -> list[CommitOutcome]:
        """Nothing is ever pending, so spools of an earlier exactly-once program are an error."""
        if any(item.committable.files for item in committables):
            first = committables[0].committable
            msg = (
                "the checkpoint holds unpublished output of an exactly-once sink, start once with "
                "that guarantee before lowering it; "
                f"sink={first.operator_uid} spool={first.spool_id} "
                f"checkpoint={first.checkpoint_id}"
            )
            raise SinkCommitError(msg)
        return [CommitOutcome.EMPTY for _ in committables]

    def commit(self, committable: LocalCommittable) -> CommitOutcome:
        """Return EMPTY: a sink without a second phase seals no files."""
        if committable.committable.files:
            msg = (
                f"a sink without commits sealed files; sink={committable.committable.operator_uid}"
            )
            raise InternalError(msg)
        return CommitOutcome.EMPTY

    def close(self) -> None:
        """Nothing is held."""
