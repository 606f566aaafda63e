"""Upload of frozen local files into checkpoint storage: the async phase of one slot (D5, D9).

Called in a slot process, off the record thread, with hard-linked files that never change (T17).
Incremental checkpoints: an SST file that a **completed** checkpoint already holds in ``shared/``
is referred to, not sent again. What a checkpoint in progress or an aborted one has sent does not
count, since its files may be deleted.

`ReusableFiles` is that knowledge for one backend instance; it dies with the instance, because
RocksDB's file numbers mean nothing beyond it (T5). The slot tells it the fate of each checkpoint::

    files = ReusableFiles(restored_handle or None)
    uploaded = uploader.upload_keyed(snapshot, owner, checkpoint_id, files)
    ... NotifyComplete(n) -> files.completed(n)       NotifyAborted(n) -> files.aborted(n)

A failed upload deletes what it has sent, best effort: whatever stays is garbage by its name and is
removed by `CheckpointStore.subsume`.
"""

from __future__ import annotations

import functools
import logging
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.checkpoint.protocol import paths
from headrace.checkpoint.protocol.types import FileHandle, KeyedStateHandle
from headrace.errors import HeadraceError, InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headrace.checkpoint.storage import ObjectStore
    from headrace.checkpoint.transfer import TransferPool
    from headrace.ids import CheckpointId, Generation, OperatorUid, SlotIndex
    from headrace.state.contract import LocalSnapshot, SnapshotFile

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeyedOwner:
    """Whose keyed state is uploaded."""

    operator_uid: OperatorUid
    slot: SlotIndex
    backend: str


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A local file that will not change; ``name`` is what it is called after a restore."""

    name: str
    path: Path
    size_bytes: int


@dataclass(frozen=True, slots=True)
class UploadedState:
    """Keyed state that is durable, and how much of it was new."""

    handle: KeyedStateHandle
    state_size_bytes: int
    uploaded_bytes: int
    uploaded_files: int
    reused_files: int


class ReusableFiles:
    """Files of one backend instance that the last completed checkpoint holds in ``shared/``.

    Thread-safe: the uploader and the control channel use it.
    """

    def __init__(self, adopted: KeyedStateHandle | None = None) -> None:
        """Begin a backend instance.

        Args:
            adopted: the restored handle **if** the backend works on exactly its files (one source
                that covers exactly the range, taken over by hard links), and it lies in this job's
                directory; else None, and the first checkpoint sends everything.
        """
        self._lock = threading.Lock()
        self._completed = _shared_files(adopted) if adopted else {}
        self._pending: dict[CheckpointId, dict[str, FileHandle]] = {}

    def find(self, file: SnapshotFile) -> FileHandle | None:
        """Return the handle of a file that need not be sent again.

        Raises:
            InternalError: a file of that name was stored with another size.
        """
        with self._lock:
            handle = self._completed.get(file.name)
        if handle is not None and handle.size_bytes != file.size_bytes:
            msg = (
                "a shared file has changed under its name; "
                f"file={file.path} size={file.size_bytes} stored={handle.path} "
                f"stored_size={handle.size_bytes}"
            )
            raise InternalError(msg)
        return handle

    def uploaded(self, checkpoint_id: CheckpointId, handle: KeyedStateHandle) -> None:
        """Note what a checkpoint in progress holds."""
        with self._lock:
            self._pending[checkpoint_id] = _shared_files(handle)

    def completed(self, checkpoint_id: CheckpointId) -> None:
        """Note that the checkpoint is complete: its files are the ones to refer to from now on."""
        with self._lock:
            files = self._pending.get(checkpoint_id)
            if files is not None:
                self._completed = files
            self._pending = {n: kept for n, kept in self._pending.items() if n > checkpoint_id}

    def aborted(self, checkpoint_id: CheckpointId) -> None:
        """Forget a checkpoint that was given up."""
        with self._lock:
            self._pending.pop(checkpoint_id, None)


class SnapshotUploader:
    """Sends files of one generation of one slot; thread-safe."""

    def __init__(
        self,
        store: ObjectStore,
        pool: TransferPool,
        generation: Generation,
        *,
        unique: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        """Create an uploader.

        Args:
            store: the job's checkpoint directory.
            pool: threads that move files.
            generation: written into every name; of the Restore order that the slot obeys.
            unique: source of random name parts.
        """
        self._store = store
        self._pool = pool
        self._generation = generation
        self._unique = unique

    def upload_keyed(
        self,
        snapshot: LocalSnapshot,
        owner: KeyedOwner,
        checkpoint_id: CheckpointId,
        reusable: ReusableFiles,
    ) -> UploadedState:
        """Make a backend's snapshot durable; returns when every file is.

        Raises:
            StorageUnavailableError, StorageAccessError: the checkpoint must be declined.
            InternalError: a file changed while or after it was frozen.
        """
        known = {file.name: reusable.find(file) for file in snapshot.files if file.shareable}
        new = [file for file in snapshot.files if known.get(file.name) is None]
        writer = paths.FileWriter(self._generation, checkpoint_id)
        targets = [
            (LocalFile(file.name, file.path, file.size_bytes), self._target(writer, file))
            for file in new
        ]
        sent = {handle.name: handle for handle in self._send(targets)}
        files = [known.get(file.name) or sent[file.name] for file in snapshot.files]
        handle = KeyedStateHandle(
            operator_uid=owner.operator_uid,
            slot=owner.slot,
            key_group_start=snapshot.key_group_range.start,
            key_group_end=snapshot.key_group_range.end,
            backend=owner.backend,
            key_serializer=snapshot.key_serializer,
            schemas=list(snapshot.schemas),
            files=files,
        )
        reusable.uploaded(checkpoint_id, handle)
        return UploadedState(
            handle=handle,
            state_size_bytes=sum(file.size_bytes for file in files),
            uploaded_bytes=sum(file.size_bytes for file in sent.values()),
            uploaded_files=len(sent),
            reused_files=len(files) - len(sent),
        )

    def upload_files(
        self, files: Sequence[LocalFile], checkpoint_id: CheckpointId
    ) -> list[FileHandle]:
        """Make files that belong to one checkpoint durable (sink spools); keeps their order.

        Raises: as `upload_keyed`.
        """
        writer = paths.FileWriter(self._generation, checkpoint_id)
        targets = [
            (file, paths.exclusive_path(writer, self._unique(), file.name)) for file in files
        ]
        return self._send(targets)

    def _target(self, writer: paths.FileWriter, file: SnapshotFile) -> str:
        build = paths.shared_path if file.shareable else paths.exclusive_path
        return build(writer, self._unique(), file.name)

    def _send(self, targets: Sequence[tuple[LocalFile, str]]) -> list[FileHandle]:
        try:
            return self._pool.run(
                [functools.partial(self._send_one, file, path) for file, path in targets]
            )
        except BaseException:
            self._discard([path for _, path in targets])
            raise

    def _send_one(self, file: LocalFile, path: str) -> FileHandle:
        digest = self._store.put_file(path, file.path)
        if digest.size_bytes != file.size_bytes:
            msg = (
                "a frozen file changed before it was sent; "
                f"file={file.path} size={file.size_bytes} sent={digest.size_bytes}"
            )
            raise InternalError(msg)
        return FileHandle(file.name, path, digest.size_bytes, digest.checksum)

    def _discard(self, sent: list[str]) -> None:
        try:
            self._store.delete(sent)
        except HeadraceError as error:
            _LOG.warning("files of a failed upload are left for clean-up; error=%s", error)


def _shared_files(handle: KeyedStateHandle) -> dict[str, FileHandle]:
    return {file.name: file for file in handle.files if paths.is_shared(file.path)}
