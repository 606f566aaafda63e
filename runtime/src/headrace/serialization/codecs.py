"""How a value of each described type looks on the wire: pure conversions, no bytes.

A `Codec` lowers a value to what msgspec encodes and lifts what msgspec decoded. Codecs nest as
descriptions do. Where nothing needs converting, ``lift`` is the identity.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Union

import numpy as np

from headrace.errors import InvalidProgramError
from headrace.serialization import canonical
from headrace.serialization.compatibility import describe, format_type
from headrace.serialization.row import Row, RowKind
from headrace.serialization.types import (
    INTEGER_BITS,
    ClassType,
    ListType,
    MapType,
    PickledType,
    RowType,
    ScalarKind,
    ScalarType,
    TupleType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.serialization.types import TypeDescription

_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001  the naive epoch on purpose
_EPOCH_UTC: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EPOCH_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_DAY_MICROS: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Codec:
    """Conversions of one type.

    Attributes:
        wire_type: what msgspec decodes to.
        coerce: check and normalisation; complete for immutable types, of the outermost type else.
        lower: value -> what msgspec encodes; checks every part, TypeError.
        lift: what msgspec decoded -> value.
        immutable: whether no part of a value can change in place.
        verify: whether only decoding again proves that a value was of its type (classes).
    """

    wire_type: object
    coerce: Callable[[object], object]
    lower: Callable[[object], object]
    lift: Callable[[object], object]
    immutable: bool
    verify: bool = False


def build_codec(description: TypeDescription) -> Codec:
    """Return the codec of a described type.

    Raises:
        InvalidProgramError: the type cannot be stored.
    """
    match description:
        case ScalarType(kind):
            return _scalar(kind)
        case TupleType(elements):
            return _tuple(description, [_nullable(build_codec(t)) for t in elements])
        case RowType(names, types):
            return _row(description, names, [_nullable(build_codec(t)) for t in types])
        case ListType(element):
            return _list(description, _nullable(build_codec(element)))
        case MapType(key, value):
            return _map(description, key, _nullable(build_codec(value)))
        case ClassType(python_class):
            return _class(description, python_class)
        case PickledType():
            msg = "pickled values cannot be parts of a typed value, declare the part's type"
            raise InvalidProgramError(msg)


def identity(value: object) -> object:
    """Return ``value``."""
    return value


def not_of(description: TypeDescription, value: object) -> TypeError:
    """Return the error that says that ``value`` is not of the declared type."""
    declared = format_type(describe(description))
    found = type(value).__qualname__
    return TypeError(f"a value is not of its declared type; declared={declared} type={found}")


def _generic(container: type, *parts: object) -> object:
    """Return e.g. ``tuple[int, str]`` for types that are known at run time only."""
    return container.__class_getitem__(parts)  # type: ignore[attr-defined]  # builtins have it


def _of(lift: Callable[..., object]) -> Callable[[object], object]:
    """Return ``lift`` for what msgspec has decoded, and so checked, as the codec's wire type."""
    return lift


def _nullable(codec: Codec) -> Codec:
    coerce, lower, lift = codec.coerce, codec.lower, codec.lift
    return Codec(
        wire_type=Union[codec.wire_type, None],  # noqa: UP007  a type known at run time only
        coerce=lambda value: None if value is None else coerce(value),
        lower=lambda value: None if value is None else lower(value),
        lift=identity if lift is identity else lambda wire: None if wire is None else lift(wire),
        immutable=codec.immutable,
        verify=codec.verify,
    )


# --- scalars ---------------------------------------------------------------------------------


def _scalar(kind: ScalarKind) -> Codec:
    description = ScalarType(kind)
    if kind in INTEGER_BITS:
        coerce = _integer_coercion(description, INTEGER_BITS[kind])
        return Codec(int, coerce, coerce, identity, immutable=True)
    coerce, wire_type, lower, lift = _SCALARS[kind]

    exact = _EXACT.get(kind)

    def checked(value: object) -> object:
        if type(value) is exact:
            return value
        result = coerce(value)
        if result is None:
            raise not_of(description, value)
        return result

    if lower is identity:
        return Codec(wire_type, checked, checked, lift, immutable=True)
    return Codec(wire_type, checked, lambda value: lower(checked(value)), lift, immutable=True)


def _integer_coercion(description: ScalarType, bits: int) -> Callable[[object], object]:
    high = (1 << (bits - 1)) - 1
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
    return canonical.canonical(value)


def _to_timestamp(value: object) -> object:
    if not isinstance(value, dt.datetime) or value.utcoffset() is not None:
        return None
    return canonical.canonical(value)


def _to_instant(value: object) -> object:
    if not isinstance(value, dt.datetime) or value.utcoffset() is None:
        return None
    return canonical.canonical(value)


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


# --- containers ------------------------------------------------------------------------------


def _tuple(description: TupleType, parts: list[Codec]) -> Codec:
    coerces = [part.coerce for part in parts]
    lowers = [part.lower for part in parts]
    lifts = [part.lift for part in parts]

    def items(value: object) -> tuple[object, ...]:
        if isinstance(value, tuple) and len(value) == len(parts):
            return value
        raise not_of(description, value)

    def coerce(value: object) -> tuple[object, ...]:
        return tuple([convert(v) for convert, v in zip(coerces, items(value), strict=True)])

    def lower(value: object) -> list[object]:
        return [convert(v) for convert, v in zip(lowers, items(value), strict=True)]

    def lift(wire: tuple[object, ...]) -> tuple[object, ...]:
        return tuple([convert(w) for convert, w in zip(lifts, wire, strict=True)])

    return Codec(
        wire_type=_generic(tuple, *(part.wire_type for part in parts)),
        coerce=coerce,
        lower=lower,
        lift=identity if all(convert is identity for convert in lifts) else _of(lift),
        immutable=all(part.immutable for part in parts),
        verify=any(part.verify for part in parts),
    )


def _row(description: RowType, names: tuple[str, ...], parts: list[Codec]) -> Codec:
    lowers = [part.lower for part in parts]
    lifts = [part.lift for part in parts]

    def coerce(value: object) -> Row:
        if not isinstance(value, Row | tuple) or len(value) != len(parts):
            raise not_of(description, value)
        if isinstance(value, Row) and value.field_names == names:
            return value
        row = Row.of_names(names, list(value))
        if isinstance(value, Row):
            row.set_row_kind(value.get_row_kind())
        return row

    def lower(value: object) -> list[object]:
        row = coerce(value)
        wire: list[object] = [row.get_row_kind().value]
        wire.extend([convert(item) for convert, item in zip(lowers, row, strict=True)])
        return wire

    def lift(wire: tuple[int, ...]) -> Row:
        row = Row.of_names(names, [up(w) for up, w in zip(lifts, wire[1:], strict=True)])
        if wire[0]:
            row.set_row_kind(RowKind(wire[0]))
        return row

    return Codec(
        wire_type=_generic(tuple, int, *(part.wire_type for part in parts)),
        coerce=coerce,
        lower=lower,
        lift=_of(lift),
        immutable=False,
        verify=any(part.verify for part in parts),
    )


def _list(description: ListType, part: Codec) -> Codec:
    down, up = part.lower, part.lift

    def coerce(value: object) -> list[object]:
        if type(value) is list:
            return value
        if isinstance(value, list | tuple | np.ndarray):
            return list(value)
        raise not_of(description, value)

    def lower(value: object) -> list[object]:
        return [down(item) for item in coerce(value)]

    def lift(wire: list[object]) -> list[object]:
        return [up(item) for item in wire]

    return Codec(
        wire_type=_generic(list, part.wire_type),
        coerce=coerce,
        lower=lower,
        lift=identity if up is identity else _of(lift),
        immutable=False,
        verify=part.verify,
    )


_MAP_KEYS: Final = frozenset(INTEGER_BITS) | {
    ScalarKind.STRING,
    ScalarKind.BYTES,
    ScalarKind.BOOLEAN,
    ScalarKind.DATE,
    ScalarKind.TIME,
    ScalarKind.TIMESTAMP,
}


def _map(description: MapType, key: TypeDescription, value_codec: Codec) -> Codec:
    if not (isinstance(key, ScalarType) and key.kind in _MAP_KEYS):
        msg = (
            "keys of a map must be strings, bytes, booleans, integers, dates or times; "
            f"key={format_type(describe(key))}"
        )
        raise InvalidProgramError(msg)
    key_codec = build_codec(key)
    key_down, key_up = key_codec.lower, key_codec.lift
    down, up = value_codec.lower, value_codec.lift

    def coerce(value: object) -> dict[object, object]:
        if type(value) is dict:
            return value
        if isinstance(value, dict):
            return dict(value)
        raise not_of(description, value)

    def lower(value: object) -> dict[object, object]:
        return {key_down(k): down(v) for k, v in coerce(value).items()}

    def lift(wire: dict[object, object]) -> dict[object, object]:
        return {key_up(k): up(v) for k, v in wire.items()}

    return Codec(
        wire_type=_generic(dict, key_codec.wire_type, value_codec.wire_type),
        coerce=coerce,
        lower=lower,
        lift=identity if key_up is identity and up is identity else _of(lift),
        immutable=False,
        verify=value_codec.verify,
    )


def _class(description: ClassType, python_class: type) -> Codec:
    describe(description)  # refuses fields that cannot be stored

    def coerce(value: object) -> object:
        if type(value) is python_class:
            return value
        raise not_of(description, value)

    return Codec(python_class, coerce, coerce, identity, immutable=False, verify=True)
