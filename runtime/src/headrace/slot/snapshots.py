"""Checkpoints of one slot: the sync phase on the main thread, the async phase behind it.

Sync (ms): every backend flushes and freezes itself in a directory of hard links, every sink seals
its spool.
Async: what storage does not have yet is uploaded; then the slot acknowledges. The frozen
directories of the last completed checkpoint stay, for rolling back without a download (I6); all
others are removed as soon as the fate of their checkpoint is known. Names below the slot's working
directory::

    snapshots/<checkpoint id>/<operator id>/      frozen keyed state
"""

from __future__ import annotations

import logging
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.checkpoint.protocol.types import (
    OperatorStateHandle,
    SinkCommittable,
    SlotSnapshot,
)
from headrace.checkpoint.upload import KeyedOwner, LocalFile, ReusableFiles, SnapshotUploader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.checkpoint.protocol.types import FileHandle, KeyedStateHandle
    from headrace.connectors.sink import PendingSpool
    from headrace.ids import CheckpointId, Generation, OperatorUid, SlotIndex
    from headrace.state.contract import KeyedStateBackend, LocalSnapshot

log = logging.getLogger(__name__)


@dataclass(slots=True)
class KeyedPart:
    """One keyed operator as the snapshotter sees it."""

    operator_id: int
    uid: OperatorUid
    backend: KeyedStateBackend
    backend_name: str
    reusable: ReusableFiles


@dataclass(frozen=True, slots=True)
class FrozenSlot:
    """Everything that the async phase needs; immutable, so records may go on."""

    checkpoint_id: CheckpointId
    keyed: tuple[tuple[KeyedPart, LocalSnapshot], ...]
    spools: tuple[PendingSpool, ...]
    """Sealed output that no completed checkpoint holds yet."""
    carried: tuple[SinkCommittable, ...]
    """Output that a completed checkpoint holds and that is not published yet."""
    operator: tuple[OperatorStateHandle, ...]
    changes: tuple[tuple[OperatorUid, LocalFile], ...]
    """Changes since the base of a rescale, for a hand-over."""
    sync_ms: float


@dataclass(slots=True)
class LocalRecovery:
    """The frozen state of the last completed checkpoint on this disk.

    Attributes:
        handles: operator uid -> (what storage holds, the same on local disk).
    """

    checkpoint_id: CheckpointId
    generation: Generation
    handles: dict[OperatorUid, tuple[KeyedStateHandle, LocalSnapshot]]


@dataclass(slots=True)
class SlotSnapshots:
    """Frozen directories of one slot over its whole life; used by the main thread only."""

    root: Path
    recovery: LocalRecovery | None = None
    base: CheckpointId | None = None
    """Base of a rescale in preparation: others build their state from its frozen copy."""
    _acked: dict[CheckpointId, LocalRecovery] = field(default_factory=dict)

    def directory(self, checkpoint_id: CheckpointId, operator_id: int) -> Path:
        """Return where an operator freezes its state for a checkpoint; does not exist yet."""
        parent = self.root / str(checkpoint_id)
        parent.mkdir(parents=True, exist_ok=True)
        return parent / str(operator_id)

    def acked(self, frozen: FrozenSlot, snapshot: SlotSnapshot, generation: Generation) -> None:
        """Remember what was acknowledged, until the checkpoint's fate is known."""
        handles = {handle.operator_uid: handle for handle in snapshot.keyed}
        self._acked[frozen.checkpoint_id] = LocalRecovery(
            frozen.checkpoint_id,
            generation,
            {part.uid: (handles[part.uid], local) for part, local in frozen.keyed},
        )

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """Keep this checkpoint for local recovery and drop older ones."""
        self.recovery = self._acked.pop(checkpoint_id, None) or self.recovery
        self._acked = {n: r for n, r in self._acked.items() if n > checkpoint_id}
        self._remove(lambda n: n < checkpoint_id)

    def aborted(self, checkpoint_id: CheckpointId) -> None:
        """Drop what was frozen for a checkpoint that was given up."""
        self._acked.pop(checkpoint_id, None)
        self._remove(lambda n: n == checkpoint_id)

    def rolled_back(self, checkpoint_id: CheckpointId | None) -> None:
        """A new generation begins: only the checkpoint that it restores may stay."""
        acked = self._acked.get(checkpoint_id) if checkpoint_id is not None else None
        if acked is not None:
            self.recovery = acked  # completed, but the word of it never came
        if self.recovery is not None and self.recovery.checkpoint_id != checkpoint_id:
            self.recovery = None
        self._acked = {}
        self.base = None
        self._remove(lambda n: n != checkpoint_id or self.recovery is None)

    def _remove(self, condition: Callable[[int], bool]) -> None:
        if not self.root.exists():
            return
        for directory in self.root.iterdir():
            number = int(directory.name)
            if number != self.base and condition(number):
                shutil.rmtree(directory, ignore_errors=True)


def upload(frozen: FrozenSlot, uploader: SnapshotUploader, slot: SlotIndex) -> SlotSnapshot:
    """Run the async phase; returns what to acknowledge.

    Raises:
        StorageUnavailableError, StorageAccessError: the checkpoint must be declined.
    """
    started = time.perf_counter()
    keyed: list[KeyedStateHandle] = []
    size = uploaded = 0
    for part, local in frozen.keyed:
        owner = KeyedOwner(part.uid, slot, part.backend_name)
        state = uploader.upload_keyed(local, owner, frozen.checkpoint_id, part.reusable)
        keyed.append(state.handle)
        size += state.state_size_bytes
        uploaded += state.uploaded_bytes
    committables = list(frozen.carried)
    for spool in frozen.spools:
        files = [LocalFile(f.path.name, f.path, f.size_bytes) for f in spool.files]
        handles = uploader.upload_files(files, frozen.checkpoint_id) if files else []
        uploaded += sum(handle.size_bytes for handle in handles)
        committables.append(
            SinkCommittable(
                spool.operator_uid, spool.spool_id, spool.checkpoint_id, handles, spool.records
            )
        )
    return SlotSnapshot(
        slot=slot,
        keyed=keyed,
        operator=list(frozen.operator),
        committables=committables,
        state_size_bytes=size,
        uploaded_bytes=uploaded,
        sync_ms=frozen.sync_ms,
        async_ms=(time.perf_counter() - started) * 1000,
    )


def upload_changes(frozen: FrozenSlot, uploader: SnapshotUploader) -> dict[OperatorUid, FileHandle]:
    """Make the changes of a hand-over durable for as long as the switch takes.

    Nothing refers to them once it is over: the next clean-up of checkpoints removes them.
    """
    if not frozen.changes:
        return {}
    files = uploader.upload_files([file for _, file in frozen.changes], frozen.checkpoint_id)
    return {uid: handle for (uid, _), handle in zip(frozen.changes, files, strict=True)}
