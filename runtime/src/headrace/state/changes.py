"""What changed in a backend's rows since a snapshot: the delta that a live rescale hands over.

New owners of key groups are built from a completed checkpoint while the job goes on; at the switch
they only need what was written since (DESIGN 8, like the pre-copy migration of Clark et al., "Live
Migration of Virtual Machines", NSDI 2005). Every write of a backend passes `TrackedStorage`, which
costs one comparison a batch while nobody tracks.

A change log is bounded in bytes. One that overflows is given up, not cut: the new owners then
restore the whole state, which is slower and just as right.

The file of changes, in the order in which they were made::

    "HRCHNG01" ( <length:u32 BE> <msgpack block> )* <0:u32> <number of blocks:u32>
    block = [0, state name, [[row, value or nil], ...]]  puts and deletions
          | [1, state name, start, end]                  rows with start <= row < end are gone

It lives for the length of a switch and is not part of any checkpoint.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.errors import CorruptStateError, LocalStorageError
from headrace.state.rows import rows_of_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from headrace.keygroups import KeyGroupRange
    from headrace.state.contract import SnapshotFile
    from headrace.state.storage import RowStore, StateStorage

MAGIC: Final = b"HRCHNG01"
ROWS_IN_BLOCK: Final = 8192

_LENGTH: Final = struct.Struct(">I")
_ENTRY_OVERHEAD_BYTES: Final = 150
"""Of one change in memory, beyond its bytes: two objects and a place in a dictionary."""


class RowsChanged(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """Rows that were put, or deleted where the value is None."""

    state: str
    rows: list[tuple[bytes, bytes | None]]


class RangeDeleted(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """Rows with ``start <= row < end`` that are gone."""

    state: str
    start: bytes
    end: bytes


Rows = dict[bytes, bytes | None]


class ChangeLog:
    """Changes since the log was made, in order; one backend's, used by its thread."""

    def __init__(self, limit_bytes: int) -> None:
        """Create an empty log.

        Args:
            limit_bytes: estimated memory at which the log is given up.
        """
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._steps: list[tuple[str, Rows] | RangeDeleted] = []
        self._open: dict[str, Rows] = {}
        self.overflown = False
        """Whether it was given up: it holds nothing then."""

    def put(self, state: str, row: bytes, value: bytes | None) -> None:
        """Note one change; of two changes of a row the later one counts."""
        rows = self._open.get(state)
        if rows is None:
            rows = self._open[state] = {}
            self._steps.append((state, rows))
        if row not in rows:
            self._add_bytes(len(row) + _ENTRY_OVERHEAD_BYTES)
        self._add_bytes(len(value) if value is not None else 0)
        if not self.overflown:
            rows[row] = value

    def delete_range(self, state: str, start: bytes, end: bytes) -> None:
        """Note that the rows from ``start`` up to but without ``end`` are gone."""
        self._open.pop(state, None)
        self._add_bytes(len(start) + len(end) + _ENTRY_OVERHEAD_BYTES)
        if not self.overflown:
            self._steps.append(RangeDeleted(state, start, end))

    def write(self, path: Path) -> int:
        """Write everything into the file ``path``; returns its size in bytes.

        Raises:
            LocalStorageError: the file cannot be written.
        """
        blocks = 0
        try:
            with path.open("xb") as file:
                file.write(MAGIC)
                for block in self._blocks():
                    file.write(_LENGTH.pack(len(block)) + block)
                    blocks += 1
                file.write(_LENGTH.pack(0) + _LENGTH.pack(blocks))
                return file.tell()
        except OSError as error:
            msg = f"changes of state could not be written: {error.strerror}; file={path}"
            raise LocalStorageError(msg) from error

    def _blocks(self) -> Iterator[bytes]:
        encode = msgspec.msgpack.Encoder().encode
        for step in self._steps:
            if isinstance(step, RangeDeleted):
                yield encode(step)
                continue
            state, rows = step
            # In order of rows, which is the order in which a database likes them best.
            items = sorted(rows.items())
            for first in range(0, len(items), ROWS_IN_BLOCK):
                yield encode(RowsChanged(state, items[first : first + ROWS_IN_BLOCK]))

    def _add_bytes(self, count: int) -> None:
        self._bytes += count
        if self._bytes > self._limit_bytes and not self.overflown:
            self.overflown = True
            self._steps = []
            self._open = {}


class TrackedStorage:
    """`StateStorage` that can keep a log of what is written through it."""

    def __init__(self, storage: StateStorage) -> None:
        self._storage = storage
        self._rows: dict[str, TrackedRows] = {}
        self.log: ChangeLog | None = None
        """Where changes go, None while nobody tracks."""

    @property
    def full_snapshots(self) -> bool:
        """Whether `freeze` writes all rows every time."""
        return self._storage.full_snapshots

    def rows(self, name: str) -> TrackedRows:
        """Return the rows of a state, made on first use."""
        found = self._rows.get(name)
        if found is None:
            found = self._rows[name] = TrackedRows(name, self._storage.rows(name), self)
        return found

    def drop(self, name: str) -> None:
        """Remove a state with all its rows; happens before anybody tracks."""
        self._rows.pop(name, None)
        self._storage.drop(name)

    def freeze(self, directory: Path) -> tuple[SnapshotFile, ...]:
        """Put a frozen copy of all rows into ``directory``."""
        return self._storage.freeze(directory)

    def metrics(self) -> dict[str, float]:
        """Return gauges by Flink's names."""
        return self._storage.metrics()

    def close(self) -> None:
        """Release native resources. Idempotent."""
        self._storage.close()


class TrackedRows:
    """`RowStore` whose writes are noted while its storage tracks."""

    def __init__(self, name: str, rows: RowStore, storage: TrackedStorage) -> None:
        self._name = name
        self._inner = rows
        self._storage = storage
        self.get = rows.get
        self.scan = rows.scan

    def write(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Put rows; None deletes."""
        log = self._storage.log
        self._inner.write(changes if log is None else self._noted(changes, log))

    def delete_range(self, start: bytes, end: bytes) -> None:
        """Delete all rows with ``start <= row < end``."""
        log = self._storage.log
        if log is not None:
            log.delete_range(self._name, start, end)
        self._inner.delete_range(start, end)

    def _noted(
        self, changes: Iterable[tuple[bytes, bytes | None]], log: ChangeLog
    ) -> Iterator[tuple[bytes, bytes | None]]:
        name, put = self._name, log.put
        for row, value in changes:
            put(name, row, value)
            yield row, value


def apply_changes(path: Path, storage: StateStorage, key_groups: KeyGroupRange) -> int:
    """Apply a file of changes to a storage; returns the number of rows changed.

    Args:
        path: the file.
        storage: holds the state that the changes begin at.
        key_groups: changes of other key groups are left out.

    Raises:
        CorruptStateError: the file is cut or of another format; the storage is of no use then.
    """
    first, end = rows_of_range(key_groups)
    changed = 0
    for block in _read_blocks(path):
        rows = storage.rows(block.state)
        if isinstance(block, RangeDeleted):
            low, high = max(block.start, first), min(block.end, end)
            if low < high:
                rows.delete_range(low, high)
            continue
        kept = [item for item in block.rows if first <= item[0] < end]
        if kept:
            rows.write(kept)
        changed += len(kept)
    return changed


def _read_blocks(path: Path) -> Iterator[RowsChanged | RangeDeleted]:
    decode = msgspec.msgpack.Decoder(RowsChanged | RangeDeleted).decode
    blocks = 0
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise _corrupt(path, "not a file of changes")
            while (length := _LENGTH.unpack(file.read(_LENGTH.size))[0]) > 0:
                yield decode(file.read(length))
                blocks += 1
            (expected,) = _LENGTH.unpack(file.read(_LENGTH.size))
    except (struct.error, msgspec.MsgspecError) as error:
        raise _corrupt(path, "cut short") from error
    except OSError as error:
        raise _corrupt(path, error.strerror or "unreadable") from error
    if expected != blocks:
        raise _corrupt(path, "cut short")


def _corrupt(path: Path, reason: str) -> CorruptStateError:
    msg = f"changes of state cannot be read, the rescale starts again: {reason}; file={path}"
    return CorruptStateError(msg)
