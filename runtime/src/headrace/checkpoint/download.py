"""Download of checkpoint files to local disk, in parallel, with every byte checked (D22, I6, I7).

A file that comes differently from what was stored is fetched again before it counts as corrupt: a
reply that was cut off on its way must not end a job that no failover can help.

Called in a slot process during restore. A handle's path is relative to the job's checkpoint
directory, or an absolute URI when the checkpoint lies elsewhere
(`CheckpointStore.read_checkpoint`).
"""

from __future__ import annotations

import functools
import logging
import shutil
from typing import TYPE_CHECKING

from headrace.checkpoint.inventory import READ_ATTEMPTS
from headrace.errors import CorruptStateError, ObjectMissingError, StorageUnavailableError
from headrace.state.contract import RestoreSource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headrace.checkpoint.protocol.types import FileHandle, KeyedStateHandle
    from headrace.checkpoint.storage import ObjectStore
    from headrace.checkpoint.transfer import TransferPool

_LOG = logging.getLogger(__name__)


class SnapshotDownloader:
    """Fetches files of one job; thread-safe."""

    def __init__(
        self,
        store: ObjectStore,
        pool: TransferPool,
        *,
        open_elsewhere: Callable[[str], ObjectStore],
    ) -> None:
        """Create a downloader.

        Args:
            store: the job's checkpoint directory.
            pool: threads that move files.
            open_elsewhere: opens a store over a directory URI, for handles with absolute paths;
                usually `open_store` with the job's options.
        """
        self._store = store
        self._pool = pool
        self._open_elsewhere = open_elsewhere

    def download_keyed(self, handle: KeyedStateHandle, directory: Path) -> RestoreSource:
        """Fetch a handle's files into ``directory``, which must not exist.

        Returns the source to open a backend from. After a failure the directory is gone again.

        Raises:
            CorruptStateError: an object is missing, or differs from its recorded size or checksum.
            StorageUnavailableError, StorageAccessError: storage or the local disk failed.
        """
        self.download_files(handle.files, directory)
        return RestoreSource(
            directory=directory,
            key_group_range=handle.key_group_range,
            key_serializer=handle.key_serializer,
            schemas=tuple(handle.schemas),
            backend=handle.backend,
        )

    def download_files(self, files: Sequence[FileHandle], directory: Path) -> list[Path]:
        """Fetch files into ``directory``, which must not exist; returns their paths in order.

        Raises: as `download_keyed`.
        """
        try:
            directory.mkdir(parents=True)
        except OSError as error:
            msg = f"local directory cannot be made; directory={directory} error={error}"
            raise StorageUnavailableError(msg) from error
        stores = {root: self._open(root) for root in {_split(file.path)[0] for file in files}}
        try:
            return self._pool.run(
                [functools.partial(self._fetch, stores, file, directory) for file in files]
            )
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _open(self, root: str | None) -> ObjectStore:
        return self._store if root is None else self._open_elsewhere(root)

    def _fetch(
        self, stores: dict[str | None, ObjectStore], file: FileHandle, directory: Path
    ) -> Path:
        root, path = _split(file.path)
        target = directory / file.name
        for _ in range(READ_ATTEMPTS):
            try:
                digest = stores[root].get_file(path, target)
            except ObjectMissingError as error:
                msg = (
                    f"a file of the checkpoint is missing, restore another one; object={file.path}"
                )
                raise CorruptStateError(msg) from error
            if (digest.size_bytes, digest.checksum) == (file.size_bytes, file.checksum):
                return target
            target.unlink()
            _LOG.warning("a file came differently from what was stored; object=%s", file.path)
        msg = (
            "a file of the checkpoint is not what was stored, restore another one; "
            f"object={file.path} size={digest.size_bytes} expected_size={file.size_bytes} "
            f"checksum={digest.checksum} expected_checksum={file.checksum} reads={READ_ATTEMPTS}"
        )
        raise CorruptStateError(msg)


def _split(path: str) -> tuple[str | None, str]:
    """Return (root URI, path below it); the root is None for a path in the job's directory."""
    if "://" not in path:
        return None, path
    root, _, name = path.rpartition("/")
    return root, name
