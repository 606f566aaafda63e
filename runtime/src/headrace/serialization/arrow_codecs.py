"""Codecs of Arrow arrays and record batches: the Arrow IPC message, without its schema.

The schema follows from the declared type (`headrace.serialization.arrow_types`), so it is not
repeated with each value. What is stored is cast to it without loss, or refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pyarrow as pa

from headrace.errors import InvalidProgramError
from headrace.serialization.arrow_types import arrow_schema
from headrace.serialization.codec import Codec
from headrace.serialization.types import (
    ArrowArrayType,
    ArrowBatchType,
    ListType,
    MapType,
    RowType,
    ScalarType,
    TupleType,
)

if TYPE_CHECKING:
    from headrace.serialization.types import TypeDescription


def batch_codec(description: ArrowBatchType) -> Codec:
    """Return the codec of record batches with the columns of a row.

    Raises:
        InvalidProgramError: a column's type has no exact Arrow counterpart.
    """
    schema = arrow_schema(_checked(description.row))

    def coerce(value: object) -> pa.RecordBatch:
        if not isinstance(value, pa.RecordBatch):
            raise _not_of(schema, type(value).__qualname__)
        return _cast_batch(value, schema)

    return Codec(
        wire_type=bytes,
        coerce=coerce,
        lower=lambda value: batch_bytes(coerce(value)),
        lift=lambda wire: batch_of_bytes(cast("bytes", wire), schema),
        immutable=False,  # it may share memory with an array that the user changes
    )


def array_codec(description: ArrowArrayType) -> Codec:
    """Return the codec of arrays of one element type; stored as a batch of one column.

    Raises:
        InvalidProgramError: the element's type has no exact Arrow counterpart.
    """
    schema = arrow_schema(_checked(item_row(description)))

    def coerce(value: object) -> pa.Array:
        if not isinstance(value, pa.Array):
            raise _not_of(schema, type(value).__qualname__)
        batch = pa.RecordBatch.from_arrays([value], ["item"])
        return _cast_batch(batch, schema).column(0)

    def lower(value: object) -> bytes:
        return batch_bytes(pa.RecordBatch.from_arrays([coerce(value)], schema=schema))

    return Codec(
        wire_type=bytes,
        coerce=coerce,
        lower=lower,
        lift=lambda wire: batch_of_bytes(cast("bytes", wire), schema).column(0),
        immutable=False,
    )


def item_row(description: ArrowArrayType) -> RowType:
    """Return the row under which an array's elements are stored."""
    return RowType(("item",), (description.element_type,))


def batch_bytes(batch: pa.RecordBatch) -> bytes:
    """Return a batch's IPC message."""
    return cast("bytes", batch.serialize().to_pybytes())


def batch_of_bytes(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of `batch_bytes`'s result.

    Raises:
        ValueError: not such bytes.
    """
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        batch.validate()
    except (pa.ArrowException, OSError, EOFError) as error:
        msg = f"not an Arrow record batch: {error}"
        raise ValueError(msg) from error
    return batch


def migrate_batch(
    wire: object, stored: RowType, declared: RowType, sources: dict[str, str | None]
) -> bytes:
    """Return a stored batch with the columns of another row.

    Args:
        wire: a stored batch.
        stored: its columns.
        declared: the columns that it is to have.
        sources: for each of these the column that it is made of; None for a column of nulls.

    Raises:
        ValueError: a value has no counterpart.
    """
    batch = batch_of_bytes(cast("bytes", wire), arrow_schema(stored))
    schema = arrow_schema(declared)
    try:
        columns = [_migrated_column(batch, sources[field.name], field.type) for field in schema]
    except pa.ArrowException as error:
        msg = f"a column cannot become another type without loss: {error}; declared={schema}"
        raise ValueError(msg) from error
    return batch_bytes(pa.RecordBatch.from_arrays(columns, schema=schema))


def _migrated_column(batch: pa.RecordBatch, source: str | None, declared: pa.DataType) -> pa.Array:
    if source is None:
        return pa.nulls(batch.num_rows, declared)
    return batch.column(source).cast(declared, safe=True)


def _cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names:
        raise _not_of(schema, str(batch.schema.names))
    try:
        columns = [
            column.cast(field.type, safe=True)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
    except pa.ArrowException as error:
        raise _not_of(schema, f"{batch.schema}: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _not_of(schema: pa.Schema, found: str) -> TypeError:
    declared = ", ".join(f"{field.name}: {field.type}" for field in schema)
    return TypeError(f"a value is not of its declared type; declared=<{declared}> type={found}")


def _checked(row: RowType) -> RowType:
    _check(row)
    return row


def _check(description: TypeDescription) -> None:
    """Refuse column types whose Arrow form is another type's."""
    match description:
        case ScalarType():
            return
        case RowType(_, parts) | TupleType(parts):
            for part in parts:
                _check(part)
        case ListType(element):
            _check(element)
        case MapType(key, value):
            _check(key)
            _check(value)
        case _:
            msg = (
                "columns of Arrow values must be scalars, rows, tuples, lists or maps; "
                f"found={type(description).__name__}"
            )
            raise InvalidProgramError(msg)
