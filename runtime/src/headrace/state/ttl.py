"""Expiry of state: time stamps kept with the values, checked on every access (B15).

A stamped value is ``<last access ms + 2^63: u64 BE><value's bytes>``; of a list every element is
stamped, of a map every entry. The stamps are absolute, so they survive restores and rescales: what
expired while a job was down is expired when it comes back. Time is the backend's clock.

The classes here wrap a state of stamped values (`StampedSerializer`) and have its methods. What is
never accessed again is removed by `headrace.state.purge`.

Source: Flink's ``TtlStateFactory``, ``AbstractTtlDecorator``, ``TtlUtils``.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from headrace.errors import CorruptStateError
from headrace.serialization.compatibility import Compatibility, Verdict, of_value
from headrace.state.rows import parse_sort_time, sort_time
from headrace.state.schemas import TTL_CODEC, stored_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from headrace.clock import Clock
    from headrace.serialization.serializer import TypeSerializer
    from headrace.state.access import TimeToLive, ValueStateAccess
    from headrace.state.list_state import CachedListState
    from headrace.state.map_state import CachedMapState

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

STAMP_BYTES: Final = 8

Stamped = tuple[int, T]
"""Time of the last access in ms, and the value."""


class StampedSerializer(Generic[T]):
    """`TypeSerializer` of stamped values. The value None, of a map's entry, has no bytes.

    Args:
        values: type of the values.
        written_ms: stamp of stored values that had none before, when expiry is switched on.
    """

    def __init__(self, values: TypeSerializer[T], written_ms: int = 0) -> None:
        self._values = values
        self._written_ms = written_ms

    @property
    def immutable(self) -> bool:
        """Whether the value cannot change in place."""
        return self._values.immutable

    def coerce(self, value: object) -> Stamped[T]:
        """Check the value; the stamp is our own.

        Raises:
            TypeError: not of the declared type.
        """
        stamp, plain = cast("Stamped[T]", value)
        return stamp, plain if plain is None else self._values.coerce(plain)

    def serialize(self, value: Stamped[T]) -> bytes:
        """Return stamp and value.

        Raises:
            TypeError: not of the declared type.
        """
        stamp, plain = value
        data = sort_time(stamp)
        return data if plain is None else data + self._values.serialize(plain)

    def deserialize(self, data: bytes) -> Stamped[T]:
        """Return stamp and value.

        Raises:
            CorruptStateError: there are no such.
        """
        if len(data) == STAMP_BYTES:
            return parse_sort_time(data), cast("T", None)
        return stamp_of(data), self._values.deserialize(data[STAMP_BYTES:])

    def snapshot(self) -> dict[str, object]:
        """Return codec and the value's own snapshot."""
        return {"codec": TTL_CODEC, "value": self._values.snapshot()}

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of stored values; without stamps, they count as just written."""
        if stored.get("codec") == TTL_CODEC:
            return self._values.compatibility(stored_part(stored, "value"))
        found = self._values.compatibility(stored)
        return _switched(found, "no expiry", "expiry", "switched on, all count as just written")

    def migration(self, stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Return the function that keeps or adds the stamp and migrates the value behind it."""
        stamped = stored.get("codec") == TTL_CODEC
        convert = _conversion(self._values, stored_part(stored, "value") if stamped else stored)
        written = sort_time(self._written_ms)

        def migrate(data: bytes) -> bytes:
            stamp, value = (data[:STAMP_BYTES], data[STAMP_BYTES:]) if stamped else (written, data)
            return stamp + convert(value) if value else stamp

        return migrate


class LastingFormat(Generic[T]):
    """`StateFormat` of values that do not expire, although stored ones may have.

    Args:
        values: type of the values.
    """

    def __init__(self, values: TypeSerializer[T]) -> None:
        self._values = values
        self.snapshot = values.snapshot

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of stored values; stamps are taken off."""
        if stored.get("codec") != TTL_CODEC:
            return self._values.compatibility(stored)
        found = self._values.compatibility(stored_part(stored, "value"))
        return _switched(found, "expiry", "no expiry", "switched off, what is stored stays")

    def migration(self, stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Return the function that takes the stamp off and migrates the value behind it."""
        if stored.get("codec") != TTL_CODEC:
            return self._values.migration(stored)
        convert = _conversion(self._values, stored_part(stored, "value"))

        def migrate(data: bytes) -> bytes:
            value = data[STAMP_BYTES:]
            return convert(value) if value else value

        return migrate


def _switched(found: Compatibility, stored: str, declared: str, note: str) -> Compatibility:
    """Return the compatibility of values whose expiry was switched on or off."""
    change = of_value(Verdict.AFTER_MIGRATION, stored, declared, note).changes
    return Compatibility(max(found.verdict, Verdict.AFTER_MIGRATION), change + found.changes)


def _conversion(values: TypeSerializer[T], stored: dict[str, object]) -> Callable[[bytes], bytes]:
    """Return what becomes of stored values, which may be of the declared type already."""
    if values.compatibility(stored).verdict is Verdict.AS_IS:
        return bytes
    return values.migration(stored)


def stamp_of(data: bytes) -> int:
    """Return the time of the last access of a stamped value in ms.

    Raises:
        CorruptStateError: it is too short.
    """
    if len(data) < STAMP_BYTES:
        msg = f"a stored value has no time stamp; value={data.hex()}"
        raise CorruptStateError(msg)
    return parse_sort_time(data)


class Expiry:
    """A state's time to live on a clock; counts accesses for the purge."""

    __slots__ = ("_now_ms", "accesses", "on_read", "return_expired", "ttl_ms")

    def __init__(self, ttl: TimeToLive, clock: Clock) -> None:
        self.ttl_ms = ttl.ttl_ms
        self.on_read = ttl.on_read
        self.return_expired = ttl.return_expired
        self.accesses = 0
        self._now_ms = clock.now_ms

    def access(self) -> int:
        """Count an access and return its time in ms."""
        self.accesses += 1
        return self._now_ms()

    def expired(self, stamp_ms: int, now_ms: int) -> bool:
        """Return whether what was last accessed at ``stamp_ms`` has expired."""
        return stamp_ms + self.ttl_ms <= now_ms


class ExpiringValueState(Generic[T]):
    """`ValueStateAccess` whose value expires; wraps one of stamped values."""

    def __init__(self, stamped: ValueStateAccess[Stamped[T]], expiry: Expiry) -> None:
        self._stamped = stamped
        self._expiry = expiry

    def value(self) -> T | None:
        """Return the value, None when there is none or it has expired."""
        now = self._expiry.access()
        found = self._stamped.value()
        if found is None:
            return None
        stamp, value = found
        if self._expiry.expired(stamp, now):
            self._stamped.clear()
            return value if self._expiry.return_expired else None
        if self._expiry.on_read and stamp != now:
            self._stamped.update((now, value))
        return value

    def update(self, value: T) -> None:
        """Set the value.

        Raises:
            TypeError: None, or not of the state's type.
        """
        if value is None:
            msg = "None is not a value of a state, call clear()"
            raise TypeError(msg)
        self._stamped.update((self._expiry.access(), value))

    def clear(self) -> None:
        """Remove the value."""
        self._stamped.clear()


class ExpiringListState(Generic[T]):
    """`ListStateAccess` whose elements expire one by one; wraps one of stamped elements."""

    def __init__(self, stamped: CachedListState[Stamped[T]], expiry: Expiry) -> None:
        self._stamped = stamped
        self._expiry = expiry

    def get(self) -> list[T]:
        """Return the elements that have not expired; removes the others."""
        expiry = self._expiry
        now = expiry.access()
        elements = self._stamped.get()
        alive = [element for element in elements if not expiry.expired(element[0], now)]
        if expiry.on_read and any(stamp != now for stamp, _ in alive):
            self._stamped.update([(now, value) for _, value in alive])
        elif len(alive) < len(elements):
            self._stamped.update(alive)
        shown = elements if expiry.return_expired else alive
        return [value for _, value in shown]

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())

    def add(self, value: T) -> None:
        """Append an element.

        Raises:
            TypeError: None, or not of the state's type.
        """
        self.add_all((value,))

    def add_all(self, values: Iterable[T]) -> None:
        """Append elements, all or, when one is refused, none."""
        self._stamped.add_all(self._stamps(values))

    def update(self, values: Iterable[T]) -> None:
        """Replace all elements; when one is refused, nothing changes."""
        self._stamped.update(self._stamps(values))

    def clear(self) -> None:
        """Remove all elements."""
        self._stamped.clear()

    def merge_namespaces(self, target: bytes, sources: Iterable[bytes]) -> None:
        """Append the lists of ``sources`` to that of ``target``, stamps and all."""
        self._stamped.merge_namespaces(target, sources)

    def _stamps(self, values: Iterable[T]) -> list[Stamped[T]]:
        now = self._expiry.access()
        stamped = [(now, value) for value in values]
        if any(value is None for _, value in stamped):
            msg = "None is not an element of a list"
            raise TypeError(msg)
        return stamped


class ExpiringMapState(Generic[K, V]):
    """`MapStateAccess` whose entries expire one by one; wraps one of stamped values."""

    def __init__(self, stamped: CachedMapState[K, Stamped[V]], expiry: Expiry) -> None:
        self._stamped = stamped
        self._expiry = expiry

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, None when there is none or it has expired."""
        found = self._stamped.get(key)
        now = self._expiry.access()
        return None if found is None or not self._shown(key, found, now) else found[1]

    def contains(self, key: K) -> bool:
        """Return whether there is an entry of ``key`` that has not expired."""
        found = self._stamped.get(key)
        now = self._expiry.access()
        return found is not None and self._shown(key, found, now)

    def put(self, key: K, value: V) -> None:
        """Set the value of ``key``; None is a value.

        Raises:
            TypeError: key or value is not of its declared type.
        """
        self._stamped.put(key, (self._expiry.access(), value))

    def put_all(self, dict_value: Mapping[K, V]) -> None:
        """Set all entries of a mapping."""
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: K) -> None:
        """Remove the entry of ``key`` if there is one."""
        self._stamped.remove(key)

    def keys(self) -> Iterator[K]:
        """Iterate over the keys of entries that have not expired."""
        return (key for key, _ in self.items())

    def values(self) -> Iterator[V]:
        """Iterate over the values of entries that have not expired."""
        return (value for _, value in self.items())

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over entries that have not expired; removes the others."""
        now = self._expiry.access()
        return (
            (key, found[1]) for key, found in self._stamped.items() if self._shown(key, found, now)
        )

    def is_empty(self) -> bool:
        """Return whether there are no entries that have not expired."""
        return next(itertools.islice(self.items(), 1), None) is None

    def clear(self) -> None:
        """Remove all entries."""
        self._stamped.clear()

    def _shown(self, key: K, found: Stamped[V], now: int) -> bool:
        """Return whether an entry is shown; removes an expired one, notes the access to another."""
        stamp, value = found
        if self._expiry.expired(stamp, now):
            self._stamped.remove(key)
            return self._expiry.return_expired
        if self._expiry.on_read and stamp != now:
            self._stamped.put(key, (now, value))
        return True

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
