"""Making a savepoint: the files of a completed checkpoint copied into a directory of its own.

Called in the driver, on a thread beside the job master's, for a checkpoint that is held
(`headrace.checkpoint.held`) and whose output is published. Files move in parallel and inside the
storage where it can copy; what passes through our hands is hashed, and every size is compared by a
listing before ``_metadata`` makes the savepoint exist. In canonical format the rows are written
anew instead (`headrace.checkpoint.canonical`).

Order of writes, and what a crash after each leaves:

    copies of all files     a directory without ``_metadata``: not a savepoint
    create ``_metadata``    the savepoint

A failed attempt removes its own files, unless the answer to the create was lost: then the savepoint
may exist, now or in a moment, and its files stay.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import tempfile
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.canonical import CanonicalWriter
from headrace.checkpoint.inventory import check_files, read_metadata
from headrace.checkpoint.protocol.paths import METADATA_NAME
from headrace.checkpoint.protocol.savepoints import (
    SavepointFormat,
    data_dir,
    plan_savepoint,
    savepoint_dir,
)
from headrace.checkpoint.protocol.types import encode_metadata
from headrace.checkpoint.storage.copying import copy_object
from headrace.errors import (
    CorruptStateError,
    HeadraceError,
    ObjectExistsError,
    ObjectMissingError,
    StorageUnavailableError,
)
from headrace.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.checkpoint.protocol.savepoints import FileCopy
    from headrace.checkpoint.protocol.types import CheckpointMetadata
    from headrace.checkpoint.storage import ObjectStore
    from headrace.checkpoint.transfer import TransferPool
    from headrace.ids import JobId, TriggerId

_LOG = logging.getLogger(__name__)

_CREATE_ATTEMPTS: Final = 3
"""An answer that was lost is asked for again; `ObjectStore.create` knows its own object."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint that exists: its URI and its metadata, paths relative to the URI."""

    location: str
    metadata: CheckpointMetadata

    @property
    def size_bytes(self) -> int:
        """Return the size of the state in it."""
        return sum(slot.state_size_bytes for slot in self.metadata.slots)


class SavepointWriter:
    """Makes savepoints of one job; thread-safe."""

    def __init__(
        self,
        job_id: JobId,
        pool: TransferPool,
        *,
        open_store: Callable[[str], ObjectStore],
        scratch_dir: Path | None,
        cancelled: threading.Event,
    ) -> None:
        """Create a writer.

        Args:
            job_id: whose savepoints.
            pool: threads that move files.
            open_store: opens a store over a directory URI.
            scratch_dir: local directory for files between two storages; None = the system's.
            cancelled: no new file is begun once it is set.
        """
        self._job_id = job_id
        self._pool = pool
        self._open_store = open_store
        self._scratch_dir = scratch_dir
        self._cancelled = cancelled

    def location(self, target_directory: str, trigger_id: TriggerId) -> str:
        """Return the URI of the savepoint that a trigger makes below ``target_directory``."""
        return f"{target_directory.rstrip('/')}/{savepoint_dir(self._job_id, trigger_id)}"

    def find(self, location: str) -> Savepoint | None:
        """Return the savepoint at ``location``, None when there is none (yet).

        Raises:
            CorruptStateError: what is there cannot be read.
            StorageUnavailableError, StorageAccessError: storage failed.
        """
        store = self._open_store(location)
        try:
            return Savepoint(location, read_metadata(store, METADATA_NAME))
        except ObjectMissingError:
            return None

    def write(
        self,
        checkpoint: CheckpointMetadata,
        location: str,
        form: SavepointFormat = SavepointFormat.NATIVE,
    ) -> Savepoint:
        """Make ``checkpoint`` a savepoint at ``location``; returns the one that is there already.

        Args:
            checkpoint: with absolute file URIs, as `CheckpointStore.read_checkpoint` returns it.
            location: from `location`.
            form: what its files shall be.

        Raises:
            CorruptStateError: a file of the checkpoint is gone or not what was stored.
            StorageUnavailableError, StorageAccessError: a storage failed, or it was cancelled.
            LocalStorageError: the local disk failed.
        """
        existing = self.find(location)
        if existing is not None:
            return existing
        attempt = uuid.uuid4().hex[:12]
        store = self._open_store(location)
        try:
            if form is SavepointFormat.CANONICAL:
                metadata = self._convert(checkpoint, attempt, store)
            else:
                plan = plan_savepoint(checkpoint, attempt)
                self._copy_all(plan.copies, store)
                metadata = plan.metadata
            check_files(store, metadata, name=location)
        except BaseException:
            _discard(store, attempt)
            raise
        reach("driver.before-savepoint")
        try:
            self._create(store, encode_metadata(metadata))
        except ObjectExistsError:
            _discard(store, attempt)
            winner = self.find(location)
            if winner is None:
                raise
            return winner
        reach("driver.after-savepoint")
        return Savepoint(location, metadata)

    def _create(self, store: ObjectStore, data: bytes) -> None:
        for left in reversed(range(_CREATE_ATTEMPTS)):
            try:
                store.create(METADATA_NAME, data)
            except StorageUnavailableError:
                if left == 0:
                    raise
            else:
                return

    def _convert(
        self, checkpoint: CheckpointMetadata, attempt: str, store: ObjectStore
    ) -> CheckpointMetadata:
        writer = CanonicalWriter(
            attempt,
            store,
            self._pool,
            open_store=self._open_store,
            check=lambda: self._check_wanted(store),
        )
        with _Scratch(self._scratch_dir) as scratch:
            return writer.write(checkpoint, scratch.directory())

    def _copy_all(self, copies: tuple[FileCopy, ...], store: ObjectStore) -> None:
        roots = {copy.source.path.rpartition("/")[0] for copy in copies}
        sources = {root: self._open_store(root) for root in roots}
        with _Scratch(self._scratch_dir) as scratch:
            self._pool.run(
                [
                    functools.partial(self._copy, copy, sources, store, scratch.directory)
                    for copy in copies
                ]
            )

    def _copy(
        self,
        copy: FileCopy,
        sources: dict[str, ObjectStore],
        store: ObjectStore,
        scratch: Callable[[], Path],
    ) -> None:
        self._check_wanted(store)
        file = copy.source
        root, _, name = file.path.rpartition("/")
        try:
            digest = copy_object(sources[root], name, store, copy.path, scratch)
        except ObjectMissingError as error:
            msg = (
                "a file of the checkpoint is gone, another driver may have taken over; "
                f"object={file.path}"
            )
            raise CorruptStateError(msg) from error
        read = digest and (digest.size_bytes, digest.checksum)
        if read and read != (file.size_bytes, file.checksum):
            msg = (
                "a file of the checkpoint is not what was stored, restore an older checkpoint; "
                f"object={file.path} size={read[0]} expected_size={file.size_bytes} "
                f"checksum={read[1]} expected_checksum={file.checksum}"
            )
            raise CorruptStateError(msg)

    def _check_wanted(self, store: ObjectStore) -> None:
        if self._cancelled.is_set():
            msg = f"the savepoint was given up, the job ends; location={store.root_uri}"
            raise StorageUnavailableError(msg)


class _Scratch(contextlib.AbstractContextManager["_Scratch", None]):
    """A local directory that is made when first asked for and removed at the end; thread-safe."""

    def __init__(self, parent: Path | None) -> None:
        self._parent = parent
        self._lock = threading.Lock()
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def directory(self) -> Path:
        """Return the directory.

        Raises:
            StorageUnavailableError: the local disk refused it.
        """
        with self._lock:
            if self._directory is None:
                try:
                    self._directory = tempfile.TemporaryDirectory(dir=self._parent)
                except OSError as error:
                    msg = f"no local directory for copies; parent={self._parent} error={error}"
                    raise StorageUnavailableError(msg) from error
            return Path(self._directory.name)

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            self._directory.cleanup()


def _discard(store: ObjectStore, attempt: str) -> None:
    """Remove what an attempt has written, best effort: nothing refers to it."""
    try:
        store.delete([info.path for info in store.list(f"{data_dir(attempt)}/")])
    except HeadraceError as error:
        _LOG.warning(
            "files of a failed savepoint are left behind, remove them by hand; "
            "directory=%s/%s error=%s",
            store.root_uri,
            data_dir(attempt),
            error,
        )
