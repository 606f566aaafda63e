"""Spreads the rows of one edge over the slots of the next level, as chunks.

Used at every border: by source tasks for level 1 and by slots for the level after theirs. The key
group is computed here, once, and carried with the row (T11).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.graph.stream_graph import Broadcast, Forward, HashByKey
from headrace.keygroups import key_group_of_hash, slot_of_key_group
from headrace.slot.chunk import NO_TIMESTAMP, encode_broadcast, encode_objects

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.graph.job_graph import ExchangeEdge

CHUNK_ROWS_MAX: Final = 4096
"""Rows a chunk at most. A chunk becomes one row of a Spark shuffle: thousands of records amortise
Spark's cost a row, and at 100 bytes a record it stays far below a memory page (1 MiB and up)."""

KEY_GROUP_CACHE_MAX: Final = 200_000
"""Keys whose key group is remembered; the whole cache is dropped when it is full."""


class ObjectPartitioner:
    """Buckets rows of Python objects by slot and emits full buckets.

    Not thread-safe. `flush` must be called at the end of the epoch.
    """

    def __init__(
        self,
        edge: ExchangeEdge,
        parallelism: int,
        max_parallelism: int,
        emit: Callable[[int, bytes], None],
    ) -> None:
        """Prepare the buckets.

        Args:
            edge: the edge whose rows these are.
            parallelism: number of slots of the next level.
            max_parallelism: number of key groups.
            emit: called with (slot, chunk).
        """
        self._tag = int(edge.tag)
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._emit = emit
        self._buckets = [_Bucket() for _ in range(parallelism)]
        self._next_slot = 0
        self._sender = 0
        self._broadcasts = 0
        self._is_broadcast = isinstance(edge.partitioning, Broadcast)
        self._key_groups: dict[object, tuple[object, int, _Bucket]] = {}
        self.rows = 0
        partitioning = edge.partitioning
        self.add: Callable[[object, int], None]
        if isinstance(partitioning, HashByKey):
            self.add = self._keyed_add(partitioning)
        elif isinstance(partitioning, (Forward, Broadcast)):
            self.add = self._forwarded_add
        else:
            self.add = self._rebalanced_add

    def begin(self, sender: int) -> None:
        """Start an epoch or a source task.

        Args:
            sender: index of the sending task or slot: a forwarded edge sends everything to the
                slot of that index, a rebalanced one starts its round there, a broadcast one tells
                it, so that all slots can put the chunks in the same order.
        """
        self._next_slot = sender % self._parallelism
        self._sender, self._broadcasts = sender, 0

    def _keyed_add(self, partitioning: HashByKey) -> Callable[[object, int], None]:
        """Return the hot path of a keyed edge: a closure, so that lookups are local."""
        selector = partitioning.selector
        serializer = partitioning.serializer
        coerce, cache_key_of = serializer.coerce, serializer.cache_key
        known = self._key_groups
        parallelism, max_parallelism = self._parallelism, self._max_parallelism
        buckets = self._buckets

        def add(value: object, timestamp: int) -> None:
            key = coerce(selector(value))
            cache_key = cache_key_of(key)
            try:
                key, key_group, bucket = known[cache_key]
            except KeyError:
                key_group = key_group_of_hash(serializer.hash64(key), max_parallelism)
                bucket = buckets[slot_of_key_group(key_group, parallelism, max_parallelism)]
                if len(known) >= KEY_GROUP_CACHE_MAX:
                    known.clear()
                known[cache_key] = (key, key_group, bucket)
            bucket.key_groups.append(key_group)
            bucket.keys.append(key)
            bucket.timestamps.append(timestamp)
            bucket.values.append(value)
            if len(bucket.values) >= CHUNK_ROWS_MAX:
                self._flush_bucket(buckets.index(bucket), bucket)

        return add

    def _forwarded_add(self, value: object, timestamp: int) -> None:
        bucket = self._buckets[self._next_slot]
        bucket.timestamps.append(timestamp)
        bucket.values.append(value)
        if len(bucket.values) >= CHUNK_ROWS_MAX:
            self._flush_bucket(self._next_slot, bucket)

    def _rebalanced_add(self, value: object, timestamp: int) -> None:
        bucket = self._buckets[self._next_slot]
        bucket.timestamps.append(timestamp)
        bucket.values.append(value)
        if len(bucket.values) >= CHUNK_ROWS_MAX:
            self._flush_bucket(self._next_slot, bucket)
            self._next_slot = (self._next_slot + 1) % self._parallelism

    def flush(self) -> None:
        """Emit what is left in the buckets."""
        for slot, bucket in enumerate(self._buckets):
            if bucket.values:
                self._flush_bucket(slot, bucket)

    def _flush_bucket(self, slot: int, bucket: _Bucket) -> None:
        timed = any(timestamp != NO_TIMESTAMP for timestamp in bucket.timestamps)
        if self._is_broadcast:
            self._broadcast(bucket, timed=timed)
            return
        chunk = encode_objects(
            self._tag,
            bucket.key_groups,
            bucket.keys or None,
            bucket.timestamps if timed else None,
            bucket.values,
        )
        self.rows += len(bucket.values)
        bucket.clear()
        self._emit(slot, chunk)

    def _broadcast(self, bucket: _Bucket, *, timed: bool) -> None:
        order = (self._sender, self._broadcasts)
        self._broadcasts += 1
        stamps = bucket.timestamps if timed else None
        chunk = encode_broadcast(self._tag, order, stamps, bucket.values)
        self.rows += len(bucket.values)
        bucket.clear()
        for slot in range(self._parallelism):
            self._emit(slot, chunk)


class _Bucket:
    __slots__ = ("key_groups", "keys", "timestamps", "values")

    def __init__(self) -> None:
        self.key_groups: list[int] = []
        self.keys: list[object] = []
        self.timestamps: list[int] = []
        self.values: list[object] = []

    def clear(self) -> None:
        self.key_groups = []
        self.keys = []
        self.timestamps = []
        self.values = []
