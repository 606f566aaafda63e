"""Writer and committer for sinks that publish a batch of records with their own proof (H1, H8).

A connector, built in or a user's, brings two things: how a value becomes bytes (`SpoolingWriter`)
and how a sealed spool is published so that doing it again shows its rows once
(`SpoolCommitter.publish`). The rest of the contract of `headrace.connectors.sink` is kept here:
files, seals, checkpoint order, empty spools, outcomes in the order that was asked for.
"""

from __future__ import annotations

import abc
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.connectors.record_spool import (
    RecordSpoolWriter,
    SpoolHeader,
    read_spool_blocks,
    read_spool_header,
)
from headrace.connectors.sink import (
    CommitOutcome,
    LocalCommittable,
    PendingSpool,
    SinkContext,
    SpoolFile,
)
from headrace.connectors.spools import spool_id_of
from headrace.errors import CorruptStateError, HeadraceError, UserCodeError
from headrace.ids import CheckpointId

FILE_BYTES_MAX: Final = 256 << 20
"""A longer spool goes on in a new file: uploads and downloads work file by file."""

_TRACEBACK_CHARS_MAX: Final = 4000


class SpoolingWriter:
    """`headrace.connectors.sink.SinkWriter` that keeps records in local files until a barrier."""

    def __init__(
        self, context: SinkContext, encode: Callable[[object], bytes], extra: bytes = b""
    ) -> None:
        """Create a writer; no file is made before the first record.

        Args:
            context: of the slot.
            encode: value -> record; what it raises is reported as the program's error.
            extra: stored with every file, see `SpoolHeader`.
        """
        self._encode = encode
        self._directory = context.spool_dir
        self._header = SpoolHeader(
            context.job_id, context.operator_uid, spool_id_of(context.slot), extra
        )
        self._number = 0
        self._file: RecordSpoolWriter | None = None
        self._sealed: list[SpoolFile] = []
        self._records = 0

    def write(self, value: object, timestamp_ms: int | None) -> None:  # noqa: ARG002 - the contract
        """See `SinkWriter.write`."""
        try:
            record = self._encode(value)
            if type(record) is not bytes:
                msg = f"encode must return bytes; returned={type(record).__name__}"
                raise TypeError(msg)  # noqa: TRY301 - reported like any other error of encode
        except HeadraceError:
            raise
        except Exception as error:
            msg = f"a sink cannot encode a value; error={type(error).__name__}: {error}"
            text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARS_MAX:]
            raise UserCodeError(msg, traceback_text=text) from error
        file = self._file
        if file is None or file.size_bytes >= FILE_BYTES_MAX:
            file = self._next_file()
        file.append(record)
        self._records += 1

    def flush_epoch(self) -> None:
        """Nothing to do: records are written by size."""

    def prepare_commit(self, checkpoint_id: CheckpointId) -> PendingSpool:
        """See `SinkWriter.prepare_commit`."""
        self._seal_file()
        header = self._header
        pending = PendingSpool(
            header.operator_uid, header.spool_id, checkpoint_id, tuple(self._sealed), self._records
        )
        self._sealed = []
        self._records = 0
        return pending

    def close(self) -> None:
        """Delete what is not sealed under a checkpoint."""
        if self._file is not None:
            self._file.discard()
            self._file = None
        for sealed in self._sealed:
            sealed.path.unlink(missing_ok=True)
        self._sealed = []

    def _next_file(self) -> RecordSpoolWriter:
        self._seal_file()
        path = self._directory / f"{self._header.spool_id}-{self._number:08d}.spool"
        self._number += 1
        self._file = RecordSpoolWriter(path, self._header)
        return self._file

    def _seal_file(self) -> None:
        if self._file is not None:
            self._sealed.append(self._file.seal())
            self._file = None


@dataclass(frozen=True, slots=True)
class SealedSpool:
    """What one instance of a sink was given between two barriers, ready to be published.

    Attributes:
        header: whose records these are.
        checkpoint_id: checkpoint that made them final; a spool's checkpoints only ever go up.
        records: how many there are, at least one.
        paths: files that hold them.
    """

    header: SpoolHeader
    checkpoint_id: CheckpointId
    records: int
    paths: tuple[Path, ...]

    @property
    def ledger_key(self) -> str:
        """Name of the stream of batches that this one belongs to: unique to job, sink and slot.

        Remember ``checkpoint_id`` under it, together with the rows.
        """
        return f"{self.header.job_id}/{self.header.operator_uid}/{self.header.spool_id}"

    @property
    def batch_id(self) -> str:
        """Name of this batch, for systems that drop repeated requests by a token."""
        return f"{self.ledger_key}/{self.checkpoint_id:010d}"

    def rows(self) -> Iterator[bytes]:
        """Yield the records in the order in which they were written.

        Raises:
            CorruptStateError: a file is damaged, or one is missing; at the end at the latest, so
                commit a transaction only after the last record.
        """
        count = 0
        for path in self.paths:
            for block in read_spool_blocks(path):
                count += len(block)
                yield from block
        if count != self.records:
            msg = (
                "a spool does not hold the records that its checkpoint names, restore it again; "
                f"batch={self.batch_id} records={count} expected={self.records}"
            )
            raise CorruptStateError(msg)


class SpoolCommitter(abc.ABC):
    """`headrace.connectors.sink.Committer` that publishes spools one by one, oldest first."""

    def __init__(self, context: SinkContext) -> None:
        """Create a committer; it is made on the commit thread and only used there."""
        self.context = context

    @abc.abstractmethod
    def publish(self, spool: SealedSpool) -> CommitOutcome:
        """Make the records visible, or find that they are; PUBLISHED or ALREADY_PUBLISHED.

        It may have run before, wholly or in part, in this process or another, at any time.

        Raises:
            SourceUnavailableError: not now; a failover repeats it from the checkpoint.
            SinkCommitError: never.
        """

    def take_over(self) -> None:  # noqa: B027 - most have nothing to fence
        """Fence earlier attempts and prepare the target; called once, before anything else."""

    def recover(self, committables: Sequence[LocalCommittable]) -> list[CommitOutcome]:
        """See `Committer.recover`."""
        self.take_over()
        order = sorted(
            range(len(committables)),
            key=lambda index: committables[index].committable.checkpoint_id,
        )
        outcomes = [CommitOutcome.EMPTY] * len(committables)
        for index in order:
            outcomes[index] = self._publish(committables[index])
        return outcomes

    def commit(self, committable: LocalCommittable) -> CommitOutcome:
        """See `Committer.commit`."""
        return self._publish(committable)

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """See `Committer.close`."""

    def _publish(self, item: LocalCommittable) -> CommitOutcome:
        if not item.paths:
            return CommitOutcome.EMPTY
        committable = item.committable
        header = read_spool_header(item.paths[0])
        spool = SealedSpool(header, committable.checkpoint_id, committable.records, item.paths)
        return self.publish(spool)
