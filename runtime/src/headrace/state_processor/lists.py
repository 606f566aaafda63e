"""State without keys as tables: list, union list and broadcast state (B17-B19).

::

    slot             int       that stored the item; of broadcast state one slot stores for all
    index, value     split and union: one row an element
    map_key, value   broadcast: one row an entry

Items lie in the metadata, so there are no files to read. Where no type is stored beside them (state
of Headrace's own, such as watermarks of splits) they are bytes by index, in any mode.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from headrace.checkpoint.restore import BROADCAST
from headrace.errors import CorruptStateError
from headrace.serialization.registry import serializer_from_snapshot
from headrace.state.schemas import stored_part
from headrace.state_processor.columns import (
    EXACT,
    INDEX,
    MAP_KEY,
    VALUE,
    number_column,
    typed_column,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.serialization.arrow_types import ArrowOptions
    from headrace.state_processor.catalog import OperatorStateList
    from headrace.state_processor.columns import Column

SLOT = "slot"


@dataclass(frozen=True, slots=True)
class ListItem:
    """One element or entry.

    Attributes:
        slot: that stored it.
        index: among those of its slot, from 0.
        key: of an entry of broadcast state, else None.
        value: the element or the entry's value.
    """

    slot: int
    index: int
    key: object
    value: object


class ListColumns:
    """Columns of one state without keys.

    Args:
        stored: the state.
        options: how types without an exact counterpart are shown.

    Raises:
        IncompatibleStateError: a newer release wrote the state.
    """

    def __init__(self, stored: OperatorStateList, options: ArrowOptions = EXACT) -> None:
        self._stored = stored
        columns: list[Column[ListItem]] = [number_column(SLOT, pa.int32(), lambda item: item.slot)]
        pickled = stored.pickled
        self._decode: Callable[[bytes], tuple[object, object]] = lambda item: (None, item)
        if not stored.serializer:
            field = pa.field(VALUE, pa.binary(), nullable=False)
            columns.append(number_column(INDEX, pa.int64(), lambda item: item.index))
            columns.append((field, lambda items: pa.array([i.value for i in items], pa.binary())))
        elif stored.mode == BROADCAST:
            key, value = (stored_part(stored.serializer, part) for part in ("key", "value"))
            columns.append(typed_column(MAP_KEY, key, lambda item: item.key, options))
            columns.append(
                typed_column(VALUE, value, lambda item: item.value, options, pickled=pickled)
            )
            self._decode = _entry_decoder(key, value)
        else:
            elements = serializer_from_snapshot(stored.serializer)
            columns.append(number_column(INDEX, pa.int64(), lambda item: item.index))
            columns.append(
                typed_column(
                    VALUE, stored.serializer, lambda item: item.value, options, pickled=pickled
                )
            )
            self._decode = lambda item: (None, elements.deserialize(item))
        self._columns = columns
        self.schema = pa.schema([field for field, _ in columns])

    def items(self) -> Iterator[ListItem]:
        """Yield the items, slot by slot.

        Raises:
            CorruptStateError: an item is not of its type.
        """
        for slot, items in itertools.groupby(self._stored.items, lambda item: item[0]):
            for index, (_, data) in enumerate(items):
                key, value = self._decode(data)
                yield ListItem(slot, index, key, value)

    def batch(self, items: Sequence[ListItem]) -> pa.RecordBatch:
        """Return items as rows."""
        return pa.RecordBatch.from_arrays(
            [column(items) for _, column in self._columns], schema=self.schema
        )


def _entry_decoder(
    key: dict[str, object], value: dict[str, object]
) -> Callable[[bytes], tuple[object, object]]:
    keys, values = serializer_from_snapshot(key), serializer_from_snapshot(value)

    def decode(item: bytes) -> tuple[object, object]:
        try:
            stored_key, stored_value = msgspec.msgpack.decode(item, type=tuple[bytes, bytes])
        except msgspec.MsgspecError as error:
            msg = f"an entry of broadcast state cannot be read: {error}; length={len(item)}"
            raise CorruptStateError(msg) from error
        return keys.deserialize(stored_key), values.deserialize(stored_value)

    return decode
