"""Rows in one RocksDB database: a column family for each state, no write-ahead log.

The column family's name is the state's (C6). Used by the slot's main thread; RocksDB flushes and
compacts in its own threads.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from rocksdict import AccessType, Checkpoint, Rdict, ReadOptions, WriteBatch

from headrace.errors import InternalError
from headrace.state.contract import SnapshotFile
from headrace.state.rocksdb.errors import reading_stored_files, translate, translating
from headrace.state.rocksdb.options import without_wal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from rocksdict import ColumnFamily

    from headrace.clock import Clock
    from headrace.state.rocksdb.options import DatabaseOptions

DEFAULT_COLUMN_FAMILY: Final = "default"
"""Always there; holds rows only if a state has this name."""

MEMTABLES_MIN: Final = 1 << 20
"""Least common bound of memtables; below it every write would wait for the disk."""

_MEMTABLES: Final = "rocksdb.cur-size-all-mem-tables"

_WORKING: Final = (
    "rocksdb.num-running-flushes",
    "rocksdb.num-running-compactions",
    "rocksdb.compaction-pending",
)

SETTLE_POLL_S: Final = 0.02

_SUMMED: Final = {
    "rocksdb.actual-delayed-write-rate": False,
    _MEMTABLES: True,
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
        self._handle: ColumnFamily | None = handle
        self._get = family.get
        self._batch_bytes = database.batch_bytes

    def get(self, row: bytes) -> bytes | None:
        """Return the value of ``row``, None when it is not there."""
        try:
            value: bytes | None = self._get(row)
        except Exception as error:
            raise translate(error, "reading state failed", self._database.path) from error
        return value

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put rows; None deletes."""
        batch, size = WriteBatch(raw_mode=True), 0
        handle = self._handle
        for row, value in changes:
            if value is None:
                batch.delete(row, handle)
                size += len(row)
            else:
                batch.put(row, value, handle)
                size += len(row) + len(value)
            if size >= self._batch_bytes:
                self._database.write(batch)
                batch, size = WriteBatch(raw_mode=True), 0
        if not batch.is_empty():
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

    def flush(self) -> None:
        """Write the memtable out and wait for it."""
        self._family.flush(wait=True)

    def compact(self) -> None:
        """Rewrite all files of the column family."""
        with translating("compaction failed", self._database.path):
            self._family.compact_range(None, None)

    def close(self) -> None:
        """Let go of the column family: a handle left alive would keep the whole database open."""
        self._handle = None
        self._family.close()


class RocksDBStorage:
    """`StateStorage` in a database directory."""

    full_snapshots: Final = False

    def __init__(self, path: Path, options: DatabaseOptions, *, read_only: bool = False) -> None:
        """Open the database in ``path``, new or adopted.

        Args:
            path: RocksDB's directory; its files belong to this object alone.
            options: of the database and its column families.
            read_only: only scan it: no background work, and no file is deleted.

        Raises:
            CorruptStateError: adopted files cannot be opened.
        """
        self.path = path
        self._options = options
        bound = options.settings.memtables_bytes
        self._memtables_bytes = sys.maxsize if bound is None else max(bound, MEMTABLES_MIN)
        self.batch_bytes = min(options.settings.write_batch_bytes, self._memtables_bytes // 8)
        existing = path.exists()
        path.mkdir(parents=True, exist_ok=True)
        with reading_stored_files(path):
            families = Rdict.list_cf(str(path), options.build()) if existing else []
            self._database = Rdict(
                str(path),
                options.build(),
                {name: options.build() for name in families},
                AccessType.read_only(False) if read_only else AccessType.read_write(),
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
        """Write a batch, waiting for the disk when memtables are over their bound.

        RocksDB itself starts to flush near the bound but never waits for it, so writing faster than
        the disk would take any amount of memory.
        """
        with translating("writing state failed", self.path):
            self._database.write(batch, self._write_options)
            manager = self._options.write_buffer_manager
            if manager is not None and manager.get_usage() > self._memtables_bytes:
                self._shrink_memtables()

    def _shrink_memtables(self) -> None:
        """Flush the largest memtable, unless all are small and only many."""
        sizes = {name: rows.gauge(_MEMTABLES) for name, rows in self._rows.items()}
        largest = max(sizes, key=lambda name: sizes[name])
        # A memtable holds at least one block of its arena: flushing such a one frees nothing.
        if sizes[largest] > 2 * self._options.settings.arena_block_bytes:
            self._rows[largest].flush()

    def settle(self, clock: Clock, timeout_s: float) -> bool:
        """Write out the memtables and wait until RocksDB's threads have nothing to do.

        What they do after a restore competes with the first epochs for processors and, at worst,
        holds writes up. Returns False when it takes longer than ``timeout_s`` seconds.
        """
        with translating("writing state failed", self.path):
            for rows in self._rows.values():
                rows.flush()
        never, deadline_s = threading.Event(), clock.monotonic_s() + timeout_s
        while any(rows.gauge(name) for rows in self._rows.values() for name in _WORKING):
            if clock.monotonic_s() > deadline_s:
                return False
            clock.wait(never, SETTLE_POLL_S)
        return True

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
