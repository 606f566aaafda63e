"""Timers kept in rows, fired in time order over all key groups, bounded in memory (B16, T8).

A timer is a row ``<key group><time><key><namespace>`` (`headrace.state.rows`), so equal timers are
one and a key group's timers move with it. On top of the rows:

- ``_pending``: registrations and deletions not yet written; written when it is full or on a flush.
- for each key group a *head*: all its timers before the row ``resume``, sorted, at most a few
  hundred. What is not before ``resume`` is only in rows and ``_pending``. A head that holds all
  timers of its key group has ``resume`` at the key group's end.
- ``_queue``: a heap of (time, key group) of the heads' first timers; entries go stale when a head
  changes and are skipped.

So an epoch in which nothing is due costs one comparison, and one in which timers fire reads rows in
chunks. Order: time, key group, key bytes, namespace; the same in every run.

Source: Flink's ``KeyGroupPartitionedPriorityQueue`` over ``RocksDBCachingPriorityQueueSet``.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
from typing import TYPE_CHECKING, Final

from headrace.keygroups import KeyGroupRange
from headrace.state.contract import Timer
from headrace.state.rows import parse_timer_row, rows_of_range, sort_time, sort_time_of, timer_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.ids import KeyGroup
    from headrace.state.owned_rows import OwnedRows

HEADS_MAX: Final = 32768
"""Timers held in all heads together (about 200 bytes each, so 6 MiB for one time domain)."""

HEAD_MIN: Final = 4
HEAD_MAX: Final = 256
"""Bounds of one key group's head: a refill reads as many rows."""

PENDING_MAX: Final = 16384
"""Unwritten changes; more are written at once."""

_NEW: Final = 2
_PUT: Final = 1
_DELETE: Final = 0
"""Pending changes. A new row is known not to be stored, so deleting it needs no tombstone."""

TIME_MIN_MS: Final = -(1 << 63)
TIME_MAX_MS: Final = (1 << 63) - 1


class _Head:
    """The earliest timers of one key group: its rows before ``resume``, sorted.

    Reading on from ``resume`` also skips the tombstones of timers that have fired.
    """

    __slots__ = ("end", "key_group", "resume", "rows")

    def __init__(self, key_group: KeyGroup) -> None:
        start, self.end = rows_of_range(KeyGroupRange(key_group, key_group))
        self.key_group = key_group
        self.resume = start
        self.rows: list[bytes] = []


class StoredTimerQueue:
    """`TimerQueue` over a `RowStore`."""

    def __init__(self, rows: OwnedRows) -> None:
        self._owned = rows
        self._context = rows.context
        self._rows = rows.store
        self._key_serializer = rows.key_serializer
        self._key_groups = rows.key_groups
        self._pending: dict[bytes, int] = {}
        self._head_max = max(HEAD_MIN, min(HEAD_MAX, HEADS_MAX // len(self._key_groups)))
        self._heads = {key_group: _Head(key_group) for key_group in self._key_groups}
        self._queue: list[tuple[bytes, KeyGroup]] = []
        self._queue_max = 4 * len(self._heads) + 1024
        self._load()

    def register(self, timestamp_ms: int) -> None:
        """Register a timer for the current key; a second equal one changes nothing.

        Raises:
            ValueError: the time does not fit 64 bits.
        """
        row = self._row(timestamp_ms)
        head = self._heads[self._context.key_group]
        if row >= head.resume:
            # Whether the row is stored already is not known, and need not be.
            self._pend(row, _PUT)
            return
        rows = head.rows
        at = bisect.bisect_left(rows, row)
        if at < len(rows) and rows[at] == row:
            return
        rows.insert(at, row)
        # The head lacked it, so the row is new, unless its deletion is still pending.
        self._pend(row, _PUT if row in self._pending else _NEW)
        if len(rows) > self._head_max:
            head.resume = rows.pop()
        if at == 0:
            self._enqueue(head)

    def delete(self, timestamp_ms: int) -> None:
        """Delete the current key's timer at this time if there is one.

        Raises:
            ValueError: the time does not fit 64 bits.
        """
        row = self._row(timestamp_ms)
        head = self._heads[self._context.key_group]
        if row >= head.resume:
            self._forget(row)
            return
        at = bisect.bisect_left(head.rows, row)
        if at < len(head.rows) and head.rows[at] == row:
            del head.rows[at]
            self._forget(row)
            if at == 0:
                self._advance(head)

    def due(self, up_to_ms: int) -> Iterator[Timer]:
        """Remove and yield timers with ``timestamp_ms <= up_to_ms`` in time order.

        Timers registered while iterating are included when they are due.
        """
        queue, heads = self._queue, self._heads
        deserialize = self._key_serializer.deserialize
        latest = sort_time(max(TIME_MIN_MS, min(TIME_MAX_MS, up_to_ms)))
        while queue and queue[0][0] <= latest:
            time, key_group = heapq.heappop(queue)
            head = heads[key_group]
            if not head.rows or sort_time_of(head.rows[0]) != time:
                continue
            row = head.rows.pop(0)
            self._forget(row)
            self._advance(head)
            _, timestamp_ms, key, namespace = parse_timer_row(row)
            yield Timer(timestamp_ms, deserialize(key), key_group, namespace)

    def flush(self) -> None:
        """Write all pending changes into the rows."""
        if self._pending:
            self._rows.write(
                [(row, None if change == _DELETE else b"") for row, change in self._pending.items()]
            )
            self._pending.clear()

    # --- inside -------------------------------------------------------------------------------

    def _row(self, timestamp_ms: int) -> bytes:
        context = self._context
        self._owned.check_owned(context.key_group)
        if not TIME_MIN_MS <= timestamp_ms <= TIME_MAX_MS:
            msg = f"a timer's time must fit 64 bits; timestamp_ms={timestamp_ms}"
            raise ValueError(msg)
        key = self._key_serializer.serialize(context.key)
        return timer_row(context.key_group, timestamp_ms, key, context.namespace)

    def _pend(self, row: bytes, change: int) -> None:
        self._pending[row] = change
        if len(self._pending) >= PENDING_MAX:
            self.flush()

    def _forget(self, row: bytes) -> None:
        if self._pending.get(row) == _NEW:
            del self._pending[row]
        else:
            self._pend(row, _DELETE)

    def _advance(self, head: _Head) -> None:
        """Queue a head whose first timer changed, reading on in the rows when it is empty."""
        if not head.rows and head.resume < head.end:
            self._refill(head)
        if head.rows:
            self._enqueue(head)

    def _enqueue(self, head: _Head) -> None:
        heapq.heappush(self._queue, (sort_time_of(head.rows[0]), head.key_group))
        if len(self._queue) > self._queue_max:
            self._rebuild_queue()

    def _refill(self, head: _Head) -> None:
        self.flush()
        found = itertools.islice(self._rows.scan(head.resume, head.end), self._head_max + 1)
        head.rows = [row for row, _ in found]
        head.resume = head.rows.pop() if len(head.rows) > self._head_max else head.end

    def _load(self) -> None:
        """Fill the heads: one pass over the key groups, as after a restore."""
        start, end = rows_of_range(self._key_groups)
        # A fresh state has no rows: one look instead of one for each key group.
        if next(iter(self._rows.scan(start, end)), None) is None:
            for head in self._heads.values():
                head.resume = head.end
            return
        for head in self._heads.values():
            self._refill(head)
        self._rebuild_queue()

    def _rebuild_queue(self) -> None:
        self._queue[:] = [
            (sort_time_of(head.rows[0]), key_group)
            for key_group, head in self._heads.items()
            if head.rows
        ]
        heapq.heapify(self._queue)
