"""Rows in dictionaries, by state and key group.

Rows are kept as bytes, so that both backends hold the same state to the byte and objects in memory
are bounded by the cache in front. Bounded by memory: every snapshot is a full one (C13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.state.contract import SnapshotFile
from headrace.state.hashmap.row_file import SUFFIX, write_row_file
from headrace.state.rows import key_group_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class HashmapRows:
    """`RowStore` in memory; ``size_bytes`` is the length of all rows and values."""

    def __init__(self) -> None:
        self._groups: dict[int, dict[bytes, bytes]] = {}
        self.size_bytes = 0

    def get(self, row: bytes) -> bytes | None:
        """Return the value of ``row``, None when it is not there."""
        group = self._groups.get(key_group_of(row))
        return None if group is None else group.get(row)

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put rows; None deletes."""
        for row, value in changes:
            group = self._groups.setdefault(key_group_of(row), {})
            old = group.pop(row, None) if value is None else group.get(row)
            if old is not None:
                self.size_bytes -= len(row) + len(old)
            if value is not None:
                group[row] = value
                self.size_bytes += len(row) + len(value)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield rows with ``start <= row < end`` in order."""
        first, last = key_group_of(start), key_group_of(end)
        for key_group in sorted(group for group in self._groups if first <= group <= last):
            rows = self._groups[key_group]
            for row in sorted(row for row in rows if start <= row < end):
                yield row, rows[row]

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))


class HashmapStorage:
    """`StateStorage` in memory."""

    def __init__(self) -> None:
        self._states: dict[str, HashmapRows] = {}

    def rows(self, name: str) -> HashmapRows:
        """Return the rows of a state, made on first use."""
        return self._states.setdefault(name, HashmapRows())

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
            "hashmap.entries": float(sum(map(len, self._states.values()))),
            "hashmap.bytes": float(sum(rows.size_bytes for rows in self._states.values())),
        }

    def close(self) -> None:
        """Let go of the rows. Idempotent."""
        self._states = {}
