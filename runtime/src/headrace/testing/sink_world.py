"""One job with one sink, as the slots run it, without slots: for `headrace.testing.sinks`.

Everything that a machine can lose is lost on purpose: a sealed spool is copied to "checkpoint
storage" as an upload would be, and what a later attempt restores is such a copy.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import xxhash

from headrace.checkpoint.protocol.types import FileHandle, SinkCommittable
from headrace.clock import SystemClock
from headrace.connectors.sink import (
    CommitOutcome,
    Committer,
    LocalCommittable,
    PendingSpool,
    SinkContext,
    SinkWriter,
    TwoPhaseCommittingSink,
)
from headrace.connectors.spools import spool_id_of
from headrace.datastream.connectors.base import Sink
from headrace.ids import CheckpointId, Generation, JobId, OperatorUid, SlotIndex, new_job_id

SINK_UID: Final = OperatorUid("sink under test")


class SinkUnderTest(Protocol):
    """What a test brings: a sink over a fresh, empty target, and a reader of the target."""

    def make_sink(self) -> Sink | TwoPhaseCommittingSink:
        """Return the sink, a new object for the same target at every call."""
        ...

    def value(self, number: int) -> object:
        """Return the value that stands for a number, of those that a program would write."""
        ...

    def visible(self) -> Iterable[int]:
        """Return the numbers of all rows that readers of the target see now, in any order.

        A row that is there twice is returned twice. Wait here if the target shows rows late.
        """
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Which slot of how many an attempt is, and what it restored."""

    slot: int = 0
    parallelism: int = 1
    restored: int | None = None
    restored_parallelism: int | None = None


@dataclass
class Attempt:
    """One generation of one slot: a writer and a committer that has recovered."""

    writer: SinkWriter
    committer: Committer
    context: SinkContext
    value: Callable[[int], object]
    recovered: list[CommitOutcome] = field(default_factory=list)
    written: int = 0

    def write(self, numbers: Iterable[int]) -> None:
        """Write values, an epoch of them."""
        for number in numbers:
            self.writer.write(self.value(number), None)
            self.written += 1
        self.writer.flush_epoch()

    def seal(self, checkpoint: int) -> LocalCommittable:
        """Reach the barrier of a checkpoint.

        Raises:
            AssertionError: the seal does not say whose it is, or how many records it holds.
        """
        pending = self.writer.prepare_commit(CheckpointId(checkpoint))
        context, written, self.written = self.context, self.written, 0
        found = (pending.operator_uid, pending.spool_id, pending.checkpoint_id)
        expected = (context.operator_uid, spool_id_of(context.slot), checkpoint)
        if found != expected:
            raise AssertionError(f"identity of the seal: expected {expected}, found {found}")
        if pending.files and pending.records < written:
            msg = f"records of the seal: expected {written}, found {pending.records}"
            raise AssertionError(msg)
        return LocalCommittable(committable_of(pending), tuple(f.path for f in pending.files))

    def end(self) -> None:
        """Give up the generation, as a slot does that is told to."""
        self.context.cancelled.set()
        self.writer.close()
        self.committer.close()


class SinkWorld:
    """The job; close it at the end of a test."""

    def __init__(self, sink: SinkUnderTest, directory: Path) -> None:
        """Create a job without any generation, with an empty directory for its files."""
        self._sink = sink
        self._directory = directory
        self._storage = directory / "checkpoints"
        self._storage.mkdir()
        self._numbers = itertools.count()
        self._generations = itertools.count(1)
        self._attempts: list[Attempt] = []
        self.job_id: JobId = new_job_id()

    def description(self) -> TwoPhaseCommittingSink:
        """Return the sink as slots get it."""
        return described(self._sink.make_sink())

    def context(self, place: Place = Place()) -> SinkContext:
        """Return the context of a new generation of one slot."""
        spool_dir = self._fresh_directory("spool")
        restored = None if place.restored is None else CheckpointId(place.restored)
        return SinkContext(
            job_id=self.job_id,
            operator_uid=SINK_UID,
            slot=SlotIndex(place.slot),
            parallelism=place.parallelism,
            generation=Generation(next(self._generations)),
            restored_checkpoint_id=restored,
            restored_parallelism=place.restored_parallelism,
            spool_dir=spool_dir,
            clock=SystemClock(),
            cancelled=threading.Event(),
        )

    def start(self, place: Place = Place(), pending: Sequence[LocalCommittable] = ()) -> Attempt:
        """Start a generation of one slot; it recovers what a restored checkpoint left pending."""
        sink, context = self.description(), self.context(place)
        attempt = Attempt(
            sink.create_writer(context),
            sink.create_committer(context),
            context,
            self._sink.value,
        )
        self._attempts.append(attempt)
        attempt.recovered = attempt.committer.recover([self.restored(item) for item in pending])
        return attempt

    def uploaded(self, item: LocalCommittable) -> LocalCommittable:
        """Copy a sealed spool to checkpoint storage; its committable names the copies."""
        files = []
        for path, handle in zip(item.paths, item.committable.files, strict=True):
            check_file(path, handle)
            target = self._storage / f"{next(self._numbers):06d}-{path.name}"
            shutil.copyfile(path, target)
            files.append(FileHandle(handle.name, target.name, handle.size_bytes, handle.checksum))
        old = item.committable
        committable = SinkCommittable(
            old.operator_uid, old.spool_id, old.checkpoint_id, files, old.records
        )
        return LocalCommittable(committable, item.paths)

    def restored(self, item: LocalCommittable) -> LocalCommittable:
        """Return an uploaded spool with files of its own, as another machine downloads it."""
        directory = self._fresh_directory("restored")
        paths = []
        for handle in item.committable.files:
            path = directory / handle.name
            shutil.copyfile(self._storage / handle.path, path)
            check_file(path, handle)
            paths.append(path)
        return LocalCommittable(item.committable, tuple(paths))

    def visible(self) -> list[int]:
        """Return what readers see, sorted."""
        return sorted(self._sink.visible())

    def lose(self, attempt: Attempt) -> None:
        """Lose the machine of an attempt: its local files are gone, nothing was closed."""
        shutil.rmtree(attempt.context.spool_dir)

    def close(self) -> None:
        """End all attempts."""
        for attempt in self._attempts:
            attempt.context.spool_dir.mkdir(exist_ok=True)
            attempt.end()

    def _fresh_directory(self, name: str) -> Path:
        directory = self._directory / f"{name}-{next(self._numbers):06d}"
        directory.mkdir()
        return directory


def described(sink: Sink | TwoPhaseCommittingSink) -> TwoPhaseCommittingSink:
    """Return a sink's description, which it may be itself.

    Raises:
        AssertionError: it lacks a part of the contract.
    """
    description = sink.description() if isinstance(sink, Sink) else sink
    if not isinstance(description, TwoPhaseCommittingSink):
        missing = [
            name
            for name in ("delivery_guarantee", "probe", "create_writer", "create_committer")
            if not hasattr(description, name)
        ]
        raise AssertionError(f"not a TwoPhaseCommittingSink; missing={missing}")  # noqa: TRY004
    return description


def check_file(path: Path, handle: FileHandle) -> None:
    """Check that a file is what its seal said.

    Raises:
        AssertionError: it was changed after it had been sealed, or the seal was wrong.
    """
    data = path.read_bytes()
    found = (len(data), xxhash.xxh3_128_hexdigest(data))
    if found != (handle.size_bytes, handle.checksum):
        msg = f"a sealed file is not what its seal says; path={path.name} found={found}"
        raise AssertionError(msg)


def committable_of(pending: PendingSpool) -> SinkCommittable:
    """Return what a slot reports of a sealed spool, without an upload."""
    handles = [
        FileHandle(file.path.name, file.path.name, file.size_bytes, file.checksum)
        for file in pending.files
    ]
    return SinkCommittable(
        pending.operator_uid, pending.spool_id, pending.checkpoint_id, handles, pending.records
    )
