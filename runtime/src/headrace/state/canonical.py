"""Canonical files: the rows of one state as a Parquet table, for every backend and every reader.

One file a state, in the order of its rows, in row groups of bounded size whose statistics tell
their key groups, so that a slot reads what it owns and little else::

    state    key_group:uint16  key:binary  namespace:binary  user_key:binary  value:binary
    timers   key_group:uint16  time_ms:int64  key:binary  namespace:binary

The columns are the parts of a row (`headrace.state.rows`), so a row that was written is the row
that is read, to the byte, whatever its type. What the bytes of keys and values mean is in the
file's own metadata, ``headrace.state``: format version, name, kind and the snapshots of both types.
Specified in docs/state-format.md, golden-tested, never changed.

Written by the driver that makes a canonical savepoint, read by slots and by readers of state.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import CorruptStateError, IncompatibleStateError, LocalStorageError
from headrace.state.batches import row_batches
from headrace.state.rows import (
    key_group_of,
    parse_state_row,
    parse_timer_row,
    rows_of_range,
    state_row,
    timer_row,
)
from headrace.state.schemas import TIMERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from headrace.checkpoint.protocol.types import StateSchema
    from headrace.state.contract import RestoreSource
    from headrace.state.stored import StoredRows

Row = tuple[bytes, bytes]

FORMAT: Final = "canonical/1"
"""Version of what is in a file; a reader refuses another one."""

SUFFIX: Final = ".parquet"

_METADATA_KEY: Final = b"headrace.state"

ROW_GROUP_BYTES: Final = 8 << 20
"""Keys and values of a row group: bounds the memory of writer and reader, about four times this."""

ROW_GROUP_ROWS: Final = 100_000
"""See `headrace.state.batches`."""

_STATE_COLUMNS: Final = pa.schema(
    [
        pa.field("key_group", pa.uint16(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("namespace", pa.binary(), nullable=False),
        pa.field("user_key", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
_TIMER_COLUMNS: Final = pa.schema(
    [
        pa.field("key_group", pa.uint16(), nullable=False),
        pa.field("time_ms", pa.int64(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("namespace", pa.binary(), nullable=False),
    ]
)


def write_canonical_files(
    source: RestoreSource,
    stored: StoredRows,
    directory: Path,
    check: Callable[[], None] = lambda: None,
) -> list[Path]:
    """Write all states of a source of any kind; returns one file a state, in their order.

    Args:
        source: whose rows.
        stored: its rows, opened.
        directory: exists; gets the files.
        check: called for every row group; raises to give up.

    Raises:
        CorruptStateError: the rows cannot be read.
        LocalStorageError: a file cannot be written.
    """
    bounds = rows_of_range(source.key_group_range)
    paths = []
    for index, schema in enumerate(source.schemas):
        rows = stored.rows(schema.name).scan(*bounds)
        path = directory / canonical_name(index)
        write_canonical_file(path, source.key_serializer, schema, rows, check)
        paths.append(path)
    return paths


def write_canonical_file(
    path: Path,
    key_serializer: dict[str, object],
    schema: StateSchema,
    rows: Iterable[Row],
    check: Callable[[], None] = lambda: None,
) -> int:
    """Write the rows of one state.

    Args:
        path: the file; must not exist.
        key_serializer: snapshot of the key's type.
        schema: of the state.
        rows: in order; read once, and never held but for one row group.
        check: called for every row group; raises to give up.

    Returns:
        the number of rows.

    Raises:
        CorruptStateError: a row is none.
        LocalStorageError: the file cannot be written.
    """
    timers = schema.kind == TIMERS
    about = {
        "format": FORMAT,
        "name": schema.name,
        "kind": schema.kind,
        "key": key_serializer,
        "type": schema.serializer,
    }
    columns = (_TIMER_COLUMNS if timers else _STATE_COLUMNS).with_metadata(
        {_METADATA_KEY: json.dumps(about, sort_keys=True).encode()}
    )
    count = 0
    try:
        with (
            path.open("xb") as file,
            pq.ParquetWriter(
                file,
                columns,
                compression="zstd",
                use_dictionary=["namespace"],
                write_statistics=["key_group"],
            ) as writer,
        ):
            for group in row_batches(rows, ROW_GROUP_BYTES, ROW_GROUP_ROWS):
                check()
                parts = _timer_parts(group) if timers else _state_parts(group)
                writer.write_table(_table(parts, columns), row_group_size=len(group))
                count += len(group)
    except OSError as error:
        msg = f"writing a canonical file failed: {error}; file={path}"
        raise LocalStorageError(msg) from error
    return count


def _state_parts(group: list[Row]) -> Iterator[tuple[object, ...]]:
    return ((*parse_state_row(row), value) for row, value in group)


def _timer_parts(group: list[Row]) -> Iterator[tuple[object, ...]]:
    return (parse_timer_row(row) for row, _ in group)


def _table(parts: Iterable[tuple[object, ...]], columns: pa.Schema) -> pa.Table:
    arrays = [
        pa.array(values, column.type)
        for values, column in zip(zip(*parts, strict=True), columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=columns)


class CanonicalRows:
    """The rows of one state in a canonical file.

    Args:
        path: the file.
        schema: what the checkpoint says of the state.

    Raises:
        CorruptStateError: it cannot be read.
        IncompatibleStateError: a newer release wrote it.
    """

    def __init__(self, path: Path, schema: StateSchema) -> None:
        self._path = path
        self._timers = schema.kind == TIMERS
        with _reading(path), pq.ParquetFile(path) as file:
            about = (file.schema_arrow.metadata or {}).get(_METADATA_KEY)
            found = json.loads(about) if about else {}
            columns = file.schema_arrow.remove_metadata()
        if found.get("format") != FORMAT:
            msg = (
                "a canonical file has a format that this release cannot read, use the release "
                f"that wrote it or a newer one; file={path} format={found.get('format')!r}"
            )
            raise IncompatibleStateError(msg)
        expected = _TIMER_COLUMNS if self._timers else _STATE_COLUMNS
        if found.get("name") != schema.name or not columns.equals(expected):
            msg = (
                "a canonical file holds another state than its savepoint says; "
                f"file={path} state={schema.name} found={found.get('name')!r}"
            )
            raise CorruptStateError(msg)

    def scan(self, start: bytes, end: bytes) -> Iterator[Row]:
        """Yield rows with ``start <= row < end`` in order.

        Raises:
            CorruptStateError: the rows cannot be read to the end.
        """
        first, last = key_group_of(start), key_group_of(end)
        with _reading(self._path), pq.ParquetFile(self._path) as file:
            for index in range(file.num_row_groups):
                held = file.metadata.row_group(index).column(0).statistics
                if held.max < first or held.min > last:
                    continue
                for row, value in self._rows(file.read_row_group(index)):
                    if start <= row < end:
                        yield row, value

    def _rows(self, table: pa.Table) -> Iterator[Row]:
        parts = [column.to_pylist() for column in table.columns]
        if self._timers:
            for timer in zip(*parts, strict=True):
                yield timer_row(*timer), b""
            return
        for key_group, key, namespace, user_key, value in zip(*parts, strict=True):
            yield state_row(key_group, key, namespace) + user_key, value


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what Parquet's reader raises into our error."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        msg = f"stored state cannot be read, restore another checkpoint: {error}; file={path}"
        raise CorruptStateError(msg) from error


class CanonicalStorage:
    """All canonical files of one source; `headrace.state.stored.StoredRows`.

    Args:
        source: files ``*.parquet``, numbered in the order of its schemas.

    Raises:
        CorruptStateError, IncompatibleStateError: a state's file is missing or not readable.
    """

    def __init__(self, source: RestoreSource) -> None:
        self._rows = {
            schema.name: CanonicalRows(source.directory / canonical_name(index), schema)
            for index, schema in enumerate(source.schemas)
        }

    def rows(self, name: str) -> CanonicalRows:
        """Return the rows of one of the source's states."""
        return self._rows[name]

    def close(self) -> None:
        """Nothing is held open between scans."""


def canonical_name(index: int) -> str:
    """Return the file name of the state with this index in its source's schemas."""
    return f"{index:04d}{SUFFIX}"
