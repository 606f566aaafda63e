"""State as tables: the columns of each kind of state, and entries as Arrow batches (C10, E9).

::

    key_group                          int
    key                                as declared; JSON text when the key type was not declared
    window_start_ms, window_end_ms     state of windows alone
    value                              value, reducing; the accumulator of aggregating state
    index, value                       list: one row an element, from 0
    map_key, value                     map: one row an entry
    timestamp_ms                       timers
    last_access_ms                     state with time to live: the entry expires so long after it

State without keys: `headrace.state_processor.lists`.

Types are those of `headrace.serialization.arrow_types`. Times are numbers, because a timer or a
window may lie where no timestamp reaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import pyarrow as pa

from headrace.serialization.arrow_types import ArrowOptions, arrow_array, arrow_type
from headrace.serialization.registry import described_type
from headrace.serialization.row import Row
from headrace.state.entries import EntryReader
from headrace.state.rows import parse_window_namespace
from headrace.state.schemas import LIST, MAP, TIMERS, stored_part
from headrace.state_processor.catalog import is_undeclared_key, value_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.state.entries import Row as StoredRow
    from headrace.state.entries import StoredEntry
    from headrace.state_processor.catalog import Snapshot, StateTable

E = TypeVar("E")

BATCH_ROWS: Final = 4096
"""Rows of one Arrow batch; with values of a kilobyte some megabytes."""

KEY_GROUP: Final = "key_group"
KEY: Final = "key"
WINDOW_START: Final = "window_start_ms"
WINDOW_END: Final = "window_end_ms"
INDEX: Final = "index"
MAP_KEY: Final = "map_key"
VALUE: Final = "value"
TIMESTAMP: Final = "timestamp_ms"
LAST_ACCESS: Final = "last_access_ms"

PICKLED_FIELD: Final = "headrace.pickled"
"""Metadata of a column whose values are pickles, in whole or in part."""


EXACT: Final = ArrowOptions()
"""Every type as it is, or an error."""

Column = tuple[pa.Field, Callable[[Sequence[E]], pa.Array]]
"""A column and its values of some rows."""


class TableColumns:
    """Columns of one state.

    Args:
        table: the state.
        options: how types without an exact counterpart are shown.

    Raises:
        IncompatibleStateError: a newer release wrote the state.
    """

    def __init__(self, table: StateTable, options: ArrowOptions = EXACT) -> None:
        self._options = options
        self._reader = EntryReader(table.key_serializer, table.schema)
        self._columns: list[Column[StoredEntry]] = []
        self._number(KEY_GROUP, pa.int32(), lambda entry: entry.key_group)
        self._typed(KEY, table.key_serializer, lambda entry: entry.key)
        if table.windowed:
            self._number(WINDOW_START, pa.int64(), lambda entry: _window(entry)[0])
            self._number(WINDOW_END, pa.int64(), lambda entry: _window(entry)[1])
        if table.kind == TIMERS:
            self._number(TIMESTAMP, pa.int64(), lambda entry: entry.time_ms)
            self.schema = self._schema()
            return
        if table.kind == LIST:
            self._number(INDEX, pa.int64(), lambda entry: entry.position)
        if table.kind == MAP:
            user_keys = stored_part(table.schema.serializer, "key")
            self._typed(MAP_KEY, user_keys, lambda entry: entry.user_key)
        values = value_snapshot(table.schema)
        self._typed(VALUE, values, lambda entry: entry.value, pickled=table.pickled)
        if table.expires:
            self._number(LAST_ACCESS, pa.int64(), lambda entry: entry.time_ms)
        self.schema = self._schema()

    def entries(self, rows: Iterable[StoredRow]) -> Iterator[StoredEntry]:
        """Take stored rows apart, in their order."""
        return self._reader.entries(rows)

    def batch(self, entries: Sequence[StoredEntry]) -> pa.RecordBatch:
        """Return entries as rows.

        Raises:
            ValueError: a number does not fit its column.
        """
        arrays = [column(entries) for _, column in self._columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def batches(
        self, entries: Iterable[StoredEntry], rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Return entries in batches of at most ``rows``."""
        left = iter(entries)
        while chunk := list(itertools.islice(left, rows)):
            yield self.batch(chunk)

    def _schema(self) -> pa.Schema:
        return pa.schema([field for field, _ in self._columns])

    def _number(
        self, name: str, kind: pa.DataType, of: Callable[[StoredEntry], int | None]
    ) -> None:
        self._columns.append(number_column(name, kind, of))

    def _typed(
        self,
        name: str,
        snapshot: Snapshot,
        of: Callable[[StoredEntry], object],
        *,
        pickled: bool = False,
    ) -> None:
        column = typed_column(name, snapshot, of, self._options, pickled=pickled)
        self._columns.append(column)


def number_column(name: str, kind: pa.DataType, of: Callable[[E], int | None]) -> Column[E]:
    """Return a column of numbers that are always there."""
    return pa.field(name, kind, nullable=False), lambda rows: pa.array(map(of, rows), kind)


def typed_column(
    name: str,
    snapshot: Snapshot,
    of: Callable[[E], object],
    options: ArrowOptions,
    *,
    pickled: bool = False,
) -> Column[E]:
    """Return a column of values of a stored type.

    Args:
        name: of the column.
        snapshot: of the type.
        of: a row's value.
        options: how types without an exact counterpart are shown.
        pickled: whether values are pickles, in whole or in part.

    Raises:
        IncompatibleStateError: a newer release wrote the type.
    """
    metadata = {PICKLED_FIELD: "true"} if pickled else None
    if is_undeclared_key(snapshot):
        field = pa.field(name, pa.string(), metadata=metadata)
        return field, lambda rows: pa.array([key_text(of(row)) for row in rows], pa.string())
    described = described_type(snapshot)
    field = pa.field(name, arrow_type(described, options), metadata=metadata)
    return field, lambda rows: arrow_array(described, [of(row) for row in rows], options)


def key_text(key: object) -> str:
    """Return a key of undeclared type as JSON, so that 1 and "1" stay apart."""
    return msgspec.json.encode(key, enc_hook=_plain_row).decode()


def _plain_row(value: object) -> object:
    if isinstance(value, Row):
        return list(value) if value.field_names is None else value.as_dict()
    raise NotImplementedError


def _window(entry: StoredEntry) -> tuple[int, int]:
    return parse_window_namespace(entry.namespace)
