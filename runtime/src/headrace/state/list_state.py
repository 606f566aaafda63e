"""Keyed lists that are appended to without being read or rewritten (B8).

An entry of the cache holds the list's tail and what was added since the last flush; sealed chunks
stay in rows and are read when the list is. A flush writes one row a list, or, when the tail has
grown, seals it. The bytes are `headrace.state.list_rows`'s.

Elements are kept as bytes: `add` stores a copy and `get` returns new objects, so changing an object
in place changes no state (T27).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from headrace.state.list_rows import array, element_codec, parse_tail, sealed_row, tail_value
from headrace.state.write_back import CacheEntry, RowChanges, WriteBackCache

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.serialization.serializer import TypeSerializer
    from headrace.state.owned_rows import OwnedRows

T = TypeVar("T")

TAIL_BYTES_MAX: Final = 1024
"""A longer tail is sealed when it is stored: a flush rewrites at most so much of a list."""

CHUNK_BYTES_MAX: Final = 16 << 10
"""Additions beyond this are sealed at once."""

JOINED_AT: Final = 256
"""So many additions are joined into one bytes object, which takes no more than their bytes."""

_ENTRY_BYTES: Final = 700
"""Entry, key, prefix, dictionary slots and two empty lists, by tracemalloc."""

_ITEM_BYTES: Final = 41
"""A bytes object beside its bytes, and its place in a list."""


class ListEntry(CacheEntry):
    """What is known of one list.

    Attributes:
        stored: whether there is a tail row.
        sealed: index of the last chunk.
        pending: the last chunks, those that are not stored yet.
        count, items: the tail.
        added: further items of the tail.
    """

    __slots__ = ("added", "count", "items", "pending", "sealed", "stored")

    def __init__(self, prefix: bytes, tail: bytes | None) -> None:
        super().__init__(prefix, _ENTRY_BYTES + 2 * len(prefix) + len(tail or b""))
        self.stored = tail is not None
        self.sealed, self.count, self.items = (0, 0, b"") if tail is None else parse_tail(tail)
        self.pending: list[bytes] = []
        self.added: list[bytes] = []

    @property
    def stored_chunks(self) -> int:
        """Index of the last chunk that may be in rows."""
        return self.sealed - len(self.pending)

    def join(self) -> int:
        """Join the additions to the tail; returns how many there were."""
        joined = len(self.added)
        if joined:
            self.count += joined
            self.items += b"".join(self.added)
            self.added.clear()
        return joined

    def seal(self) -> None:
        """Close the tail; there are no additions."""
        self.pending.append(array(self.count, self.items))
        self.sealed += 1
        self.count, self.items = 0, b""

    def empty(self) -> None:
        """Forget all elements."""
        self.cleared = self.cleared or self.stored
        self.sealed = self.count = 0
        self.items = b""
        self.pending.clear()
        self.added.clear()


class CachedListState(WriteBackCache[ListEntry], Generic[T]):
    """`ListStateAccess` over rows.

    Args:
        rows: where the lists are stored, under which keys.
        element: type of the elements.
        budget_bytes: bound of the cache, estimated.
    """

    def __init__(self, rows: OwnedRows, element: TypeSerializer[T], budget_bytes: int) -> None:
        super().__init__(rows, budget_bytes)
        self._codec = element_codec(element)

    # --- what user code calls -----------------------------------------------------------------

    def get(self) -> list[T]:
        """Return a new list of all elements."""
        entry = self._entry()
        self._join(entry)
        read = self._codec.elements
        elements: list[T] = []
        if entry.stored_chunks:
            # The tail's own row has no user key and sorts before its chunks.
            for _, chunk in self._stored(entry.prefix, skip=b"\x00"):
                elements += read(chunk)
        for chunk in entry.pending:
            elements += read(chunk)
        if entry.count:
            elements += read(array(entry.count, entry.items))
        return elements

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def add(self, value: T) -> None:
        """Append an element.

        Raises:
            TypeError: None, or not of the state's type.
        """
        item = self._item(value)
        # As `_append` of one item, without the calls: this is the hot path.
        try:
            entry = self._young[self._context.cache_key]
        except KeyError:
            entry = self._admit()
        if len(entry.added) < JOINED_AT - 1:
            entry.added.append(item)
            self._mark(entry, len(item) + _ITEM_BYTES)
        else:
            self._append(entry, [item])

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements, all or, when one is refused, none."""
        items = [self._item(value) for value in values]
        if items:
            self._append(self._entry(), items)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements; when one is refused, nothing changes."""
        items = [self._item(value) for value in values]
        self.clear()
        if items:
            self._append(self._entry(), items)

    def clear(self) -> None:
        """Remove all elements."""
        entry = self._entry()
        entry.empty()
        self._mark(entry, self._size_of(entry) - entry.size_bytes)

    # --- what windows call --------------------------------------------------------------------

    def merge_namespaces(self, target: bytes, sources: Iterable[bytes]) -> None:
        """Append the lists of ``sources`` to that of ``target``, in this order."""
        context = self._context
        for source in sources:
            context.enter(context, source)
            elements = self.get()
            self.clear()
            context.enter(context, target)
            self.add_all(elements)

    # --- storage ------------------------------------------------------------------------------

    def _load_entry(self, prefix: bytes) -> ListEntry:
        return ListEntry(prefix, self._store.get(prefix))

    def _store_entry(self, entry: ListEntry, changes: RowChanges) -> None:
        entry.join()
        if len(entry.items) > TAIL_BYTES_MAX:
            entry.seal()
        first = entry.stored_chunks + 1
        for index, chunk in enumerate(entry.pending, first):
            changes.append((sealed_row(entry.prefix, index), chunk))
        entry.pending.clear()
        entry.stored = bool(entry.sealed or entry.count)
        if entry.stored:
            changes.append((entry.prefix, tail_value(entry.sealed, entry.count, entry.items)))
        entry.size_bytes = self._size_of(entry)

    # --- inside -------------------------------------------------------------------------------

    def _item(self, value: T) -> bytes:
        if value is None:
            msg = f"None is not an element of a list; state={self._rows.name}"
            raise TypeError(msg)
        return self._codec.item(value)

    def _append(self, entry: ListEntry, items: list[bytes]) -> None:
        grown = 0
        for start in range(0, len(items), JOINED_AT):
            some = items[start : start + JOINED_AT]
            entry.added += some
            grown += sum(map(len, some)) + _ITEM_BYTES * len(some)
            if len(entry.added) >= JOINED_AT:
                grown -= _ITEM_BYTES * entry.join()
                if len(entry.items) > CHUNK_BYTES_MAX:
                    entry.seal()
        self._mark(entry, grown)

    def _join(self, entry: ListEntry) -> None:
        joined = entry.join()
        if joined:
            self._grow(entry, -_ITEM_BYTES * joined)

    @staticmethod
    def _size_of(entry: ListEntry) -> int:
        """Return the memory of an entry without additions."""
        pending = sum(map(len, entry.pending))
        return _ENTRY_BYTES + 2 * len(entry.prefix) + len(entry.items) + pending
