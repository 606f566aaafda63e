"""Rows in one RocksDB database: a column family for each state, no write-ahead log.

The column family's name is the state's (C6). Used by the slot's main thread; RocksDB flushes and
compacts in its own threads.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from rocksdict import Checkpoint, Rdict, ReadOptions, WriteBatch

from headrace.errors import InternalError
from headrace.state.contract import SnapshotFile
from headrace.state.rocksdb.errors import reading_stored_files, translate, translating
from headrace.state.rocksdb.options import without_wal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rocksdict import ColumnFamily

    from headrace.state.rocksdb.options import DatabaseOptions

DEFAULT_COLUMN_FAMILY: Final = "default"
"""Always there; holds rows only if a state has this name."""

BATCH_ROWS: Final = 32768
"""Rows of one write batch; bounds the memory of a flush."""

_SUMMED: Final = {
    "rocksdb.actual-delayed-write-rate": False,
    "rocksdb.cur-size-all-mem-tables": True,
    "rocksdb.estimate-live-data-size": True,
    "rocksdb.estimate-num-keys": True,
    "rocksdb.estimate-pending-compaction-bytes": True,
    "rocksdb.is-write-stopped": False,
    "rocksdb.num-running-compactions": False,
    "rocksdb.num-running-flushes": False,
    "rocksdb.total-sst-files-size": True,
}
"""Gauges by Flink's names, and whether they are summed over column families (else the greatest)."""


class RocksDBRows:
    """`RowStore` over one column family."""

    def __init__(self, database: RocksDBStorage, family: Rdict, handle: ColumnFamily) -> None:
        self._database = database
        self._family = family
        self._handle = handle
        self._get = family.get

    def get(self, row: bytes) -> bytes | None:
        """Return the value of ``row``, None when it is not there."""
        try:
            value: bytes | None = self._get(row)
        except Exception as error:
            raise translate(error, "reading state failed", self._database.path) from error
        return value

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put rows; None deletes."""
        batch = WriteBatch(raw_mode=True)
        batch.set_default_column_family(self._handle)
        rows = 0
        for row, value in changes:
            if value is None:
                batch.delete(row, self._handle)
            else:
                batch[row] = value
            rows += 1
            if rows == BATCH_ROWS:
                self._database.write(batch)
                batch = WriteBatch(raw_mode=True)
                batch.set_default_column_family(self._handle)
                rows = 0
        if rows:
            self._database.write(batch)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows with ``start <= row < end`` in order."""
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(end)
        with translating("reading state failed", self._database.path):
            # Not `items()`: that ends without a word where a block is corrupt.
            cursor = self._family.iter(bounds)
            cursor.seek(start)
            while cursor.valid():
                yield cursor.key(), cursor.value()
                cursor.next()
            cursor.status()

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Delete rows with ``start <= row < end``: invisible at once, gone with compaction."""
        with translating("deleting rows failed", self._database.path):
            self._family.delete_range(start, end)

    def gauge(self, name: str) -> float:
        """Return one of RocksDB's integer properties, 0 when it has none of this name."""
        return float(self._family.property_int_value(name) or 0)

    def compact(self) -> None:
        """Rewrite all files of the column family."""
        with translating("compaction failed", self._database.path):
            self._family.compact_range(None, None)

    def close(self) -> None:
        """Let go of the column family."""
        self._family.close()


class RocksDBStorage:
    """`StateStorage` in a database directory."""

    def __init__(self, path: Path, options: DatabaseOptions) -> None:
        """Open the database in ``path``, new or adopted.

        Args:
            path: RocksDB's directory; its files belong to this object alone.
            options: of the database and its column families.

        Raises:
            CorruptStateError: adopted files cannot be opened.
        """
        self.path = path
        self._options = options
        existing = path.exists()
        path.mkdir(parents=True, exist_ok=True)
        with reading_stored_files(path):
            families = Rdict.list_cf(str(path), options.build()) if existing else []
            self._database = Rdict(
                str(path), options.build(), {name: options.build() for name in families}
            )
        self._write_options = without_wal()
        self._rows: dict[str, RocksDBRows] = {}
        for name in families:
            self._attach(name, self._database.get_column_family(name))
        self._closed = False

    @property
    def families(self) -> list[str]:
        """Names of the column families that a state may have rows in, sorted."""
        return sorted(self._rows)

    def rows(self, name: str) -> RocksDBRows:
        """Return the rows of a state, made on first use."""
        if name not in self._rows:
            with translating("creating a column family failed", self.path):
                family = (
                    self._database.get_column_family(name)
                    if name == DEFAULT_COLUMN_FAMILY
                    else self._database.create_column_family(name, self._options.build())
                )
            self._attach(name, family)
        return self._rows[name]

    def drop(self, name: str) -> None:
        """Remove a state with all its rows."""
        rows = self._rows.pop(name, None)
        if rows is None:
            return
        with translating("dropping a column family failed", self.path):
            if name == DEFAULT_COLUMN_FAMILY:
                rows.delete_range(b"", b"\xff\xff")
                return
            rows.close()
            self._database.drop_column_family(name)

    def write(self, batch: WriteBatch) -> None:
        """Write a batch."""
        try:
            self._database.write(batch, self._write_options)
        except Exception as error:
            raise translate(error, "writing state failed", self.path) from error

    def freeze(self, directory: Path) -> tuple[SnapshotFile, ...]:
        """Put hard links of all files into ``directory``, after writing out the memtables."""
        directory.parent.mkdir(parents=True, exist_ok=True)
        with translating("freezing state failed", self.path):
            Checkpoint(self._database).create_checkpoint(str(directory))
        files = []
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            size = entry.stat().st_size
            if entry.name.endswith(".log"):
                if size:
                    msg = f"state reached the write-ahead log, which is off; file={entry.path}"
                    raise InternalError(msg)
                (directory / entry.name).unlink()
                continue
            shareable = entry.name.endswith(".sst")
            files.append(SnapshotFile(entry.name, directory / entry.name, size, shareable))
        return tuple(files)

    def metrics(self) -> dict[str, float]:
        """Return gauges by Flink's names, over all column families."""
        gauges = {
            "rocksdb.block-cache-capacity": float(self._options.settings.block_cache_bytes),
            "rocksdb.block-cache-usage": float(self._options.block_cache.get_usage()),
            "rocksdb.block-cache-pinned-usage": float(self._options.block_cache.get_pinned_usage()),
        }
        if self._options.write_buffer_manager is not None:
            usage = self._options.write_buffer_manager.get_usage()
            gauges["rocksdb.write-buffer-manager-usage"] = float(usage)
        for name, is_sum in _SUMMED.items():
            values = [rows.gauge(name) for rows in self._rows.values()]
            gauges[name] = sum(values) if is_sum else max(values, default=0.0)
        return gauges

    def close(self) -> None:
        """Close the database. Idempotent."""
        if self._closed:
            return
        self._closed = True
        with translating("closing the database failed", self.path):
            for rows in self._rows.values():
                rows.close()
            self._database.close()

    def _attach(self, name: str, family: Rdict) -> None:
        family.set_write_options(self._write_options)
        handle = self._database.get_column_family_handle(name)
        self._rows[name] = RocksDBRows(self, family, handle)
