"""Removal of what has expired and is never accessed again (B15).

Between epochs a purge looks at some stored rows, in their order, round and round, and deletes the
expired ones. So it takes a small, steady part of the time and no memory, and an entry that has
expired is gone after one more round. It stands in for Flink's compaction filter, which RocksDB's
Python binding does not have, and for the heap backend's incremental clean-up.

Only rows are looked at. What the cache holds is newer or the same: when it is newer, the row is
written again by the next flush; when it is the same, it has expired there too.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from headrace.state.list_rows import array as array_of
from headrace.state.list_rows import frames, parse_tail
from headrace.state.rows import parse_state_row, rows_of_range
from headrace.state.ttl import stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.keygroups import KeyGroupRange
    from headrace.state.access import TimeToLive
    from headrace.state.storage import RowStore
    from headrace.state.ttl import Expiry

ROWS_PER_MS: Final = 10
"""Stored rows looked at for each millisecond between two purges. A row takes about 1 µs, so this is
one percent of the time, and ten million rows are looked at in seventeen minutes."""

ROWS_MIN: Final = 128
ROWS_MAX: Final = 20_000
"""Bounds of the background part of one purge: 20 ms at most."""

Row = tuple[bytes, bytes]


class Purge:
    """The round of one state.

    Args:
        store: the state's rows.
        key_groups: what to look at.
        ttl: when entries expire and how much to look at.
        expiry: the same on a clock; counts accesses.
        lists: whether the rows are a list state's.
    """

    def __init__(
        self,
        store: RowStore,
        key_groups: KeyGroupRange,
        ttl: TimeToLive,
        expiry: Expiry,
        *,
        lists: bool,
    ) -> None:
        self._store = store
        self._start, self._end = rows_of_range(key_groups)
        self._ttl = ttl
        self._expiry = expiry
        self._lists = lists
        self._next = self._start
        self.removed = 0

    def run(self, now_ms: int, elapsed_ms: int) -> None:
        """Look at a part of the rows and delete the expired ones.

        Args:
            now_ms: time by the state's clock.
            elapsed_ms: since the last call.
        """
        rows_max = self._ttl.purge_per_access * self._expiry.accesses
        self._expiry.accesses = 0
        if self._ttl.purge_in_background:
            rows_max += min(ROWS_MAX, max(ROWS_MIN, ROWS_PER_MS * elapsed_ms))
        if rows_max:
            self._look(now_ms, rows_max)

    def run_whole(self, now_ms: int) -> None:
        """Look at all rows and delete the expired ones."""
        self._next = self._start
        self._look(now_ms, None)

    def _look(self, now_ms: int, rows_max: int | None) -> None:
        rows = self._store.scan(self._next, self._end)
        expired: list[bytes] = []
        seen = 0
        self._next = self._start
        for group in self._groups(rows):
            if rows_max is not None and seen >= rows_max:
                self._next = group[0][0]
                break
            seen += len(group)
            if self._lists:
                expired += self._expired_of_list(group, now_ms)
            elif self._has_expired(group[0][1], now_ms):
                expired.append(group[0][0])
        if expired:
            self._store.write([(row, None) for row in expired])
            self.removed += len(expired)

    def _groups(self, rows: Iterator[Row]) -> Iterator[list[Row]]:
        """Yield the rows that are judged together: all of a list, else one at a time."""
        if not self._lists:
            return ([row] for row in rows)
        return (list(group) for _, group in itertools.groupby(rows, _list_of))

    def _has_expired(self, stamped: bytes, now_ms: int) -> bool:
        return self._expiry.expired(stamp_of(stamped), now_ms)

    def _expired_of_list(self, group: list[Row], now_ms: int) -> list[bytes]:
        """Return the rows of a list in which every element has expired.

        The tail's row counts the chunks, so it goes only when all others do.
        """
        (tail, value), *chunks = group
        expired = [row for row, chunk in chunks if self._all_expired(chunk, now_ms)]
        _, count, items = parse_tail(value)
        if len(expired) == len(chunks) and (
            not count or self._all_expired(array_of(count, items), now_ms)
        ):
            expired.append(tail)
        return expired

    def _all_expired(self, array: bytes, now_ms: int) -> bool:
        return all(self._has_expired(frame, now_ms) for frame in reversed(frames(array)))


def _list_of(row: Row) -> bytes:
    """Return what all rows of a list begin with."""
    _, _, _, user_key = parse_state_row(row[0])
    return row[0][: len(row[0]) - len(user_key)]
