"""Representatives of values that are one key: what Python, NumPy and pandas call the same thing.

All relatives of a value (``np.int64(5)`` and ``5``, an instant in two zones, the decimals 1.0 and
1.00) have one representative, which is what comes back from a key's bytes. So equal keys have equal
bytes (T10), and code that caches by the representative agrees with the stored rows.
`headrace.serialization.canonical` turns representatives into bytes.
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Final

import numpy as np

from headrace.serialization.row import Row, RowKind

EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  the naive epoch on purpose
EPOCH_UTC: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MICROSECOND: Final = dt.timedelta(microseconds=1)

NAN: Final = math.nan
"""The one NaN that decoding and coercion return."""


def canonical(value: object) -> object:
    """Return the representative of all values that have the same bytes as ``value``.

    It is what `decode` returns for them: NumPy scalars become Python's, subclasses their base,
    aware datetimes UTC, decimals their shortest form.

    Raises:
        TypeError: a type that cannot be a key.
    """
    if type(value) in _ATOMIC:
        return value
    return _canonical_other(value)


_ATOMIC: Final = frozenset({str, int, bytes, bool, type(None)})


def _canonical_other(value: object) -> object:  # noqa: C901, PLR0911, PLR0912  one type a line
    match value:
        case float():
            return canonical_float(value)
        case np.generic():
            return canonical(_python_scalar(value))
        case tuple():
            return tuple(canonical(item) for item in value)
        case Row():
            if value.get_row_kind() is not RowKind.INSERT:
                msg = (
                    f"a row used as a key must be of kind INSERT; kind={value.get_row_kind().name}"
                )
                raise TypeError(msg)
            return Row.of_names(value.field_names, [canonical(item) for item in value])
        case list():
            return [canonical(item) for item in value]
        case str():
            return str.__str__(value)
        case int():
            return int.__index__(value)
        case bytes() | bytearray():
            return bytes(value)
        case Decimal():
            return _canonical_decimal(value)
        case dt.datetime():
            return _canonical_datetime(value)
        case dt.date():
            return dt.date(value.year, value.month, value.day)
        case dt.time() if value.tzinfo is None:
            return dt.time(value.hour, value.minute, value.second, value.microsecond)
        case dt.timedelta():
            return canonical_duration(value)
    found = f"{type(value).__module__}.{type(value).__qualname__}"
    msg = (
        "a key must be None, bool, int, float, str, bytes, Decimal, date, time, datetime, "
        f"timedelta, or a tuple, list or Row of these; type={found}"
    )
    raise TypeError(msg)


def check_insert(row: Row) -> None:
    """Refuse rows that say "delete" or "update": their kind would be lost in a key.

    Raises:
        TypeError: the row's kind is not INSERT.
    """
    if row.get_row_kind() is not RowKind.INSERT:
        msg = f"a row used as a key must be of kind INSERT; kind={row.get_row_kind().name}"
        raise TypeError(msg)


def canonical_float(value: float) -> float:
    """Return ``value`` with -0.0 as 0.0 and every NaN as `NAN`."""
    return float(value) + 0.0 if value == value else NAN  # noqa: PLR0124  only NaN differs


def _python_scalar(value: np.generic) -> object:
    if isinstance(value, np.datetime64 | np.timedelta64 | np.complexfloating | np.void):
        msg = f"a NumPy value of this type cannot be a key; type=numpy.{type(value).__name__}"
        raise TypeError(msg)
    scalar: object = value.item()
    return scalar


def _canonical_decimal(value: Decimal) -> Decimal:
    if value.is_snan():
        msg = "a signaling NaN cannot be a key; type=decimal.Decimal"
        raise TypeError(msg)
    if value.is_nan():
        return Decimal("NaN")
    if value.is_infinite():
        return Decimal("Infinity") if value > 0 else Decimal("-Infinity")
    if value == 0:
        return Decimal(0)
    # Decimal.normalize would round to the context's precision; strip zeros exactly instead.
    sign, digits, exponent = value.as_tuple()
    end = len(digits)
    while digits[end - 1] == 0:
        end -= 1
    start = 0
    while digits[start] == 0:
        start += 1
    return Decimal((sign, digits[start:end], int(exponent) + len(digits) - end))


def _canonical_datetime(value: dt.datetime) -> dt.datetime:
    if getattr(value, "nanosecond", 0):  # pandas.Timestamp
        msg = f"a key's time has microseconds at most; type={type(value).__qualname__}"
        raise TypeError(msg)
    epoch = EPOCH if value.utcoffset() is None else EPOCH_UTC
    try:
        return epoch + micros_of(value) * MICROSECOND
    except OverflowError as error:
        msg = f"a key's time must lie in the years 1 to 9999 in UTC; value={value!s}"
        raise TypeError(msg) from error


def canonical_duration(value: dt.timedelta) -> dt.timedelta:
    """Return ``value`` as a plain timedelta.

    Raises:
        TypeError: its microseconds do not fit 64 bits, or it has nanoseconds (pandas.Timedelta).
    """
    micros = duration_micros(value)
    if getattr(value, "nanoseconds", 0) or not -(1 << 63) <= micros < 1 << 63:
        msg = (
            "a duration must be whole microseconds that fit 64 bits; "
            f"type={type(value).__qualname__} value={value!s}"
        )
        raise TypeError(msg)
    return value if type(value) is dt.timedelta else micros * MICROSECOND


def duration_micros(value: dt.timedelta) -> int:
    """Return the whole microseconds of ``value``."""
    return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds


def micros_of(value: dt.datetime) -> int:
    """Return the microseconds since 1970, of a time with zone in UTC."""
    epoch = EPOCH if value.utcoffset() is None else EPOCH_UTC
    return (value - epoch) // MICROSECOND
