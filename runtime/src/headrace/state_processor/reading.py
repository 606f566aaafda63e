"""Opening stored state: metadata first, then the files of one slot at a time, on local disk.

Nothing here needs the program that wrote the state, or Spark. Files come through
`SnapshotDownloader`, so every byte is checked against the metadata; what a reader takes of the
disk is the state of one slot, of memory a few megabytes (`rocksdb`) or that state (`hashmap`).
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.protocol.paths import METADATA_NAME, checkpoint_dir, parse_metadata_path
from headrace.checkpoint.storage import open_store
from headrace.checkpoint.transfer import TransferPool
from headrace.errors import InvalidConfigError, LocalStorageError, NoRestorableStateError
from headrace.ids import KeyGroup
from headrace.keygroups import KeyGroupRange, key_group_of_hash
from headrace.serialization.registry import described_type
from headrace.serialization.registry import key_serializer as build_key_serializer
from headrace.state.contract import RestoreSource
from headrace.state.directories import DB_DIRECTORY
from headrace.state.hashmap.row_file import SUFFIX
from headrace.state.rows import end_of_prefix, parse_timer_row, rows_of_range, state_row
from headrace.state.schemas import TIMERS
from headrace.state.stored import HASHMAP, ROCKSDB, open_stored_rows
from headrace.state_processor.catalog import catalog_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from headrace.checkpoint.protocol.types import KeyedStateHandle
    from headrace.checkpoint.storage import ObjectStore
    from headrace.state.entries import Row
    from headrace.state.stored import StoredRows
    from headrace.state_processor.catalog import StateTable, StoredOperator, StoredState

_NAMED_MAX: Final = 5
"""So many checkpoints are named when a path is none."""

_LISTED_MAX: Final = 10_000
"""So many objects are looked at to find them: a bucket may hold any number."""

KEPT_BYTES: Final = 2 << 30
"""What a reader may take of the local disk, if the state of one slot is not larger."""

_EMPTY_NAMESPACE_BYTES: Final = 2
"""The length of no namespace, at the end of a row: whatever the namespace, a key's rows begin
with what is before it."""


def uri_of(path: str) -> str:
    """Return a URI as it is, and a path of this machine as a ``file://`` URI."""
    return path.rstrip("/") if "://" in path else Path(path).absolute().as_uri()


def read_stored_state(path: str, options: Mapping[str, str]) -> StoredState:
    """Read what a checkpoint or savepoint holds; no state file is read yet.

    Args:
        path: its directory: a URI, or a path of this machine.
        options: of the storage, by Flink's keys (``s3.*``, ``fs.azure.*``).

    Raises:
        NoRestorableStateError: there is none; names checkpoints below ``path``.
        CorruptStateError: metadata or files do not hold.
        InvalidConfigError: the URI cannot be opened.
    """
    uri = uri_of(path).removesuffix(f"/{METADATA_NAME}")
    open_root = functools.partial(open_store, options=options)
    try:
        metadata = read_checkpoint_at(uri, open_root)
    except NoRestorableStateError as error:
        found = _checkpoints_below(open_root(uri))
        if not found:
            raise
        msg = f"that is the directory of a job, choose a checkpoint in it; path={uri} {found=}"
        raise NoRestorableStateError(msg) from error
    return catalog_of(uri, metadata)


def _checkpoints_below(store: ObjectStore) -> list[str]:
    """Return the newest complete checkpoints of a job's directory."""
    listed = itertools.islice(store.list("chk-"), _LISTED_MAX)
    numbers = {n for info in listed if (n := parse_metadata_path(info.path)) is not None}
    return [checkpoint_dir(n) for n in sorted(numbers, reverse=True)[:_NAMED_MAX]]


@dataclass(frozen=True, slots=True)
class _Opened:
    """Files of one slot on local disk."""

    rows: StoredRows
    directory: Path
    size_bytes: int


class StateFiles(contextlib.AbstractContextManager["StateFiles", None]):
    """Files of stored state on local disk, fetched when they are asked for. Used by one thread.

    Those of the last slots are kept for whoever reads several states of an operator.

    Args:
        options: of the storage.
        scratch_dir: local directory for them, with room for the state of one slot; None: the
            system's for temporary files.
        kept_bytes: size of all files at which the oldest are removed.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        scratch_dir: Path | None = None,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._open_root: Callable[[str], ObjectStore] = functools.partial(
            open_store, options=options
        )
        self._parent = scratch_dir
        self._kept_bytes = kept_bytes
        self._pool = TransferPool()
        self._scratch: Path | None = None
        self._number = itertools.count()
        self._opened: dict[tuple[str, int], _Opened] = {}

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._make_room(self._kept_bytes)
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def open(self, handle: KeyedStateHandle) -> StoredRows:
        """Fetch and open the files of one slot.

        Raises:
            CorruptStateError: a file is missing, or not what was stored.
            StorageUnavailableError, StorageAccessError: storage failed.
            LocalStorageError: there is no local directory for them.
        """
        place = (handle.operator_uid, handle.key_group_start)
        if place not in self._opened:
            size = sum(file.size_bytes for file in handle.files)
            self._make_room(size)
            self._opened[place] = self._fetch(handle, size)
        return self._opened[place].rows

    def _fetch(self, handle: KeyedStateHandle, size_bytes: int) -> _Opened:
        directory = self._directory() / str(next(self._number))
        source = self._downloader(handle).download_keyed(handle, directory / "files")
        return _Opened(open_stored_rows(source, directory / "reading"), directory, size_bytes)

    def _make_room(self, size_bytes: int) -> None:
        held = sum(opened.size_bytes for opened in self._opened.values())
        while self._opened and held + size_bytes > self._kept_bytes:
            oldest = self._opened.pop(next(iter(self._opened)))
            held -= oldest.size_bytes
            oldest.rows.close()
            shutil.rmtree(oldest.directory, ignore_errors=True)

    def rows(self, table: StateTable, key_groups: KeyGroupRange | None = None) -> Iterator[Row]:
        """Yield the stored rows of a state in the order of key groups, slot by slot.

        Args:
            table: the state.
            key_groups: only these; None: all.

        Raises: as `open`.
        """
        for handle in table.handles:
            held = handle.key_group_range
            wanted = held if key_groups is None else held.intersection(key_groups)
            if wanted is None:
                continue
            yield from self.open(handle).rows(table.name).scan(*rows_of_range(wanted))

    def rows_of_key(self, table: StateTable, key: object) -> Iterator[Row]:
        """Yield the stored rows of one key, in all its windows.

        Args:
            table: the state.
            key: a value of the key type.

        Raises:
            InvalidConfigError: the key is not of the key type.
            As `open`.
        """
        keys = build_key_serializer(described_type(table.key_serializer))
        try:
            found = keys.coerce(key)
            data = keys.serialize(found)
        except TypeError as error:
            msg = f"not a key of this operator: {error}; operator={table.uid} key={key!r}"
            raise InvalidConfigError(msg) from error
        group = key_group_of_hash(keys.hash64(found), table.max_parallelism)
        if table.kind == TIMERS:
            for row, value in self.rows(table, KeyGroupRange(group, group)):
                if parse_timer_row(row)[2] == data:
                    yield row, value
            return
        prefix = state_row(group, data)[:-_EMPTY_NAMESPACE_BYTES]
        for handle in table.handles:
            if group in handle.key_group_range:
                rows = self.open(handle).rows(table.name)
                yield from rows.scan(prefix, end_of_prefix(prefix))

    def _downloader(self, handle: KeyedStateHandle) -> SnapshotDownloader:
        root = handle.files[0].path.rpartition("/")[0] if handle.files else "file:///"
        return SnapshotDownloader(self._open_root(root), self._pool, open_elsewhere=self._open_root)

    def _directory(self) -> Path:
        if self._scratch is None:
            try:
                self._scratch = Path(tempfile.mkdtemp(prefix="headrace-state-", dir=self._parent))
            except OSError as error:
                msg = f"no local directory for state files; parent={self._parent} error={error}"
                raise LocalStorageError(msg) from error
        return self._scratch


@contextlib.contextmanager
def local_rows(directory: Path, operator: StoredOperator) -> Iterator[StoredRows]:
    """Open what a slot keeps on a disk of this machine: a working directory or a frozen copy.

    A database in use may be opened: it is read through hard links, as it was last flushed.

    Args:
        directory: with RocksDB's files, or ``db`` below it, or files of the in-memory backend.
        operator: whose state that is; its types are a checkpoint's, the files have none.

    Raises:
        InvalidConfigError: the operator has no keyed state.
        CorruptStateError: there is no such state in the directory.
    """
    if not operator.tables:
        msg = f"the operator has no keyed state, so nothing of it is local; operator={operator.uid}"
        raise InvalidConfigError(msg)
    files = directory / DB_DIRECTORY if (directory / DB_DIRECTORY).is_dir() else directory
    groups = KeyGroup(operator.tables[0].max_parallelism - 1)
    source = RestoreSource(
        directory=files,
        key_group_range=KeyGroupRange(KeyGroup(0), groups),
        key_serializer=operator.tables[0].key_serializer,
        schemas=tuple(table.schema for table in operator.tables),
        backend=HASHMAP if any(files.glob(f"*{SUFFIX}")) else ROCKSDB,
    )
    # Links lead nowhere but to the same file system.
    parent = directory.parent if os.access(directory.parent, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="headrace-state-", dir=parent) as scratch:
        rows = open_stored_rows(source, Path(scratch) / "reading")
        try:
            yield rows
        finally:
            rows.close()
