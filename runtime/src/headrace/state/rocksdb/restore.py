"""Building a database from stored files: adopt, cut, merge (F2, D22).

The files of the largest source are hard-linked into the new database directory; what lies outside
the backend's key groups is deleted by range, which is invisible at once and gone with compaction.
Rows of further sources are read through a linked copy and written in batches. Sources are only
read: RocksDB rewrites MANIFEST, CURRENT and LOG when it opens a directory, so those are copied.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from typing import TYPE_CHECKING

from headrace.errors import CorruptStateError
from headrace.state.rocksdb.errors import reading_stored_files
from headrace.state.rocksdb.storage import RocksDBStorage
from headrace.state.rows import END_OF_ROWS, rows_of_range

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.keygroups import KeyGroupRange
    from headrace.state.contract import RestoreSource
    from headrace.state.rocksdb.options import DatabaseOptions

log = logging.getLogger(__name__)


def open_storage(
    directory: Path,
    options: DatabaseOptions,
    key_groups: KeyGroupRange,
    sources: Sequence[RestoreSource],
) -> RocksDBStorage:
    """Open a database with the rows of ``sources`` that fall into ``key_groups``.

    Args:
        directory: working directory; ``db`` is made below it.
        options: of the database.
        key_groups: what the backend owns.
        sources: may overlap ``key_groups`` partly, never each other.

    Raises:
        CorruptStateError: a source's files cannot be opened or read.
    """
    wanted = [source for source in sources if source.key_group_range.intersection(key_groups)]
    if not wanted:
        return RocksDBStorage(directory / "db", options)
    base = max(wanted, key=lambda source: _size_bytes(source.directory))
    link_database(base.directory, directory / "db")
    storage = RocksDBStorage(directory / "db", options)
    try:
        _check_complete(base, storage)
        cut(storage, base.key_group_range, key_groups)
        for index, source in enumerate(wanted):
            if source is not base:
                _merge(source, directory / f"restore-{index}", options, key_groups, storage)
    except BaseException:
        storage.close()
        raise
    return storage


def open_for_reading(
    source: RestoreSource, scratch: Path, options: DatabaseOptions
) -> RocksDBStorage:
    """Open a copy of frozen files, made of links in ``scratch``, to look at their rows.

    Raises:
        CorruptStateError: they cannot be opened.
    """
    link_database(source.directory, scratch)
    storage = RocksDBStorage(scratch, options, read_only=True)
    try:
        _check_complete(source, storage)
    except BaseException:
        storage.close()
        raise
    return storage


def link_database(source: Path, target: Path) -> None:
    """Make ``target`` a database directory with the frozen files of ``source``.

    Raises:
        CorruptStateError: ``source`` holds no database.
    """
    if not (source / "CURRENT").exists():
        msg = f"stored state has no CURRENT file, restore another checkpoint; directory={source}"
        raise CorruptStateError(msg)
    target.mkdir(parents=True)
    for entry in os.scandir(source):
        if entry.name in {"LOCK", "LOG", "IDENTITY"} or entry.name.startswith("LOG.old"):
            continue
        if entry.name.endswith(".sst"):
            _link(entry.path, target / entry.name)
        else:
            shutil.copyfile(entry.path, target / entry.name)


def cut(storage: RocksDBStorage, held: KeyGroupRange, key_groups: KeyGroupRange) -> None:
    """Delete every row of an adopted database that the backend does not own.

    Args:
        storage: the adopted database.
        held: key groups that it may hold rows of.
        key_groups: what the backend owns.
    """
    kept = held.intersection(key_groups)
    if kept is None or kept == held:
        return
    start, end = rows_of_range(kept)
    for name in storage.families:
        rows = storage.rows(name)
        if kept.start > held.start:
            rows.delete_range(b"", start)
        if kept.end < held.end:
            rows.delete_range(end, END_OF_ROWS)


def _merge(
    source: RestoreSource,
    scratch: Path,
    options: DatabaseOptions,
    key_groups: KeyGroupRange,
    storage: RocksDBStorage,
) -> None:
    """Copy the wanted rows of one source into ``storage``."""
    kept = source.key_group_range.intersection(key_groups)
    if kept is None:
        return
    start, end = rows_of_range(kept)
    other = open_for_reading(source, scratch, options)
    try:
        for name in other.families:
            with reading_stored_files(source.directory):
                storage.rows(name).write(other.rows(name).scan(start, end))
    finally:
        other.close()
        shutil.rmtree(scratch)


def _check_complete(source: RestoreSource, storage: RocksDBStorage) -> None:
    missing = {schema.name for schema in source.schemas} - set(storage.families)
    if missing:
        msg = (
            "stored state lacks column families, restore another checkpoint; "
            f"states={sorted(missing)} directory={source.directory}"
        )
        raise CorruptStateError(msg)


def _size_bytes(directory: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory) if entry.is_file())


def _link(source: str, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # Another file system, e.g. a snapshot kept on a network volume.
        log.info("copying a file that cannot be linked source=%s", source)
        shutil.copyfile(source, target)
