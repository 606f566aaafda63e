"""Rewriting of restored rows whose type has changed (E6, ADR 0017).

Runs when the program declares a restored state whose type differs, before the slot has seen a
record: afterwards every row is of the declared type, and the state's schema in the next checkpoint
is true of all of it. A value without counterpart stops the job here, with its key. The checkpoint
that is restored is only read, so the old program can still go back to it.

Source: Flink's ``RocksDBKeyedStateBackend.migrateStateValues``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headrace.errors import HeadraceError, IncompatibleStateError
from headrace.serialization.values import MSGPACK
from headrace.state.list_rows import (
    array,
    frame,
    frames,
    parse_tail,
    raw_elements,
    split_array,
    tail_value,
)
from headrace.state.rows import parse_state_row, rows_of_range
from headrace.state.schemas import ListFormat, stored_part

if TYPE_CHECKING:
    from headrace.keygroups import KeyGroupRange
    from headrace.serialization.serializer import TypeSerializer
    from headrace.state.schemas import StateFormat
    from headrace.state.storage import RowStore

BATCH_BYTES: Final = 4 << 20
"""Rows and values that are read before they are written: bounds the memory of a migration."""

RowMigration = Callable[[bytes, bytes], bytes]
"""A row and its stored value -> its value in the declared format."""


def row_migration(declared: StateFormat, stored: dict[str, object]) -> RowMigration:
    """Return what turns rows of a stored format into rows of the declared one.

    Args:
        declared: the state's format in the program.
        stored: snapshot of the format in the checkpoint.
    """
    if isinstance(declared, ListFormat):
        return _of_lists(declared, stored)
    convert = declared.migration(stored)
    return lambda _row, value: convert(value)


def _of_lists(declared: ListFormat, stored: dict[str, object]) -> RowMigration:
    convert = declared.migration(stored)
    was_plain = stored_part(stored, "element").get("codec") == MSGPACK
    plain = declared.element.snapshot().get("codec") == MSGPACK

    def moved(data: bytes) -> bytes:
        elements = raw_elements(data) if was_plain else frames(data)
        converted = [convert(element) for element in elements]
        return array(len(converted), b"".join(converted if plain else map(frame, converted)))

    def migrate(row: bytes, value: bytes) -> bytes:
        _, _, _, chunk = parse_state_row(row)
        if chunk:
            return moved(value)
        sealed, count, items = parse_tail(value)
        return tail_value(sealed, count, split_array(moved(array(count, items)))[1])

    return migrate


def migrate_rows(
    store: RowStore,
    key_groups: KeyGroupRange,
    convert: RowMigration,
    keys: TypeSerializer[object],
) -> int:
    """Rewrite all rows of a state; return how many there were.

    Args:
        store: the state's rows.
        key_groups: all that the store may hold.
        convert: what becomes of a row's value.
        keys: type of the keys, for messages.

    Raises:
        IncompatibleStateError: a value has no counterpart; names its key.
    """
    start, end = rows_of_range(key_groups)
    total = 0
    while True:
        batch, size = [], 0
        for row, value in store.scan(start, end):
            batch.append((row, _converted(row, value, convert, keys)))
            size += len(row) + len(value)
            if size >= BATCH_BYTES:
                break
        store.write(batch)
        total += len(batch)
        if size < BATCH_BYTES:
            return total
        start = batch[-1][0] + b"\x00"


def _converted(
    row: bytes, value: bytes, convert: RowMigration, keys: TypeSerializer[object]
) -> bytes:
    try:
        return convert(row, value)
    except HeadraceError as error:
        _, key, _, _ = parse_state_row(row)
        msg = (
            "a stored value cannot be migrated to the declared type, restore the old declaration "
            f"or give the new one another name: {error}; key={keys.deserialize(key)!r}"
        )
        raise IncompatibleStateError(msg) from error
