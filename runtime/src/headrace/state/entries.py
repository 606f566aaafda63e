"""Stored rows as entries: what a checkpoint holds, read without the program (C10, E9).

A schema describes its rows from the outside in (`headrace.state.schemas`), so that every kind of
state can be taken apart here, once, for whoever reads state as data. Rows come from a running
backend (`KeyedStateBackend.scan`) or from frozen files (`KeyedStateBackendFactory.read`); entries
come in the order of the rows, so by key group first.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from headrace.errors import IncompatibleStateError
from headrace.serialization.registry import serializer_from_snapshot
from headrace.state.list_rows import array, element_codec, parse_tail
from headrace.state.rows import parse_state_row, parse_timer_row
from headrace.state.schemas import (
    AGGREGATING,
    LIST,
    MAP,
    REDUCING,
    TIMERS,
    TTL_CODEC,
    VALUE,
    stored_part,
)
from headrace.state.ttl import StampedSerializer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.checkpoint.protocol.types import StateSchema
    from headrace.serialization.serializer import TypeSerializer

Row = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """One value, one map entry, one list element or one timer.

    Attributes:
        key_group: of the key.
        key: as `serializer_from_snapshot` returns it: plain values, no classes.
        namespace: of state of windows, else empty; see `parse_window_namespace`.
        user_key: of a map's entry, else None.
        position: of a list's element, from 0, else None.
        value: the value or accumulator; None for timers, and perhaps in maps.
        time_ms: of a timer, or of the last access to an entry that expires, else None.
    """

    key_group: int
    key: object
    namespace: bytes
    user_key: object
    position: int | None
    value: object
    time_ms: int | None


class EntryReader:
    """Takes the rows of one state apart.

    Args:
        key_serializer: snapshot of the operator's key type.
        schema: of the state.

    Raises:
        IncompatibleStateError: a kind or codec is unknown; a newer release wrote it.
    """

    def __init__(self, key_serializer: dict[str, object], schema: StateSchema) -> None:
        self._keys = serializer_from_snapshot(key_serializer)
        self._user_keys: TypeSerializer[object] | None = None
        self._stamped = False
        snapshot = schema.serializer
        match schema.kind:
            case kind if kind in {VALUE, REDUCING, AGGREGATING}:
                self._values = self._serializer(snapshot)
                self.entries = self._single
            case kind if kind == MAP:
                self._user_keys = serializer_from_snapshot(stored_part(snapshot, "key"))
                self._values = self._serializer(stored_part(snapshot, "value"))
                self.entries = self._single
            case kind if kind == LIST:
                self._elements = element_codec(self._serializer(stored_part(snapshot, "element")))
                self.entries = self._lists
            case kind if kind == TIMERS:
                self.entries = self._timers
            case _:
                msg = f"a kind of state is unknown; state={schema.name} kind={schema.kind}"
                raise IncompatibleStateError(msg)

    def _serializer(self, snapshot: dict[str, object]) -> TypeSerializer[object]:
        if snapshot.get("codec") != TTL_CODEC:
            return serializer_from_snapshot(snapshot)
        self._stamped = True
        values = serializer_from_snapshot(stored_part(snapshot, "value"))
        return cast("TypeSerializer[object]", StampedSerializer(values))

    def _parts(self, found: object) -> tuple[object, int | None]:
        """Return value and time of what was deserialized."""
        if self._stamped:
            stamp, value = cast("tuple[int, object]", found)
            return value, stamp
        return found, None

    def _single(self, rows: Iterable[Row]) -> Iterator[StoredEntry]:
        for row, data in rows:
            key_group, key, namespace, user_key = parse_state_row(row)
            # No bytes are the value None of a map's entry.
            value, time_ms = self._parts(self._values.deserialize(data)) if data else (None, None)
            yield StoredEntry(
                key_group=key_group,
                key=self._keys.deserialize(key),
                namespace=namespace,
                user_key=self._user_keys.deserialize(user_key) if self._user_keys else None,
                position=None,
                value=value,
                time_ms=time_ms,
            )

    def _lists(self, rows: Iterable[Row]) -> Iterator[StoredEntry]:
        def owner(row: Row) -> tuple[int, bytes, bytes]:
            return parse_state_row(row[0])[:3]

        for (key_group, key, namespace), group in itertools.groupby(rows, owner):
            (_, tail), *chunks = group
            _, count, items = parse_tail(tail)
            arrays = [*(chunk for _, chunk in chunks), array(count, items)]
            elements = itertools.chain.from_iterable(map(self._elements.elements, arrays))
            shown = self._keys.deserialize(key)
            for position, element in enumerate(elements):
                value, time_ms = self._parts(element)
                yield StoredEntry(key_group, shown, namespace, None, position, value, time_ms)

    def _timers(self, rows: Iterable[Row]) -> Iterator[StoredEntry]:
        for row, _ in rows:
            key_group, time_ms, key, namespace = parse_timer_row(row)
            shown = self._keys.deserialize(key)
            yield StoredEntry(key_group, shown, namespace, None, None, None, time_ms)
