"""Write-back cache of what a key has in a list or a map, bounded in bytes (C12).

One entry holds what is known of one (key, namespace) and what of it is not stored yet. Entries are
objects of the kind of state (`list_state`, `map_state`), which changes them in place, marks them
`changed` and reports how many bytes they grew; this class finds, keeps, writes and drops them.

Eviction is by generation, as in `headrace.state.value_state`: a lookup in the young dictionary
costs nothing extra, an entry found only in the old one moves to the young one. When both are over
the budget, changed entries are written, the young one becomes the old one, and of that the entries
that came in last stay, up to half the budget. An entry that alone is larger is dropped too.

State read through the cache equals the stored state after a flush, always.
"""

from __future__ import annotations

import abc
import itertools
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headrace.errors import UserCodeError
from headrace.state.rows import end_of_prefix, state_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.state.owned_rows import OwnedRows

RowChanges = list[tuple[bytes, bytes | None]]
"""Rows and their new values; None deletes."""

ROWS_DELETED_SINGLY: Final = 64
"""A key with more rows is cleared by one range tombstone, others row by row: every later read
looks at all range tombstones, and most keys that are cleared have few rows."""


class CacheEntry:
    """What is known of one key's rows.

    Attributes:
        prefix: what all its rows begin with.
        size_bytes: estimate of its memory.
        cleared: whether stored rows are to be removed before anything is written.
    """

    __slots__ = ("cleared", "prefix", "size_bytes")

    def __init__(self, prefix: bytes, size_bytes: int) -> None:
        self.prefix = prefix
        self.size_bytes = size_bytes
        self.cleared = False


E = TypeVar("E", bound=CacheEntry)


class WriteBackCache(abc.ABC, Generic[E]):
    """Entries of one state.

    Args:
        rows: where the state is stored, under which keys.
        budget_bytes: bound of the cache, estimated.
    """

    def __init__(self, rows: OwnedRows, budget_bytes: int) -> None:
        self._rows = rows
        self._store = rows.store
        self._context = rows.context
        self._young: dict[object, E] = {}
        self._old: dict[object, E] = {}
        self._changed: dict[object, E] = {}
        self._size_bytes = 0
        self._budget_bytes = budget_bytes

    # --- what the backend calls ---------------------------------------------------------------

    def set_budget(self, budget_bytes: int) -> None:
        """Bound the cache to ``budget_bytes``; takes effect with the next new entry."""
        self._budget_bytes = budget_bytes

    def flush(self) -> None:
        """Store every change.

        Raises:
            UserCodeError: a value has a part that is not of its declared type.
        """
        if not self._changed:
            return
        changes: RowChanges = []
        before = after = 0
        for entry in self._changed.values():
            before += entry.size_bytes
            self._collect(entry, changes)
            after += entry.size_bytes
        self._store.write(changes)
        self._changed.clear()
        self._size_bytes += after - before

    def maintain(self) -> None:
        """Evict when the cache has outgrown its budget."""
        if self._size_bytes > self._budget_bytes:
            self._evict()

    @property
    def entries(self) -> int:
        """Number of cached keys."""
        return len(self._young) + len(self._old)

    @property
    def estimated_bytes(self) -> float:
        """Estimated size of the cache."""
        return float(self._size_bytes)

    # --- what a kind of state brings ----------------------------------------------------------

    @abc.abstractmethod
    def _load_entry(self, prefix: bytes) -> E:
        """Return a new entry of what is stored."""

    @abc.abstractmethod
    def _store_entry(self, entry: E, changes: RowChanges) -> None:
        """Append the rows to write; from then on the entry equals what is stored."""

    # --- what it uses -------------------------------------------------------------------------

    def _entry(self) -> E:
        """Return the current key's entry."""
        try:
            return self._young[self._context.cache_key]
        except KeyError:
            return self._admit()

    def _mark(self, entry: E, grown_bytes: int) -> None:
        """Note that the current key's entry has changed and by how much it has grown.

        The last that is done with it: the entry may be stored and dropped.
        """
        self._changed[self._context.cache_key] = entry
        entry.size_bytes += grown_bytes
        self._size_bytes += grown_bytes
        if self._size_bytes > self._budget_bytes:
            self._evict()

    def _grow(self, entry: E, grown_bytes: int) -> None:
        """Note that an entry has grown by what was read; the last that is done with it."""
        entry.size_bytes += grown_bytes
        self._size_bytes += grown_bytes
        if self._size_bytes > self._budget_bytes:
            self._evict()

    def _write_now(self, cache_key: object, entry: E) -> None:
        """Store the changes of one entry."""
        before = entry.size_bytes
        changes: RowChanges = []
        self._collect(entry, changes)
        self._store.write(changes)
        del self._changed[cache_key]
        self._size_bytes += entry.size_bytes - before

    def _stored(self, prefix: bytes, skip: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield the stored rows of a key, from ``prefix + skip`` on."""
        return self._store.scan(prefix + skip, end_of_prefix(prefix))

    def _not_storable(self, what: str, error: TypeError) -> UserCodeError:
        msg = f"{what} of a state cannot be stored: {error}; state={self._rows.name}"
        return UserCodeError(msg)

    # --- inside -------------------------------------------------------------------------------

    def _admit(self) -> E:
        context = self._context
        cache_key = context.cache_key
        entry = self._old.pop(cache_key, None)
        if entry is None:
            self._rows.check_owned(context.key_group)
            key = self._rows.key_serializer.serialize(context.key)
            entry = self._load_entry(state_row(context.key_group, key, context.namespace))
            if self._size_bytes + entry.size_bytes > self._budget_bytes:
                self._evict()  # before the entry is in, so that it stays
            self._size_bytes += entry.size_bytes
        self._young[cache_key] = entry
        return entry

    def _collect(self, entry: E, changes: RowChanges) -> None:
        """Append the rows that bring what is stored up to an entry."""
        if entry.cleared:
            self._remove_stored(entry, changes)
            entry.cleared = False
        self._store_entry(entry, changes)

    def _remove_stored(self, entry: E, changes: RowChanges) -> None:
        found = list(itertools.islice(self._stored(entry.prefix), ROWS_DELETED_SINGLY + 1))
        if len(found) > ROWS_DELETED_SINGLY:
            self._store.delete_range(entry.prefix, end_of_prefix(entry.prefix))
        else:
            changes.extend((row, None) for row, _ in found)

    def _evict(self) -> None:
        self.flush()
        half = self._budget_bytes // 2
        if sum(entry.size_bytes for entry in self._young.values()) > half:
            self._old = self._young
            self._young = {}
        size = sum(entry.size_bytes for entry in self._young.values())
        kept: list[tuple[object, E]] = []
        # Dictionaries keep the order of insertion, so the last ones came in last.
        for cache_key, entry in reversed(self._old.items()):
            if size + entry.size_bytes > half:
                break
            size += entry.size_bytes
            kept.append((cache_key, entry))
        self._old = dict(reversed(kept))
        self._size_bytes = size
