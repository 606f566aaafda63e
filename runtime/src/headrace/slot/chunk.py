"""Chunks: how rows travel through an exchange, many rows of one edge for one slot in one blob.

Spark shuffles chunks, not rows: the JVM touches one row of two columns for thousands of records,
and neither the JVM nor the pump ever looks inside (docs/adr/0001). The order of records in a chunk
and of chunks of one sender is kept.

::

    chunk = <encoding:u8> <tag:u8> <count:u32 LE> <body>

    OBJECTS  pickle protocol 5 of (key groups u16 LE, keys | None, timestamps i64 LE | b"", values)
    COLUMNS  Arrow IPC stream of one record batch: ``__kg`` int32, ``__ts`` int64 (may be absent),
             ``__key`` and the fields of the value, in order
    PROGRESS msgpack list of `SplitProgress`; the tag means nothing
    ORDERED  sender u32 LE, number u32 LE, then as OBJECTS: a chunk of a broadcast edge, which all
             slots process in the same order

Both ends run the same release and authenticate each other, which is why pickle may be used here; it
is never stored.
"""

from __future__ import annotations

import enum
import pickle
import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADER: Final = struct.Struct("<BBI")
_ORDER: Final = struct.Struct("<II")

KEY_GROUP_COLUMN: Final = "__kg"
TIMESTAMP_COLUMN: Final = "__ts"
KEY_COLUMN: Final = "__key"

NO_TIMESTAMP: Final = -(1 << 63)
"""Timestamp of a record that has none (Flink's ``Long.MIN_VALUE``)."""


class Encoding(enum.IntEnum):
    """First byte of a chunk."""

    OBJECTS = 1
    COLUMNS = 2
    PROGRESS = 3
    ORDERED = 4


class SplitProgress(msgspec.Struct, frozen=True, array_like=True):
    """What one source task saw of one split in one epoch.

    Attributes:
        source: index of the source among the job's sources.
        split: name of the split, e.g. ``topic-3``.
        max_timestamp_ms: greatest event timestamp, None when the source has no event time.
        records: records read.
    """

    source: int
    split: str
    max_timestamp_ms: int | None
    records: int


class ObjectRows(msgspec.Struct, frozen=True):
    """Decoded rows of an OBJECTS chunk; the lists have equal length, ``keys`` may be None."""

    tag: int
    key_groups: np.ndarray[tuple[int], np.dtype[np.uint16]]
    keys: list[object] | None
    timestamps: list[int] | None
    values: list[object]


class ColumnRows(msgspec.Struct, frozen=True):
    """Decoded rows of a COLUMNS chunk."""

    tag: int
    key_groups: np.ndarray[tuple[int], np.dtype[np.int32]]
    batch: pa.RecordBatch


def encode_objects(
    tag: int,
    key_groups: Sequence[int],
    keys: list[object] | None,
    timestamps: Sequence[int] | None,
    values: list[object],
) -> bytes:
    """Encode rows of Python objects.

    Args:
        tag: edge of the exchange.
        key_groups: one a row; empty for an edge that is not keyed.
        keys: one a row, None when the edge is not keyed.
        timestamps: milliseconds, `NO_TIMESTAMP` for none; None when no row has one.
        values: one a row.
    """
    body = pickle.dumps(
        (
            np.asarray(key_groups, dtype="<u2").tobytes(),
            keys,
            b"" if timestamps is None else np.asarray(timestamps, dtype="<i8").tobytes(),
            values,
        ),
        protocol=5,
    )
    return _HEADER.pack(Encoding.OBJECTS, tag, len(values)) + body


def encode_broadcast(
    tag: int, order: tuple[int, int], timestamps: Sequence[int] | None, values: list[object]
) -> bytes:
    """Encode rows that every slot gets.

    Args:
        tag: edge of the exchange.
        order: (sender, number of the chunk among the sender's in this epoch).
        timestamps: see `encode_objects`.
        values: one a row.
    """
    plain = encode_objects(tag, (), None, timestamps, values)
    header = _HEADER.pack(Encoding.ORDERED, tag, len(values))
    return b"".join((header, _ORDER.pack(*order), memoryview(plain)[_HEADER.size :]))


def order_of(chunk: bytes) -> tuple[int, int] | None:
    """Return the place of a broadcast chunk in its epoch, None for a chunk of another edge."""
    if chunk[0] != Encoding.ORDERED:
        return None
    sender, number = _ORDER.unpack_from(chunk, _HEADER.size)
    return sender, number


def encode_columns(tag: int, batch: pa.RecordBatch) -> bytes:
    """Encode a record batch that has a ``__kg`` column."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    return _HEADER.pack(Encoding.COLUMNS, tag, batch.num_rows) + body


def encode_progress(progress: list[SplitProgress]) -> bytes:
    """Encode what a source task saw."""
    return _HEADER.pack(Encoding.PROGRESS, 0, len(progress)) + msgspec.msgpack.encode(progress)


def tag_of(chunk: bytes) -> int:
    """Return the tag of a chunk; -1 for one that belongs to no edge."""
    return -1 if chunk[0] == Encoding.PROGRESS else chunk[1]


def retagged(chunk: bytes, tag: int) -> bytes:
    """Return the chunk under another tag, unread."""
    return b"".join((chunk[:1], bytes((tag,)), memoryview(chunk)[2:]))


def numbers(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[Any]]:
    """Return a column of integers or floats without nulls as an array; copies nothing.

    Not ``to_numpy``: its first call imports pandas, a second and 40 MB of every slot process.
    """
    return np.from_dlpack(column)


def decode(chunk: bytes) -> ObjectRows | ColumnRows | list[SplitProgress]:
    """Decode a chunk.

    Raises:
        ValueError: the first byte is no known encoding, or counts do not agree.
    """
    encoding, tag, count = _HEADER.unpack_from(chunk)
    body = memoryview(chunk)[_HEADER.size :]
    if encoding == Encoding.OBJECTS:
        return _decode_objects(tag, count, body)
    if encoding == Encoding.ORDERED:
        return _decode_objects(tag, count, body[_ORDER.size :])
    if encoding == Encoding.COLUMNS:
        with pa.ipc.open_stream(body) as reader:
            batch = reader.read_next_batch()
        if batch.num_rows != count:
            msg = f"chunk is damaged; rows={batch.num_rows} expected={count}"
            raise ValueError(msg)
        groups = numbers(batch.column(KEY_GROUP_COLUMN))
        return ColumnRows(tag, groups, batch)
    if encoding == Encoding.PROGRESS:
        return msgspec.msgpack.decode(body, type=list[SplitProgress])
    msg = f"not a chunk; encoding={encoding}"
    raise ValueError(msg)


def _decode_objects(tag: int, count: int, body: memoryview) -> ObjectRows:
    groups, keys, timestamps, values = pickle.loads(body)  # noqa: S301 - see the module docstring
    if len(values) != count:
        msg = f"chunk is damaged; rows={len(values)} expected={count}"
        raise ValueError(msg)
    return ObjectRows(
        tag,
        np.frombuffer(groups, dtype="<u2"),
        keys,
        np.frombuffer(timestamps, dtype="<i8").tolist() if timestamps else None,
        values,
    )
