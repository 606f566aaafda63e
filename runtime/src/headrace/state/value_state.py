"""Keyed single values behind a write-back cache bounded in bytes (B7, C12, J16).

`value` and `update` of a cached key are a dictionary lookup; storage is read on a miss and written
by `flush`, which the backend calls before every snapshot. State read through the cache equals the
stored state after a flush, always.

What the cache holds depends on the type, so that every backend behaves the same (B35, T27):

- values of an immutable type (numbers, strings, tuples of them) are kept as objects;
- all others are kept as bytes: `update` stores a copy, `value` returns a new copy, and changing an
  object in place changes no state until it is handed to `update`.

Eviction is by generation: a lookup in the young dictionary costs nothing extra, a key found only
in the old one moves to the young one. When both together are full, the young one is flushed and
becomes the old one, and of the old one the half that was used last stays. Entries are counted
against a budget by their measured serialized size.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from headrace.errors import UserCodeError
from headrace.serialization.described import describe
from headrace.serialization.types import BYTES, STRING
from headrace.state.rows import state_row

if TYPE_CHECKING:
    from headrace.ids import KeyGroup
    from headrace.serialization.serializer import TypeSerializer
    from headrace.state.owned_rows import OwnedRows

T = TypeVar("T")

_ENTRY_BYTES: Final = 350
"""Key object, value object, dictionary slots and the dirty mark: 225 to 345 by tracemalloc, of an
int key with an int value and of a tuple key with a pickled list."""

_OBJECT_FACTOR: Final = 4
"""Python objects against their MessagePack bytes, on top of `_ENTRY_BYTES`: an int above 256 takes
28 bytes for 2 to 9, a str 50 bytes and its text."""

_MEASURABLE: Final = (describe(STRING), describe(BYTES))
"""Types whose objects say themselves how large they are: text takes from one to four times its
bytes, and the factor above would keep three of four kilobyte values out of the cache."""

_FIRST_GUESS_BYTES: Final = 2048
"""Size of an entry before any was measured; pessimistic, so that the budget holds at once."""

_PROBE_EVERY: Final = 1024
_PROBE_ENTRIES: Final = 16
"""After this many new entries, the sizes of this many unwritten ones are measured."""


_OBSERVATIONS: Final = 64
"""A value read from storage has this part of the say in the estimate."""


class CachedValueState(Generic[T]):
    """`ValueStateAccess` of values of an immutable type; `SerializedValueState` is for the others.

    Args:
        rows: where the values are stored, under which keys.
        serializer: type of the values.
        budget_bytes: bound of the cache, estimated.
    """

    def __init__(self, rows: OwnedRows, serializer: TypeSerializer[T], budget_bytes: int) -> None:
        self._rows = rows
        self._context = rows.context
        self._serializer = serializer
        self._coerce = serializer.coerce
        self._is_measurable = serializer.snapshot().get("type") in _MEASURABLE
        self._young: dict[object, T | None] = {}
        self._old: dict[object, T | None] = {}
        # Keys in here are in `_young`, and their values are not yet stored.
        self._dirty: dict[object, tuple[KeyGroup, object, bytes]] = {}
        self._entry_bytes = float(_FIRST_GUESS_BYTES)
        self._measured = False
        self._budget_bytes = budget_bytes
        self._entries_max = 2
        self._until_probe = _PROBE_EVERY
        self.set_budget(budget_bytes)

    # --- what user code calls -----------------------------------------------------------------

    def value(self) -> T | None:
        """Return the current key's value or None."""
        try:
            return self._young[self._context.cache_key]
        except KeyError:
            return self._load()

    def update(self, value: T) -> None:
        """Set the current key's value.

        Raises:
            TypeError: None, or not of the state's type.
        """
        try:
            checked = self._coerce(value)
        except TypeError:
            if value is None:
                raise self._none_refused() from None
            raise
        # As `_put`, without the call: this is the hot path.
        cache_key = self._context.cache_key
        if cache_key in self._dirty:
            self._young[cache_key] = checked
        else:
            self._put(cache_key, checked)

    def clear(self) -> None:
        """Remove the current key's row."""
        self._put(self._context.cache_key, None)

    # --- what the backend calls ---------------------------------------------------------------

    def set_budget(self, budget_bytes: int) -> None:
        """Bound the cache to ``budget_bytes``; takes effect with the next new entry."""
        self._budget_bytes = budget_bytes
        # A cache of two entries is slow but right.
        self._entries_max = max(2, int(budget_bytes / self._entry_bytes))

    def flush(self) -> None:
        """Store every changed value.

        Raises:
            UserCodeError: a value has a part that is not of the declared type.
        """
        if self._dirty:
            self._rows.store.write(self._changes())
            self._dirty.clear()

    def maintain(self) -> None:
        """Measure some entries and evict when the cache has outgrown its budget."""
        self._probe()
        if self.entries > self._entries_max:
            self._evict()

    @property
    def entries(self) -> int:
        """Number of cached keys."""
        return len(self._young) + len(self._old)

    @property
    def estimated_bytes(self) -> float:
        """Estimated size of the cache."""
        return self.entries * self._entry_bytes

    # --- inside -------------------------------------------------------------------------------

    def _put(self, cache_key: object, value: T | None) -> None:
        if cache_key in self._dirty:
            self._young[cache_key] = value
            return
        context = self._context
        self._rows.check_owned(context.key_group)
        self._old.pop(cache_key, None)
        self._dirty[cache_key] = (context.key_group, context.key, context.namespace)
        self._admit(cache_key, value)

    def _load(self) -> T | None:
        context = self._context
        cache_key = context.cache_key
        if cache_key in self._old:
            value = self._old.pop(cache_key)
        else:
            self._rows.check_owned(context.key_group)
            key = self._rows.key_serializer.serialize(context.key)
            data = self._rows.store.get(state_row(context.key_group, key, context.namespace))
            value = None
            if data is not None:
                value = self._from_bytes(data)
                self._observe(self._memory_of(value, len(key) + len(data)))
        self._admit(cache_key, value)
        return value

    def _admit(self, cache_key: object, value: T | None) -> None:
        self._young[cache_key] = value
        self._until_probe -= 1
        if self._until_probe <= 0:
            self._probe()
        if len(self._young) + len(self._old) > self._entries_max:
            self._evict()

    def _evict(self) -> None:
        half = self._entries_max // 2
        if len(self._young) > half:
            self.flush()
            self._old = self._young
            self._young = {}
        # Dictionaries keep the order of insertion, so the last half came in last.
        newest = itertools.islice(self._old.items(), max(0, len(self._old) - half), None)
        self._old = dict(newest)

    def _changes(self) -> list[tuple[bytes, bytes | None]]:
        serialize_key = self._rows.key_serializer.serialize
        young, to_bytes = self._young, self._to_bytes
        changes: list[tuple[bytes, bytes | None]] = []
        size = 0
        key: object = None
        try:
            for cache_key, (key_group, key, namespace) in self._dirty.items():
                row = state_row(key_group, serialize_key(key), namespace)
                value = young[cache_key]
                data = None if value is None else to_bytes(value)
                size += len(row) + (0 if data is None else len(data))
                changes.append((row, data))
        except TypeError as error:
            raise self._not_storable(key, error) from error
        if self._is_measurable:
            memory = sum(map(sys.getsizeof, map(young.__getitem__, self._dirty)))
        else:
            memory = size * self._object_factor
        self._learn(memory / len(changes))
        return changes

    def _probe(self) -> None:
        """Measure some of the values that are not stored yet."""
        self._until_probe = _PROBE_EVERY
        sizes = []
        for cache_key in itertools.islice(self._dirty, _PROBE_ENTRIES):
            value = self._young[cache_key]
            if value is not None:
                try:
                    sizes.append(self._memory_of(value, len(self._to_bytes(value))))
                except TypeError as error:
                    raise self._not_storable(self._dirty[cache_key][1], error) from error
        if sizes:
            self._learn(sum(sizes) / len(sizes))

    def _memory_of(self, value: T, serialized_bytes: int) -> int:
        """Estimate what a value's objects take in memory."""
        if self._is_measurable:
            return sys.getsizeof(value)
        return self._object_factor * serialized_bytes

    def _observe(self, value_bytes: int) -> None:
        """Move the estimate of an entry's size a little towards what was read."""
        size = _ENTRY_BYTES + value_bytes
        self._entry_bytes += (size - self._entry_bytes) / _OBSERVATIONS
        self.set_budget(self._budget_bytes)

    def _learn(self, value_bytes: float) -> None:
        """Move the estimate of an entry's size towards a measurement, upwards at once."""
        measured = _ENTRY_BYTES + value_bytes
        if not self._measured or measured > self._entry_bytes:
            self._entry_bytes = measured
        else:
            self._entry_bytes += (measured - self._entry_bytes) / 4
        self._measured = True
        self.set_budget(self._budget_bytes)

    def _none_refused(self) -> TypeError:
        return TypeError(f"None is not a value of a state, call clear(); state={self._rows.name}")

    def _not_storable(self, key: object, error: TypeError) -> UserCodeError:
        msg = f"a value of a state cannot be stored: {error}; state={self._rows.name} key={key!r}"
        return UserCodeError(msg)

    _object_factor = _OBJECT_FACTOR

    def _from_bytes(self, data: bytes) -> T:
        return self._serializer.deserialize(data)

    def _to_bytes(self, value: T) -> bytes:
        return self._serializer.serialize(value)


class SerializedValueState(CachedValueState[T]):
    """Values of a mutable type: the cache holds their bytes, so that no two callers share one."""

    _object_factor = 1

    def __init__(self, rows: OwnedRows, serializer: TypeSerializer[T], budget_bytes: int) -> None:
        super().__init__(rows, serializer, budget_bytes)
        self._written_bytes = 0

    def value(self) -> T | None:
        """Return a new copy of the current key's value or None."""
        data = super().value()
        return None if data is None else self._serializer.deserialize(cast("bytes", data))

    def update(self, value: T) -> None:
        """Store a copy as the current key's value.

        Raises:
            TypeError: None, or not of the state's type.
        """
        if value is None:
            raise self._none_refused()
        data = self._serializer.serialize(value)
        self._put(self._context.cache_key, cast("T", data))
        # Values that grow in place of their key add no entries: measure by what was written.
        self._written_bytes += len(data)
        if self._written_bytes > self._budget_bytes:
            self._written_bytes = 0
            self.maintain()

    def _from_bytes(self, data: bytes) -> T:
        return cast("T", data)

    def _to_bytes(self, value: T) -> bytes:
        return cast("bytes", value)
