"""State of an operator that belongs to no key: list, union list and broadcast state (B17-B19).

It is small, lives on the heap, and is written whole into the metadata of every checkpoint; a
rescale deals it out again (`headrace.checkpoint.restore`). One `OperatorStateStore` is one operator
in one slot. Broadcast state is alike in all slots, so slot 0 stores it for all.

Source: Flink's ``DefaultOperatorStateBackend``, ``PartitionableListState``, ``HeapBroadcastState``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

import msgspec

from headrace.checkpoint.protocol.types import OperatorStateHandle
from headrace.checkpoint.restore import BROADCAST, SPLIT, UNION
from headrace.errors import IncompatibleStateError, InvalidProgramError
from headrace.ids import SlotIndex
from headrace.serialization.compatibility import Compatibility, Verdict, of_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from headrace.graph.stream_graph import BroadcastState
    from headrace.ids import OperatorUid
    from headrace.serialization.serializer import TypeSerializer

log = logging.getLogger(__name__)

LARGE_BYTES: Final = 1 << 20
"""Above this, an operator's state in one slot is warned of: metadata is read and written whole."""

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class OperatorListState(Generic[T]):
    """Elements of one slot, in order; the methods of the API's ``ListState``."""

    def __init__(self, elements: Iterable[T]) -> None:
        self._elements = list(elements)

    def get(self) -> Iterator[T]:
        """Iterate over the elements."""
        return iter(self._elements)

    def add(self, value: T) -> None:
        """Append an element."""
        self._elements.append(value)

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements."""
        self._elements.extend(values)

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements."""
        self._elements = list(values)

    def clear(self) -> None:
        """Remove all elements."""
        self._elements = []

    def __iter__(self) -> Iterator[T]:
        return self.get()


class _Entries(Generic[K, V]):
    """Entries of one broadcast state in one slot, to be read."""

    def __init__(self, entries: dict[K, V]) -> None:
        self.entries = entries

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, None when there is none."""
        return self.entries.get(key)

    def contains(self, key: K) -> bool:
        """Return whether there is an entry for ``key``."""
        return key in self.entries

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over the entries; the state may be changed meanwhile."""
        return iter(list(self.entries.items()))

    def keys(self) -> Iterator[K]:
        """Iterate over the keys."""
        return iter(list(self.entries))

    def values(self) -> Iterator[V]:
        """Iterate over the values."""
        return iter(list(self.entries.values()))

    def is_empty(self) -> bool:
        """Return whether there are no entries."""
        return not self.entries

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return self.keys()


class BroadcastMap(_Entries[K, V]):
    """What the broadcast side has: the methods of the API's ``BroadcastState``."""

    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``."""
        self.entries[key] = value

    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set many entries."""
        self.entries.update(dict_value)

    def remove(self, key: K) -> None:
        """Remove the entry of ``key`` if there is one."""
        self.entries.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        self.entries.clear()

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class ReadOnlyBroadcastMap(_Entries[K, V]):
    """The same entries for the other side: only the broadcast side may write (B19)."""

    def __init__(self, name: str, writable: BroadcastMap[K, V]) -> None:
        super().__init__(writable.entries)
        self._name = name

    def put(self, _key: K, _value: V) -> None:
        """Refuse: slots would no longer hold the same."""
        self._refuse()

    def put_all(self, _dict_value: object) -> None:
        """Refuse."""
        self._refuse()

    def remove(self, _key: K) -> None:
        """Refuse."""
        self._refuse()

    def clear(self) -> None:
        """Refuse."""
        self._refuse()

    def __setitem__(self, _key: K, _value: V) -> None:
        self._refuse()

    def __delitem__(self, _key: K) -> None:
        self._refuse()

    def _refuse(self) -> None:
        msg = (
            "broadcast state is changed in process_broadcast_element only, or slots would differ; "
            f"state={self._name!r}"
        )
        raise InvalidProgramError(msg)


class _ElementFormat:
    """List elements as stored items."""

    def __init__(self, serializer: TypeSerializer[object]) -> None:
        self._serializer = serializer

    def snapshot(self) -> dict[str, object]:
        return self._serializer.snapshot()

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        return self._serializer.compatibility(stored)

    def encode(self, element: object) -> bytes:
        return self._serializer.serialize(element)

    def decoder(self, stored: dict[str, object], verdict: Verdict) -> Callable[[bytes], object]:
        deserialize = self._serializer.deserialize
        if verdict is Verdict.AS_IS:
            return deserialize
        migrate = self._serializer.migration(stored)
        return lambda item: deserialize(migrate(item))


class _EntryFormat:
    """Entries of broadcast state as stored items: msgpack of (key bytes, value bytes)."""

    def __init__(self, key: TypeSerializer[object], value: TypeSerializer[object]) -> None:
        self._key = _ElementFormat(key)
        self._value = _ElementFormat(value)

    def snapshot(self) -> dict[str, object]:
        return {"key": self._key.snapshot(), "value": self._value.snapshot()}

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        key, value = _entry_parts(stored)
        return of_parts(
            [("key", self._key.compatibility(key)), ("value", self._value.compatibility(value))]
        )

    def encode(self, entry: object) -> bytes:
        key, value = cast("tuple[object, object]", entry)
        return msgspec.msgpack.encode((self._key.encode(key), self._value.encode(value)))

    def decoder(self, stored: dict[str, object], _verdict: Verdict) -> Callable[[bytes], object]:
        key_stored, value_stored = _entry_parts(stored)
        key_of = self._key.decoder(key_stored, self._key.compatibility(key_stored).verdict)
        value_of = self._value.decoder(
            value_stored, self._value.compatibility(value_stored).verdict
        )

        def decode(item: bytes) -> object:
            key, value = msgspec.msgpack.decode(item, type=tuple[bytes, bytes])
            return (key_of(key), value_of(value))

        return decode


def _entry_parts(stored: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    parts = msgspec.convert(stored, type=_EntrySnapshot)
    return parts.key, parts.value


class _EntrySnapshot(msgspec.Struct):
    key: dict[str, object]
    value: dict[str, object]


class OperatorStateStore:
    """All operator state of one operator in one slot; used by the slot's main thread alone."""

    def __init__(
        self, uid: OperatorUid, slot: SlotIndex, restored: Sequence[OperatorStateHandle]
    ) -> None:
        """Begin with what a checkpoint holds for this operator and slot.

        Args:
            uid: the operator.
            slot: this slot.
            restored: handles of this operator, as `headrace.checkpoint.restore` dealt them out.
        """
        self._uid = uid
        self._slot = slot
        self._restored = {handle.name: handle for handle in restored}
        self._lists: dict[str, tuple[str, _ElementFormat, OperatorListState[object]]] = {}
        self._maps: dict[str, tuple[_EntryFormat, BroadcastMap[object, object]]] = {}
        self._is_large = False

    def list_state(
        self, name: str, serializer: TypeSerializer[object], *, union: bool = False
    ) -> OperatorListState[object]:
        """Return the list of this name, with what was restored.

        Args:
            name: of the state.
            serializer: of the elements.
            union: after a restore every slot has the elements of all slots; otherwise each
                element is in one slot.

        Raises:
            IncompatibleStateError: what is stored under this name has another mode or type.
            InvalidProgramError: the name is taken by a state of another mode.
        """
        mode = UNION if union else SPLIT
        known = self._lists.get(name)
        if known is not None and known[0] == mode:
            return known[2]
        self._check_free(name)
        element = _ElementFormat(serializer)
        state = OperatorListState(self._decoded(name, mode, element))
        self._lists[name] = (mode, element, state)
        return state

    def broadcast_state(self, declared: BroadcastState) -> BroadcastMap[object, object]:
        """Return the broadcast state of this name, with what was restored; raises as above."""
        known = self._maps.get(declared.name)
        if known is not None:
            return known[1]
        self._check_free(declared.name)
        entry = _EntryFormat(declared.key, declared.value)
        decoded = self._decoded(declared.name, BROADCAST, entry)
        state = BroadcastMap(dict(cast("list[tuple[object, object]]", decoded)))
        self._maps[declared.name] = (entry, state)
        return state

    def finish_registration(self, *, allow_non_restored_state: bool) -> None:
        """Settle what becomes of restored states that the program did not ask for.

        Raises:
            IncompatibleStateError: there are some, and they may not be dropped; names them.
        """
        left = sorted(name for name, handle in self._restored.items() if handle.items)
        self._restored = {}
        if not left:
            return
        if not allow_non_restored_state:
            msg = (
                "checkpoint holds operator state that the program does not ask for, restore its "
                "name or set allowNonRestoredState to drop it; "
                f"operator={self._uid} states={left} declared={sorted([*self._lists, *self._maps])}"
            )
            raise IncompatibleStateError(msg)
        log.warning("operator state is left behind operator=%s states=%s", self._uid, left)

    def store(self) -> list[OperatorStateHandle]:
        """Return everything as it goes into the metadata of a checkpoint."""
        handles = [
            self._handle(name, mode, element, state.get())
            for name, (mode, element, state) in self._lists.items()
        ]
        if self._slot == 0:
            handles += [
                self._handle(name, BROADCAST, entry, state.items())
                for name, (entry, state) in self._maps.items()
            ]
        size = sum(len(item) for handle in handles for item in handle.items)
        if size > LARGE_BYTES and not self._is_large:
            log.warning(
                "operator state is large for what every checkpoint's metadata holds; "
                "use keyed state operator=%s slot=%s bytes=%s",
                self._uid,
                self._slot,
                size,
            )
        self._is_large = size > LARGE_BYTES
        return handles

    def _handle(
        self,
        name: str,
        mode: str,
        stored_as: _ElementFormat | _EntryFormat,
        elements: Iterable[object],
    ) -> OperatorStateHandle:
        items = [stored_as.encode(element) for element in elements]
        return OperatorStateHandle(self._uid, self._slot, name, mode, items, stored_as.snapshot())

    def _decoded(
        self, name: str, mode: str, declared: _ElementFormat | _EntryFormat
    ) -> list[object]:
        handle = self._restored.pop(name, None)
        if handle is None or not handle.items:
            return []
        if handle.mode != mode:
            msg = (
                "operator state was stored with another way of redistribution, give the new one "
                f"another name; operator={self._uid} state={name} stored={handle.mode} "
                f"declared={mode}"
            )
            raise IncompatibleStateError(msg)
        found = declared.compatibility(handle.serializer)
        if found.verdict is Verdict.INCOMPATIBLE:
            msg = (
                f"type of operator state changed and what is stored cannot become it: "
                f"{found.reason}; operator={self._uid} state={name}\n{found.table()}"
            )
            raise IncompatibleStateError(msg)
        decode = declared.decoder(handle.serializer, found.verdict)
        return [decode(item) for item in handle.items]

    def _check_free(self, name: str) -> None:
        if name in self._lists or name in self._maps:
            msg = (
                "two operator states of different kinds have one name; "
                f"operator={self._uid} state={name!r}"
            )
            raise InvalidProgramError(msg)
