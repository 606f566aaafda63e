"""Rows in dictionaries, by state and key group.

Rows are kept as bytes, so that both backends hold the same state to the byte and objects in memory
are bounded by the cache in front. Every snapshot is a full one (C13), and the state must fit its
memory: it warns on the way there and then fails with a message, before the system kills it (C14).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.errors import InvalidConfigError
from headrace.state.contract import SnapshotFile
from headrace.state.hashmap.row_file import SUFFIX, write_row_file
from headrace.state.hashmap.sortable_rows import SortableRows
from headrace.state.rows import key_group_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

log = logging.getLogger(__name__)

_ROW_BYTES: Final = 170
"""What a row takes beside its bytes: two bytes objects (33 each) and a dictionary slot (100)."""

_WARN_AT: Final = 0.8
"""Part of the limit at which the log begins to warn."""


class HashmapRows:
    """`RowStore` in memory; ``size_bytes`` is the length of all rows and values."""

    def __init__(self, storage: HashmapStorage) -> None:
        self._storage = storage
        self._groups: dict[int, SortableRows] = {}
        self.size_bytes = 0
        self.entries = 0

    def get(self, row: bytes) -> bytes | None:
        """Return the value of ``row``, None when it is not there."""
        group = self._groups.get(key_group_of(row))
        return None if group is None else group.values.get(row)

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put rows; None deletes."""
        groups = self._groups
        for row, value in changes:
            key_group = key_group_of(row)
            group = groups.get(key_group)
            if group is None:
                group = groups[key_group] = SortableRows()
            if value is None:
                old = group.remove(row)
            else:
                old = group.put(row, value)
                self.size_bytes += len(row) + len(value)
                self.entries += 1
            if old is not None:
                self.size_bytes -= len(row) + len(old)
                self.entries -= 1
        self._storage.check_limit()

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Delete all rows with ``start <= row < end``."""
        self.write([(row, None) for row, _ in self.scan(start, end)])

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows with ``start <= row < end`` in order."""
        first, last = key_group_of(start), key_group_of(end)
        if first == last:
            if first in self._groups:
                yield from self._groups[first].scan(start, end)
            return
        for key_group in sorted(group for group in self._groups if first <= group <= last):
            rows = self._groups[key_group].values
            for row in sorted(row for row in rows if start <= row < end):
                yield row, rows[row]


class HashmapStorage:
    """`StateStorage` in memory.

    Args:
        limit_bytes: what all rows may take together, estimated.
        owner: the operator's uid, for messages.
    """

    full_snapshots: Final = True

    def __init__(self, limit_bytes: int, owner: str) -> None:
        self._limit_bytes = limit_bytes
        self._owner = owner
        self._warned = False
        self._states: dict[str, HashmapRows] = {}

    def check_limit(self) -> None:
        """Warn near the limit, once, and fail behind it.

        Raises:
            InvalidConfigError: the state has outgrown this backend.
        """
        size = self.estimated_bytes
        if size > self._limit_bytes:
            msg = (
                "state has outgrown the in-memory backend, use state.backend.type rocksdb or give "
                f"the slot more managed memory; operator={self._owner} "
                f"state_bytes={size} limit_bytes={self._limit_bytes}"
            )
            raise InvalidConfigError(msg)
        if size > _WARN_AT * self._limit_bytes and not self._warned:
            self._warned = True
            log.warning(
                "in-memory state nears its limit operator=%s state_bytes=%s limit_bytes=%s",
                self._owner,
                size,
                self._limit_bytes,
            )

    @property
    def estimated_bytes(self) -> int:
        """Estimated memory of all rows."""
        return sum(rows.size_bytes + _ROW_BYTES * rows.entries for rows in self._states.values())

    def rows(self, name: str) -> HashmapRows:
        """Return the rows of a state, made on first use."""
        if name not in self._states:
            self._states[name] = HashmapRows(self)
        return self._states[name]

    def drop(self, name: str) -> None:
        """Remove a state with all its rows."""
        self._states.pop(name, None)

    def freeze(self, directory: Path) -> tuple[SnapshotFile, ...]:
        """Write one file of rows for each state."""
        directory.mkdir(parents=True)
        files = []
        for index, name in enumerate(sorted(self._states)):
            path = directory / f"{index:04d}{SUFFIX}"
            size = write_row_file(path, name, self._states[name].scan(b"\x00\x00", b"\xff\xff"))
            files.append(SnapshotFile(path.name, path, size, shareable=False))
        return tuple(files)

    def metrics(self) -> dict[str, float]:
        """Return how much there is."""
        return {
            "hashmap.entries": float(sum(rows.entries for rows in self._states.values())),
            "hashmap.limit-bytes": float(self._limit_bytes),
            "hashmap.bytes": float(sum(rows.size_bytes for rows in self._states.values())),
        }

    def close(self) -> None:
        """Let go of the rows. Idempotent."""
        self._states = {}
