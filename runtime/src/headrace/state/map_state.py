"""Keyed maps with one row an entry (B9, T26).

An entry of the cache (`KeyedMap`) holds the entries of one key's map that are known, with those
known to be absent. A map that was iterated over once, and is small, is known completely; from then
on it is read, written and iterated over in memory, and only changed entries are written back. A
large map is read from rows page by page and not kept.

Values of an immutable type are kept as objects, all others as bytes, so that changing an object in
place changes no state (T27). A value None is stored as no bytes at all; no codec writes that.
"""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from headrace.state.rows import end_of_prefix
from headrace.state.write_back import CacheEntry, RowChanges, WriteBackCache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.serialization.serializer import KeySerializer, TypeSerializer
    from headrace.state.owned_rows import OwnedRows

K = TypeVar("K")
V = TypeVar("V")

PAGE: Final = 256
"""Rows that are read at a time while iterating; a map with no more is kept as a whole."""

COMPLETE_MAX: Final = 1024
"""A map that has grown beyond this is no longer kept as a whole."""

_MAP_BYTES: Final = 900
"""A `KeyedMap` without entries, its key and prefix, by tracemalloc."""

_ENTRY_BYTES: Final = 300
"""Key, value and dictionary slots of an entry beside its value's bytes, by tracemalloc."""

_ABSENT: Final = object()
"""Stands for the value of an entry that is known not to be there."""

_UNKNOWN: Final = object()

_FIXED: Final = frozenset((int, float, bool))
"""Types of values that are never long."""

_SIZED: Final = frozenset((bytes, str))
"""Types of keys and kept values that may be long."""


class KeyedMap(CacheEntry):
    """What is known of one map. All dictionaries go by the cache keys of user keys.

    Attributes:
        known: values, or `_ABSENT`.
        unwritten: user keys of entries whose rows are not up to date.
        complete: whether an entry that is not in ``known`` does not exist.
        order: of a complete map, the bytes of its user keys with cache keys and user keys, sorted.
    """

    __slots__ = ("complete", "known", "order", "unwritten")

    def __init__(self, prefix: bytes) -> None:
        super().__init__(prefix, _MAP_BYTES + 2 * len(prefix))
        self.known: dict[object, object] = {}
        self.unwritten: dict[object, object] = {}
        self.complete = False
        self.order: list[tuple[bytes, object, object]] = []


class CachedMapState(WriteBackCache[KeyedMap], Generic[K, V]):
    """`MapStateAccess` over rows.

    Args:
        rows: where the maps are stored, under which keys.
        key: type of the user keys.
        value: type of the values.
        budget_bytes: bound of the cache, estimated.
    """

    def __init__(
        self,
        rows: OwnedRows,
        key: KeySerializer[K],
        value: TypeSerializer[V],
        budget_bytes: int,
    ) -> None:
        super().__init__(rows, budget_bytes)
        self._keys = key
        self._values = value
        self._objects = value.immutable
        self._coerce_key, self._coerce = key.coerce, value.coerce
        self._cache_key = None if key.cache_key_is_key else key.cache_key

    # --- what user code calls -----------------------------------------------------------------

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, None when there is no such entry."""
        kept = self._kept(key)
        return None if kept is _ABSENT else self._value(kept)

    def contains(self, key: K) -> bool:
        """Return whether there is an entry of ``key``."""
        return self._kept(key) is not _ABSENT

    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``; None is a value.

        Raises:
            TypeError: key or value is not of its declared type.
        """
        user_key = self._coerce_key(key)
        kept: object = None
        if value is not None:
            kept = self._coerce(value) if self._objects else self._values.serialize(value)
        try:
            entry = self._young[self._context.cache_key]
        except KeyError:
            entry = self._admit()
        cache_key = user_key if self._cache_key is None else self._cache_key(user_key)
        # An entry that is changed once more by a value as long as the old one: the hot path.
        if cache_key in entry.unwritten and type(kept) in _FIXED:
            old = entry.known[cache_key]
            if type(old) in _FIXED:
                entry.known[cache_key] = kept
                return
        self._set(entry, user_key, cache_key, kept)

    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set all entries of a mapping."""
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove the entry of ``key`` if there is one."""
        user_key = self._coerce_key(key)
        self._set(self._entry(), user_key, self._keys.cache_key(user_key), _ABSENT)

    def keys(self) -> Iterator[K]:
        """Iterate over the keys in the order of their bytes."""
        return (key for key, _ in self._iterate())

    def values(self) -> Iterator[V]:
        """Iterate over the values in the order of their keys' bytes."""
        return (cast("V", self._value(kept)) for _, kept in self._iterate())

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over keys and values in the order of the keys' bytes."""
        return ((key, cast("V", self._value(kept))) for key, kept in self._iterate())

    def is_empty(self) -> bool:
        """Return whether there are no entries."""
        entry = self._entry()
        if any(kept is not _ABSENT for kept in entry.known.values()):
            return False
        return entry.complete or next(self._iterate(), None) is None

    def clear(self) -> None:
        """Remove all entries."""
        entry = self._entry()
        if entry.complete and not entry.known:
            return
        entry.known.clear()
        entry.unwritten.clear()
        entry.order.clear()
        entry.cleared = entry.complete = True
        self._mark(entry, _MAP_BYTES + 2 * len(entry.prefix) - entry.size_bytes)

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()

    # --- storage ------------------------------------------------------------------------------

    def _load_entry(self, prefix: bytes) -> KeyedMap:
        return KeyedMap(prefix)

    def _store_entry(self, entry: KeyedMap, changes: RowChanges) -> None:
        prefix, known, key_bytes = entry.prefix, entry.known, self._keys.serialize
        for cache_key, user_key in entry.unwritten.items():
            kept = known[cache_key]
            row = prefix + key_bytes(cast("K", user_key))
            if kept is not _ABSENT:
                changes.append((row, self._to_bytes(kept, user_key)))
                continue
            changes.append((row, None))
            if entry.complete:
                del known[cache_key]
                entry.size_bytes -= _ENTRY_BYTES + _length(user_key)
        entry.unwritten.clear()

    # --- single entries -----------------------------------------------------------------------

    def _kept(self, key: K) -> object:
        """Return what is kept as the value of ``key``, reading it when it is not known."""
        user_key = self._coerce_key(key)
        entry = self._entry()
        cache_key = user_key if self._cache_key is None else self._cache_key(user_key)
        try:
            return entry.known[cache_key]
        except KeyError:
            pass
        if entry.complete or entry.cleared:
            return _ABSENT
        data = self._store.get(entry.prefix + self._keys.serialize(user_key))
        kept = _ABSENT if data is None else self._from_bytes(data)
        entry.known[cache_key] = kept
        self._grow(entry, _ENTRY_BYTES + _length(user_key) + _length(kept))
        return kept

    def _set(self, entry: KeyedMap, user_key: K, cache_key: object, kept: object) -> None:
        known = entry.known
        old = known.get(cache_key, _UNKNOWN)
        grown = _length(kept) - _length(old)
        if old is _UNKNOWN:
            if entry.complete:
                if kept is _ABSENT:
                    return
                old = _ABSENT
            grown += _ENTRY_BYTES + _length(user_key)
        elif old is _ABSENT and kept is _ABSENT:
            return
        known[cache_key] = kept
        entry.unwritten[cache_key] = user_key
        if entry.complete and (old is _ABSENT) is not (kept is _ABSENT):
            self._reorder(entry, cache_key, user_key)
        self._mark(entry, grown)

    def _reorder(self, entry: KeyedMap, cache_key: object, user_key: K) -> None:
        """Enter a new user key into a complete map's order, or take a removed one out."""
        place = (self._keys.serialize(user_key),)
        at = bisect.bisect_left(entry.order, place)
        if entry.known[cache_key] is _ABSENT:
            del entry.order[at]
            return
        entry.order.insert(at, (*place, cache_key, user_key))
        if len(entry.order) > COMPLETE_MAX:
            entry.complete = False
            entry.order.clear()

    # --- whole maps ---------------------------------------------------------------------------

    def _iterate(self) -> Iterator[tuple[K, object]]:
        """Yield user keys with what is kept as their values, in the order of the keys' bytes."""
        entry = self._entry()
        if entry.complete:
            return self._known_entries(entry)
        cache_key = self._context.cache_key
        page = self._page(cache_key, entry.prefix, entry.prefix)
        if len(page) > PAGE:
            return self._pages(cache_key, entry.prefix, page)
        self._complete(entry, page)
        return self._known_entries(entry)

    @staticmethod
    def _known_entries(entry: KeyedMap) -> Iterator[tuple[K, object]]:
        known = entry.known
        return iter([(cast("K", key), known[cache_key]) for _, cache_key, key in entry.order])

    def _page(self, cache_key: object, prefix: bytes, start: bytes) -> list[tuple[bytes, bytes]]:
        """Return a page of rows from ``start`` on, and one row more when there are more."""
        changed = self._changed.get(cache_key)
        if changed is not None:
            self._write_now(cache_key, changed)
        return list(itertools.islice(self._store.scan(start, end_of_prefix(prefix)), PAGE + 1))

    def _pages(
        self, cache_key: object, prefix: bytes, page: list[tuple[bytes, bytes]]
    ) -> Iterator[tuple[K, object]]:
        at = len(prefix)
        while True:
            for row, data in page[:PAGE]:
                yield self._keys.deserialize(row[at:]), self._from_bytes(data)
            if len(page) <= PAGE:
                return
            page = self._page(cache_key, prefix, page[PAGE][0])

    def _complete(self, entry: KeyedMap, page: list[tuple[bytes, bytes]]) -> None:
        """Take all rows of a map into its entry; nothing of it is unwritten."""
        at = len(entry.prefix)
        entry.known.clear()
        entry.order.clear()
        size = _MAP_BYTES + 2 * at
        for row, data in page:
            user_key, kept = self._keys.deserialize(row[at:]), self._from_bytes(data)
            cache_key = self._keys.cache_key(user_key)
            entry.known[cache_key] = kept
            entry.order.append((row[at:], cache_key, user_key))
            size += _ENTRY_BYTES + _length(user_key) + _length(kept)
        entry.complete = True
        self._grow(entry, size - entry.size_bytes)

    # --- values -------------------------------------------------------------------------------

    def _value(self, kept: object) -> V | None:
        if kept is None or self._objects:
            return cast("V | None", kept)
        return self._values.deserialize(cast("bytes", kept))

    def _from_bytes(self, data: bytes) -> object:
        if not data:
            return None
        return self._values.deserialize(data) if self._objects else data

    def _to_bytes(self, kept: object, user_key: object) -> bytes:
        if kept is None:
            return b""
        if not self._objects:
            return cast("bytes", kept)
        try:
            return self._values.serialize(cast("V", kept))
        except TypeError as error:
            raise self._not_storable(f"the value of key {user_key!r}", error) from error


def _length(item: object) -> int:
    return len(item) if type(item) in _SIZED else 0  # type: ignore[arg-type]  # both have a length
