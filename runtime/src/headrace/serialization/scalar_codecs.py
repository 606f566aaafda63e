"""Codecs of scalars: numbers, strings, times."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.serialization import canonical, canonical_values
from headrace.serialization.codec import Codec, identity, not_of
from headrace.serialization.exact import Exact
from headrace.serialization.types import INTEGER_BITS, ScalarKind, ScalarType

if TYPE_CHECKING:
    from collections.abc import Callable

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  the naive epoch on purpose
_EPOCH_UTC: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_DAY_MICROS: Final = 86_400_000_000


def scalar_codec(kind: ScalarKind) -> Codec:
    """Return the codec of a scalar type."""
    description = ScalarType(kind)
    if kind in INTEGER_BITS:
        high = (1 << (INTEGER_BITS[kind] - 1)) - 1
        coerce = _integer_coercion(description, high)
        exact = Exact(int, (-high - 1, high))
        return Codec(int, coerce, coerce, identity, immutable=True, exact=exact)
    coerce, wire_type, lower, lift = _SCALARS[kind]

    python_type = _EXACT.get(kind)

    def checked(value: object) -> object:
        if type(value) is python_type:
            return value
        result = coerce(value)
        if result is None:
            raise not_of(description, value)
        return result

    if lower is identity:
        whole = None if python_type is None else Exact(python_type)
        return Codec(wire_type, checked, checked, lift, immutable=True, exact=whole)
    return Codec(wire_type, checked, lambda value: lower(checked(value)), lift, immutable=True)


def _integer_coercion(description: ScalarType, high: int) -> Callable[[object], object]:
    low = -high - 1

    def coerce(value: object) -> object:
        if type(value) is int:
            number = value
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            number = int(value)
        else:
            raise not_of(description, value)
        if low <= number <= high:
            return number
        msg = f"a value is out of its type's range; declared={description.kind.value} value={value}"
        raise TypeError(msg)

    return coerce


def _to_str(value: object) -> object:
    return str.__str__(value) if isinstance(value, str) else None


def _to_bytes(value: object) -> object:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _to_bool(value: object) -> object:
    return bool(value) if isinstance(value, bool | np.bool_) else None


def _to_big_int(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return None
    return int(value)


def _to_float(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, float | int | np.floating | np.integer):
        return None
    return float(value)


def _to_decimal(value: object) -> object:
    return Decimal(value) if isinstance(value, Decimal) else None


def _to_date(value: object) -> object:
    if isinstance(value, dt.datetime) or not isinstance(value, dt.date):
        return None
    return dt.date(value.year, value.month, value.day)


def _to_time(value: object) -> object:
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        return None
    return canonical_values.canonical(value)


def _to_timestamp(value: object) -> object:
    if type(value) is dt.datetime and value.tzinfo is None and not value.fold:
        return value
    if not isinstance(value, dt.datetime) or value.utcoffset() is not None:
        return None
    return canonical_values.canonical(value)


def _to_instant(value: object) -> object:
    if type(value) is dt.datetime and value.tzinfo is dt.UTC:
        return value
    if not isinstance(value, dt.datetime) or value.utcoffset() is None:
        return None
    return canonical_values.canonical(value)


def _to_duration(value: object) -> object:
    return canonical_values.canonical_duration(value) if isinstance(value, dt.timedelta) else None


def _lower_big_int(value: int) -> object:
    return value if -(1 << 63) <= value < 1 << 64 else canonical.int_bytes(value)


def _lift_big_int(wire: int | bytes) -> object:
    return wire if isinstance(wire, int) else int.from_bytes(wire, "big", signed=True)


def _lower_time(value: dt.time) -> object:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return seconds * 1_000_000 + value.microsecond


def _lift_time(wire: int) -> object:
    if not 0 <= wire < _DAY_MICROS:
        msg = f"not a time of day; microseconds={wire}"
        raise ValueError(msg)
    return (_EPOCH + wire * _MICROSECOND).time()


_SCALARS: Final[
    dict[
        ScalarKind,  # coerce (None = another type), wire type, lower, lift
        tuple[Callable[[object], object], object, Callable[..., object], Callable[..., object]],
    ]
] = {
    ScalarKind.STRING: (_to_str, str, identity, identity),
    ScalarKind.BYTES: (_to_bytes, bytes, identity, identity),
    ScalarKind.BOOLEAN: (_to_bool, bool, identity, identity),
    ScalarKind.BIG_INT: (_to_big_int, int | bytes, _lower_big_int, _lift_big_int),
    ScalarKind.FLOAT: (_to_float, float, identity, identity),
    ScalarKind.DOUBLE: (_to_float, float, identity, identity),
    ScalarKind.DECIMAL: (_to_decimal, str, str, Decimal),
    ScalarKind.DATE: (
        _to_date,
        int,
        lambda value: value.toordinal() - _EPOCH_ORDINAL,
        lambda wire: dt.date.fromordinal(wire + _EPOCH_ORDINAL),
    ),
    ScalarKind.TIME: (_to_time, int, _lower_time, _lift_time),
    ScalarKind.TIMESTAMP: (
        _to_timestamp,
        int,
        lambda value: (value - _EPOCH) // _MICROSECOND,
        lambda wire: _EPOCH + wire * _MICROSECOND,
    ),
    ScalarKind.INSTANT: (
        _to_instant,
        int,
        lambda value: (value - _EPOCH_UTC) // _MICROSECOND,
        lambda wire: _EPOCH_UTC + wire * _MICROSECOND,
    ),
    ScalarKind.DURATION: (
        _to_duration,
        int,
        canonical_values.duration_micros,
        lambda wire: wire * _MICROSECOND,
    ),
}


_EXACT: Final[dict[ScalarKind, type]] = {
    ScalarKind.STRING: str,
    ScalarKind.BYTES: bytes,
    ScalarKind.BOOLEAN: bool,
    ScalarKind.BIG_INT: int,
    ScalarKind.FLOAT: float,
    ScalarKind.DOUBLE: float,
    ScalarKind.DECIMAL: Decimal,
    ScalarKind.DATE: dt.date,
}
"""Values of exactly these types need no coercion."""
