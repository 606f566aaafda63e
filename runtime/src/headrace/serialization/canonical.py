"""Canonical, self-describing bytes of Python values: the codec of keys without a declared type.

Equal values of equal types have equal bytes in every process and for every ``PYTHONHASHSEED``;
values of different types never do (``1``, ``1.0`` and ``True`` are three keys, T10), and no two
nested values collide (``("ab", "c")`` and ``("a", "bc")``, T9), because every item carries a tag
and every variable part a length::

    00                                   None
    01 | 02                              False | True
    03 <length:u32> <two's complement>   int of any size, shortest big-endian form
    04 <ieee754:8>                       float; -0.0 is 0.0, one NaN
    05 <length:u32> <utf-8>              str
    06 <length:u32> <bytes>              bytes
    07 <length:u32> <ascii>              Decimal: NaN, Infinity, -Infinity or <int>E<int>, shortest
    08 <ordinal:u32>                     date, proleptic Gregorian ordinal
    09 <microseconds:i64>                datetime without zone, since 1970-01-01T00:00
    0a <microseconds:i64>                datetime with zone, since 1970-01-01T00:00Z
    0b <count:u32> <item>*               tuple
    0c <count:u32> <item>*               list
    0d <count:u32> <named:u8> <name item>* <item>*   Row of kind INSERT
    0e <microseconds:i64>                time without zone, since midnight
    0f <microseconds:i64>                timedelta

All numbers are big-endian. The format is stored in checkpoints: golden-tested, never changed.
"""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from headrace.errors import CorruptStateError
from headrace.serialization.canonical_values import (
    EPOCH,
    EPOCH_UTC,
    MICROSECOND,
    canonical,
    canonical_float,
    duration_micros,
    micros_of,
)
from headrace.serialization.row import Row

if TYPE_CHECKING:
    from collections.abc import Callable

_U32: Final = struct.Struct(">I")
_I64: Final = struct.Struct(">q")
_F64: Final = struct.Struct(">d")


def encode(value: object) -> bytes:
    """Return the canonical bytes of ``value``.

    Raises:
        TypeError: the value, or one nested in it, is of a type that cannot be a key.
    """
    return encode_canonical(canonical(value))


def encode_canonical(value: object) -> bytes:
    """Return the bytes of a value that `canonical` returned.

    Raises:
        TypeError: a string with a lone surrogate.
    """
    out = bytearray()
    _encode(value, out)
    return bytes(out)


def decode(data: bytes) -> object:
    """Return the value of canonical bytes.

    Raises:
        CorruptStateError: not bytes that `encode` has written.
    """
    try:
        value, end = _decode(data, 0)
    except (struct.error, IndexError, ValueError, ArithmeticError, RecursionError) as error:
        msg = f"canonical bytes cannot be decoded; length={len(data)}"
        raise CorruptStateError(msg) from error
    if end != len(data):
        msg = f"canonical bytes go on behind their value; length={len(data)} end={end}"
        raise CorruptStateError(msg)
    return value


def _encode(value: object, out: bytearray) -> None:
    encoder = _ENCODERS.get(type(value))
    if encoder is None:  # named rows have classes of their own
        encoder = _ENCODERS[Row if isinstance(value, Row) else type(value)]
    encoder(value, out)


def _sized(tag: int, data: bytes, out: bytearray) -> None:
    out.append(tag)
    out += _U32.pack(len(data))
    out += data


def _encode_str(value: str, out: bytearray) -> None:
    _sized(0x05, utf8(value), out)


def utf8(value: str) -> bytes:
    """Return ``value`` as UTF-8.

    Raises:
        TypeError: a lone surrogate, which no other process could read.
    """
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        msg = f"a string with a lone surrogate has no UTF-8 form; at={error.start}"
        raise TypeError(msg) from error


def int_bytes(value: int) -> bytes:
    """Return the shortest big-endian two's complement of ``value``, at least one byte."""
    return value.to_bytes((value + (value < 0)).bit_length() // 8 + 1, "big", signed=True)


def _encode_decimal(value: Decimal, out: bytearray) -> None:
    if value.is_finite():
        sign, digits, exponent = value.as_tuple()
        text = f"{'-' if sign else ''}{''.join(map(str, digits))}E{exponent}"
    else:
        text = str(value)
    _sized(0x07, text.encode("ascii"), out)


def _encode_datetime(value: dt.datetime, out: bytearray) -> None:
    out.append(0x09 if value.tzinfo is None else 0x0A)
    out += _I64.pack(micros_of(value))


def _encode_items(tag: int, items: tuple[object, ...] | list[object], out: bytearray) -> None:
    out.append(tag)
    out += _U32.pack(len(items))
    for item in items:
        _encode(item, out)


def _encode_row(value: Row, out: bytearray) -> None:
    out.append(0x0D)
    out += _U32.pack(len(value))
    out.append(value.field_names is not None)
    for name in value.field_names or ():
        _encode(name, out)
    for item in value:
        _encode(item, out)


def _time_micros(value: dt.time) -> int:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


_ENCODERS: Final[dict[type, Callable[..., None]]] = {
    type(None): lambda _, out: out.append(0x00),
    bool: lambda value, out: out.append(0x02 if value else 0x01),
    int: lambda value, out: _sized(0x03, int_bytes(value), out),
    float: lambda value, out: out.extend(b"\x04" + _F64.pack(value)),
    str: _encode_str,
    bytes: lambda value, out: _sized(0x06, value, out),
    Decimal: _encode_decimal,
    dt.date: lambda value, out: out.extend(b"\x08" + _U32.pack(value.toordinal())),
    dt.datetime: _encode_datetime,
    tuple: lambda value, out: _encode_items(0x0B, value, out),
    list: lambda value, out: _encode_items(0x0C, value, out),
    Row: _encode_row,
    dt.time: lambda value, out: out.extend(b"\x0e" + _I64.pack(_time_micros(value))),
    dt.timedelta: lambda value, out: out.extend(b"\x0f" + _I64.pack(duration_micros(value))),
}


def _decode(data: bytes, at: int) -> tuple[object, int]:
    tag = data[at]
    if tag >= len(_DECODERS):
        msg = f"unknown tag {tag}"
        raise ValueError(msg)
    return _DECODERS[tag](data, at + 1)


def _part(data: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _U32.unpack_from(data, at)
    end = at + 4 + length
    if end > len(data):
        msg = "a part ends behind the data"
        raise ValueError(msg)
    return data[at + 4 : end], end


def _decode_int(data: bytes, at: int) -> tuple[object, int]:
    part, end = _part(data, at)
    return int.from_bytes(part, "big", signed=True), end


def _decode_str(data: bytes, at: int) -> tuple[object, int]:
    part, end = _part(data, at)
    return part.decode(), end


def _decode_decimal(data: bytes, at: int) -> tuple[object, int]:
    part, end = _part(data, at)
    return Decimal(part.decode("ascii")), end


def _decode_items(data: bytes, at: int) -> tuple[list[object], int]:
    (count,) = _U32.unpack_from(data, at)
    at += 4
    items: list[object] = []
    for _ in range(count):
        item, at = _decode(data, at)
        items.append(item)
    return items, at


def _decode_tuple(data: bytes, at: int) -> tuple[object, int]:
    items, at = _decode_items(data, at)
    return tuple(items), at


def _decode_row(data: bytes, at: int) -> tuple[object, int]:
    (count,) = _U32.unpack_from(data, at)
    named = data[at + 4]
    at += 5
    parts: list[object] = []
    for _ in range(count * 2 if named else count):
        part, at = _decode(data, at)
        parts.append(part)
    names = tuple(str(name) for name in parts[:count]) if named else None
    return Row.of_names(names, parts[count:] if named else parts), at


def _decode_micros(data: bytes, at: int, epoch: dt.datetime) -> tuple[object, int]:
    return epoch + _I64.unpack_from(data, at)[0] * MICROSECOND, at + 8


def _decode_float(data: bytes, at: int) -> tuple[object, int]:
    return canonical_float(_F64.unpack_from(data, at)[0]), at + 8


def _decode_date(data: bytes, at: int) -> tuple[object, int]:
    return dt.date.fromordinal(_U32.unpack_from(data, at)[0]), at + 4


def _decode_time(data: bytes, at: int) -> tuple[object, int]:
    moment = EPOCH + _I64.unpack_from(data, at)[0] * MICROSECOND
    return moment.time(), at + 8


_DECODERS: Final[tuple[Callable[[bytes, int], tuple[object, int]], ...]] = (
    lambda _, at: (None, at),
    lambda _, at: (False, at),
    lambda _, at: (True, at),
    _decode_int,
    _decode_float,
    _decode_str,
    _part,
    _decode_decimal,
    _decode_date,
    lambda data, at: _decode_micros(data, at, EPOCH),
    lambda data, at: _decode_micros(data, at, EPOCH_UTC),
    _decode_tuple,
    _decode_items,
    _decode_row,
    _decode_time,
    lambda data, at: (_I64.unpack_from(data, at)[0] * MICROSECOND, at + 8),
)
