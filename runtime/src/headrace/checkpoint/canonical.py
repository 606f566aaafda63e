"""Writing the state of a checkpoint as canonical files: the other way to make a savepoint.

A savepoint in native format is a copy of files; this one is a copy of rows. Handle by handle, so
that the local disk holds the state of one operator in one slot at a time: its files are fetched and
compared with their checksums, its rows written as one Parquet file a state
(`headrace.state.canonical`), and those stored. Slots know nothing of it and go on.

Called by `SavepointWriter` on its thread; rows pass through this process at some ten MB/s, so it is
the slow format: for moves between backends, for archives, for other programs that read state.
"""

from __future__ import annotations

import functools
import shutil
from typing import TYPE_CHECKING

import msgspec

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.protocol.savepoints import canonical_path, canonical_savepoint
from headrace.checkpoint.protocol.types import FileHandle
from headrace.errors import LocalStorageError
from headrace.state.stored import CANONICAL, open_stored_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.checkpoint.protocol.types import CheckpointMetadata, KeyedStateHandle
    from headrace.checkpoint.storage import ObjectStore
    from headrace.checkpoint.transfer import TransferPool
    from headrace.state.contract import RestoreSource


class CanonicalWriter:
    """Writes canonical files of one savepoint.

    Args:
        attempt: unique to this attempt; goes into every path.
        store: the savepoint's directory.
        pool: threads that move files.
        open_store: opens a store over a directory URI, for the checkpoint's files.
        check: called often; raises to give up.
    """

    def __init__(
        self,
        attempt: str,
        store: ObjectStore,
        pool: TransferPool,
        *,
        open_store: Callable[[str], ObjectStore],
        check: Callable[[], None],
    ) -> None:
        self._attempt = attempt
        self._store = store
        self._pool = pool
        self._downloader = SnapshotDownloader(store, pool, open_elsewhere=open_store)
        self._check = check

    def write(self, checkpoint: CheckpointMetadata, scratch: Path) -> CheckpointMetadata:
        """Write all keyed state of ``checkpoint``; returns the savepoint's metadata.

        Args:
            checkpoint: with absolute file URIs.
            scratch: local directory with room for one operator's state in one slot, twice.

        Raises:
            CorruptStateError: a file of the checkpoint is gone, or not what was stored.
            IncompatibleStateError: another release wrote it in a format that is not known.
            StorageUnavailableError, StorageAccessError, LocalStorageError: storage or disk failed.
        """
        slots = []
        for snapshot in checkpoint.slots:
            handles = []
            for index, handle in enumerate(snapshot.keyed):
                target = functools.partial(canonical_path, self._attempt, snapshot.slot, index)
                handles.append(self._write_handle(handle, scratch / "state", target))
            slots.append(handles)
        return canonical_savepoint(checkpoint, slots)

    def _write_handle(
        self, handle: KeyedStateHandle, directory: Path, target: Callable[[str], str]
    ) -> KeyedStateHandle:
        self._check()
        try:
            source = self._downloader.download_keyed(handle, directory / "native")
            paths = self._write_files(source, directory)
            files = self._pool.run(
                [functools.partial(self._send, p, target(p.name)) for p in paths]
            )
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        return msgspec.structs.replace(handle, backend=CANONICAL, files=files)

    def _write_files(self, source: RestoreSource, directory: Path) -> list[Path]:
        written = directory / "canonical"
        try:
            written.mkdir()
        except OSError as error:
            msg = f"local directory cannot be made; directory={written} error={error}"
            raise LocalStorageError(msg) from error
        # pyarrow takes long to import, and most drivers never write a canonical savepoint.
        from headrace.state.canonical import write_canonical_files  # noqa: PLC0415

        stored = open_stored_rows(source, directory / "reading")
        try:
            return write_canonical_files(source, stored, written, self._check)
        finally:
            stored.close()

    def _send(self, source: Path, path: str) -> FileHandle:
        self._check()
        digest = self._store.put_file(path, source)
        return FileHandle(source.name, path, digest.size_bytes, digest.checksum)
