"""Sinks of one slot in one generation: writers on the main thread, committers on one commit thread.

Keeps the list of spools that are sealed and not yet published. A spool of a checkpoint that was
given up is uploaded again with the next one (its first upload may be cleaned up at any time); one
whose checkpoint completed is carried by reference until its commit has returned.
"""

from __future__ import annotations

import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.connectors.sink import LocalCommittable
from headrace.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from headrace.checkpoint.download import SnapshotDownloader
    from headrace.checkpoint.protocol.types import SinkCommittable, SlotSnapshot
    from headrace.connectors.sink import (
        Committer,
        PendingSpool,
        SinkContext,
        SinkWriter,
        TwoPhaseCommittingSink,
    )
    from headrace.ids import CheckpointId, OperatorUid

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """One sealed spool on its way to being published."""

    spool: PendingSpool
    committable: SinkCommittable | None = None
    """Set once a completed checkpoint holds it."""
    queued: bool = False


@dataclass(frozen=True, slots=True)
class SinkPart:
    """One sink operator of the slot."""

    operator_id: int
    sink: TwoPhaseCommittingSink
    context: SinkContext


class SlotSinks:
    """All sinks of one slot in one generation. Methods run on the slot's main thread."""

    def __init__(
        self,
        parts: Sequence[SinkPart],
        committed: Callable[[CheckpointId, int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Open the writers.

        Args:
            parts: the sinks.
            committed: called on the commit thread when everything up to a checkpoint is published,
                with the number of records.
            failed: called on the commit thread when a commit failed.
        """
        self._parts = {part.context.operator_uid: part for part in parts}
        self._committed = committed
        self._failed = failed
        self._commit_thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self._pending: list[_Pending] = []
        self._acked: dict[CheckpointId, list[SinkCommittable]] = {}
        self.writers: dict[int, SinkWriter] = {
            part.operator_id: part.sink.create_writer(part.context) for part in parts
        }
        self._writer_of: dict[OperatorUid, SinkWriter] = {
            part.context.operator_uid: self.writers[part.operator_id] for part in parts
        }
        self._committers: dict[OperatorUid, Committer] = {}

    def recover(
        self,
        restored: Sequence[SinkCommittable],
        downloader: SnapshotDownloader,
        directory: Path,
    ) -> None:
        """Publish what the restored checkpoint left pending; returns when it is done.

        Raises: what `Committer.recover` raises, and download errors.
        """
        by_sink: Mapping[OperatorUid, list[LocalCommittable]] = {uid: [] for uid in self._parts}
        for index, committable in enumerate(restored):
            paths = downloader.download_files(committable.files, directory / str(index))
            by_sink[committable.operator_uid].append(LocalCommittable(committable, tuple(paths)))

        def recover() -> None:
            for uid, part in self._parts.items():
                committer = part.sink.create_committer(part.context)
                self._committers[uid] = committer
                outcomes = committer.recover(by_sink[uid])
                for item, outcome in zip(by_sink[uid], outcomes, strict=True):
                    log.info(
                        "recovered output sink=%s spool=%s checkpoint=%s outcome=%s",
                        uid,
                        item.committable.spool_id,
                        item.committable.checkpoint_id,
                        outcome.value,
                    )

        self._commit_thread.submit(recover).result()
        shutil.rmtree(directory, ignore_errors=True)

    def flush_epoch(self) -> None:
        """An epoch has ended."""
        for writer in self.writers.values():
            writer.flush_epoch()

    def seal(self, checkpoint_id: CheckpointId) -> tuple[list[PendingSpool], list[SinkCommittable]]:
        """Seal the output since the last barrier.

        Returns:
            spools that must be uploaded with this checkpoint, and committables that earlier
            checkpoints hold and that are still to be published.
        """
        for writer in self._writer_of.values():
            self._pending.append(_Pending(writer.prepare_commit(checkpoint_id)))
        # The commit thread removes entries meanwhile, and a list that shrinks skips elements.
        pending = list(self._pending)
        upload = [entry.spool for entry in pending if entry.committable is None]
        carried = [entry.committable for entry in pending if entry.committable is not None]
        return upload, carried

    def acked(self, checkpoint_id: CheckpointId, snapshot: SlotSnapshot) -> None:
        """Remember what a checkpoint holds, until its fate is known."""
        self._acked[checkpoint_id] = list(snapshot.committables)

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """Publish what the completed checkpoint holds, in order, on the commit thread."""
        held = {(c.operator_uid, c.checkpoint_id): c for c in self._acked.pop(checkpoint_id, [])}
        self._acked = {n: kept for n, kept in self._acked.items() if n > checkpoint_id}
        batch: list[_Pending] = []
        for entry in list(self._pending):
            key = (entry.spool.operator_uid, entry.spool.checkpoint_id)
            if entry.committable is None and key in held:
                entry.committable = held[key]
            if entry.committable is not None and not entry.queued:
                entry.queued = True
                batch.append(entry)
        self._commit_thread.submit(self._commit, checkpoint_id, batch)

    def aborted(self, checkpoint_id: CheckpointId) -> None:
        """Forget that the checkpoint held anything: its spools travel in the next one."""
        self._acked.pop(checkpoint_id, None)

    def _commit(self, checkpoint_id: CheckpointId, batch: list[_Pending]) -> None:
        records = 0
        try:
            for entry in batch:
                if entry.committable is None:
                    continue
                paths = tuple(file.path for file in entry.spool.files)
                committer = self._committers[entry.spool.operator_uid]
                reach("slot.before-commit")
                committer.commit(LocalCommittable(entry.committable, paths))
                reach("slot.after-commit")
                records += entry.spool.records
                for path in paths:
                    path.unlink(missing_ok=True)
                self._pending.remove(entry)
        except Exception as error:  # noqa: BLE001 - handed to the coordinator, which fails over
            self._failed(error)
            return
        self._committed(checkpoint_id, records)

    def close(self) -> None:
        """Drop writers and committers; a commit in flight is left to the next generation."""
        for part in self._parts.values():
            part.context.cancelled.set()
        for writer in self.writers.values():
            writer.close()
        self._commit_thread.shutdown(wait=False, cancel_futures=True)
        for committer in self._committers.values():
            committer.close()
