"""Stored rows of one source, read as rows whatever has written them (E13).

Every backend keeps the same rows (`headrace.state.rows`), so state moves from one to another row by
row: a backend adopts files of its own kind and copies the rows of all others. Which kind a source's
files are is said by the checkpoint (`KeyedStateHandle.backend`), never guessed from the files.

Called by the backends' factories at a restore, and by whoever reads state as data.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import IncompatibleStateError
from headrace.state.batches import row_batches
from headrace.state.rows import rows_of_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.keygroups import KeyGroupRange
    from headrace.state.contract import RestoreSource
    from headrace.state.storage import StateStorage

log = logging.getLogger(__name__)

ROCKSDB: Final = "rocksdb"
HASHMAP: Final = "hashmap"
CANONICAL: Final = "canonical"
"""What `KeyedStateHandle.backend` may be: native files of a backend, or canonical ones."""


class RowsInOrder(Protocol):
    """The sorted rows of one state; a `RowStore` is one."""

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows with ``start <= row < end`` in order.

        Raises:
            CorruptStateError: the rows cannot be read to the end.
        """
        ...


class StoredRows(Protocol):
    """All rows of a source, by state name; a `StateStorage` is one."""

    def rows(self, name: str) -> RowsInOrder:
        """Return the rows of a state of the source's schemas."""
        ...

    def close(self) -> None:
        """Let go of the files. Idempotent."""
        ...


def open_stored_rows(source: RestoreSource, scratch: Path) -> StoredRows:
    """Open frozen files to look at their rows; nothing is written into them.

    Args:
        source: what to read; says what its files are.
        scratch: a directory that does not exist, made if reading needs one; the caller removes it.

    Raises:
        CorruptStateError: the files cannot be opened.
        IncompatibleStateError: a newer release wrote them.
    """
    # Imported here so that nobody loads the native library or pyarrow who does not need it.
    match source.backend:
        case "rocksdb":
            from headrace.state.rocksdb.factory import RocksDBBackendFactory  # noqa: PLC0415

            return RocksDBBackendFactory().read(source, scratch)
        case "hashmap":
            from headrace.state.hashmap.factory import HashmapBackendFactory  # noqa: PLC0415

            return HashmapBackendFactory().read(source, scratch)
        case "canonical":
            from headrace.state.canonical import CanonicalStorage  # noqa: PLC0415

            return CanonicalStorage(source)
        case other:
            msg = (
                "stored state has a format that this release does not know, use the release that "
                f"wrote it or a newer one; format={other!r} known={[ROCKSDB, HASHMAP, CANONICAL]} "
                f"directory={source.directory}"
            )
            raise IncompatibleStateError(msg)


@dataclass(frozen=True, slots=True)
class SourcesByKind:
    """Sources of one restore: those a backend can adopt, and those whose rows it copies."""

    own: list[RestoreSource]
    foreign: list[RestoreSource]


def split_sources(sources: Sequence[RestoreSource], backend: str) -> SourcesByKind:
    """Tell the sources that ``backend`` wrote from all others."""
    split = SourcesByKind([], [])
    for source in sources:
        (split.own if source.backend in {None, backend} else split.foreign).append(source)
    return split


def copy_foreign_rows(
    sources: Sequence[RestoreSource],
    storage: StateStorage,
    key_groups: KeyGroupRange,
    scratch: Path,
) -> None:
    """Copy rows of ``key_groups`` from sources of other kinds; closes ``storage`` if that fails.

    Args:
        sources: files that the storage's backend did not write.
        storage: gets the rows.
        key_groups: what the backend owns.
        scratch: directory for what reading needs, which is removed again.

    Raises:
        CorruptStateError, IncompatibleStateError: a source cannot be read.
    """
    try:
        for index, source in enumerate(sources):
            kept = source.key_group_range.intersection(key_groups)
            if kept is None:
                continue
            _copy(source, storage, kept, scratch / f"foreign-{index}")
    except BaseException:
        storage.close()
        raise


def _copy(source: RestoreSource, storage: StateStorage, kept: KeyGroupRange, scratch: Path) -> None:
    stored = open_stored_rows(source, scratch)
    try:
        for schema in source.schemas:
            target = storage.rows(schema.name)
            for batch in row_batches(stored.rows(schema.name).scan(*rows_of_range(kept))):
                target.write(batch)
    finally:
        stored.close()
        shutil.rmtree(scratch, ignore_errors=True)
    log.info(
        "restored rows of another format format=%s key_groups=%s..%s states=%s",
        source.backend,
        kept.start,
        kept.end,
        [schema.name for schema in source.schemas],
    )
