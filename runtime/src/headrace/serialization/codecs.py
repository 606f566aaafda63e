"""Codecs of every described type: containers here, all others in modules of their kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Union, cast

import numpy as np

from headrace.errors import InvalidProgramError
from headrace.serialization.class_codecs import record_codec
from headrace.serialization.class_types import NumpyType, RecordType
from headrace.serialization.classes import record_of_class
from headrace.serialization.codec import Codec, identity, not_of
from headrace.serialization.exact import all_exact, each_exact
from headrace.serialization.numpy_codec import numpy_codec
from headrace.serialization.pickles import pickled, unpickled
from headrace.serialization.row import Row, RowKind, row_class
from headrace.serialization.scalar_codecs import scalar_codec
from headrace.serialization.type_text import type_text
from headrace.serialization.types import (
    ArrowArrayType,
    ArrowBatchType,
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

    from headrace.serialization.exact import Exact
    from headrace.serialization.types import TypeDescription


_KIND_NUMBERS: Final = {kind: kind.value for kind in RowKind}
"""``Enum.value`` is a slow call."""


def build_codec(description: TypeDescription) -> Codec:  # noqa: C901, PLR0911  one kind a case
    """Return the codec of a described type.

    Raises:
        InvalidProgramError: the type cannot be stored.
    """
    match description:
        case ScalarType(kind):
            return scalar_codec(kind)
        case TupleType(elements):
            return _tuple(description, [_nullable(build_codec(t)) for t in elements])
        case RowType(names, types):
            return _row(description, names, [_nullable(build_codec(t)) for t in types])
        case ListType(element):
            return _list(description, _nullable(build_codec(element)))
        case MapType(key, value):
            return _map(description, key, _nullable(build_codec(value)))
        case ClassType(python_class):
            return record_codec(record_of_class(python_class))
        case RecordType():
            return record_codec(description)
        case NumpyType():
            return numpy_codec(description)
        case ArrowArrayType() | ArrowBatchType():
            return _arrow(description)
        case PickledType():
            return _STORED_PICKLE if description.as_bytes else _PICKLED


_PICKLED: Final = Codec(
    bytes, identity, pickled, lambda wire: unpickled(cast("bytes", wire)), immutable=False
)
_STORED_PICKLE: Final = Codec(bytes, identity, identity, identity, immutable=True, verify=True)


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
        coerce=_or_none(coerce, codec.exact),
        lower=_or_none(lower, codec.exact),
        lift=identity if lift is identity else lambda wire: None if wire is None else lift(wire),
        immutable=codec.immutable,
        verify=codec.verify,
        exact=codec.exact,
    )


def _or_none(
    convert: Callable[[object], object], exact: Exact | None
) -> Callable[[object], object]:
    """Return ``convert`` that leaves None, and what needs no conversion without a further call."""
    if exact is None or exact.bounds is not None:
        return lambda value: None if value is None else convert(value)
    python_type = exact.python_type
    return lambda value: value if value is None or type(value) is python_type else convert(value)


def _tuple(description: TupleType, parts: list[Codec]) -> Codec:
    coerces = [part.coerce for part in parts]
    lowers = [part.lower for part in parts]
    lifts = [part.lift for part in parts]
    fit = each_exact([part.exact for part in parts])

    def items(value: object) -> tuple[object, ...]:
        if isinstance(value, tuple) and len(value) == len(parts):
            return value
        raise not_of(description, value)

    def coerce(value: object) -> tuple[object, ...]:
        if type(value) is tuple and fit(value):
            return value
        return tuple([convert(v) for convert, v in zip(coerces, items(value), strict=True)])

    def lower(value: object) -> tuple[object, ...]:
        if type(value) is tuple and fit(value):
            return value
        return tuple([convert(v) for convert, v in zip(lowers, items(value), strict=True)])

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
    make = row_class(names)
    lowers = [part.lower for part in parts]
    lifts = [part.lift for part in parts]
    plain = all(up is identity for up in lifts)
    fit = each_exact([part.exact for part in parts])

    def coerce(value: object) -> Row:
        if type(value) is make and len(cast("Row", value)) == len(parts):
            return cast("Row", value)
        if not isinstance(value, Row | tuple) or len(value) != len(parts):
            raise not_of(description, value)
        row = make(value)
        if isinstance(value, Row):
            row.set_row_kind(value.get_row_kind())
        return row

    def lower(value: object) -> list[object]:
        row = coerce(value)
        kind = _KIND_NUMBERS[row.get_row_kind()]
        if fit(row):
            return [kind, *row]
        return [kind, *[convert(item) for convert, item in zip(lowers, row, strict=True)]]

    def lift(wire: tuple[int, ...]) -> Row:
        kind, *items = wire
        row = make(items if plain else [up(w) for up, w in zip(lifts, items, strict=True)])
        if kind:
            row.set_row_kind(RowKind(kind))
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
    fit = all_exact(part.exact)

    def coerce(value: object) -> list[object]:
        if type(value) is list:
            return value
        if isinstance(value, list | tuple | np.ndarray) and not isinstance(value, Row):
            return list(value)
        raise not_of(description, value)

    def lower(value: object) -> list[object]:
        items = coerce(value)
        return items if fit(items) else [down(item) for item in items]

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


def may_be_map_key(key: TypeDescription) -> bool:
    """Whether values are hashable and equal exactly when their bytes are."""
    match key:
        case ScalarType(kind):
            return kind not in {ScalarKind.FLOAT, ScalarKind.DOUBLE, ScalarKind.DECIMAL}
        case TupleType(elements):
            return all(map(may_be_map_key, elements))
        case _:
            return False


def _map(description: MapType, key: TypeDescription, value_codec: Codec) -> Codec:
    if not may_be_map_key(key):
        msg = (
            "keys of a map must be strings, bytes, booleans, integers, times or tuples of these; "
            f"key={type_text(key)}"
        )
        raise InvalidProgramError(msg)
    key_codec = build_codec(key)
    key_down, key_up = key_codec.lower, key_codec.lift
    down, up = value_codec.lower, value_codec.lift
    keys_fit, values_fit = all_exact(key_codec.exact), all_exact(value_codec.exact)

    def coerce(value: object) -> dict[object, object]:
        if type(value) is dict:
            return value
        if isinstance(value, dict):
            return dict(value)
        raise not_of(description, value)

    def lower(value: object) -> dict[object, object]:
        mapping = coerce(value)
        # `None` is no key: it would pass the check of keys.
        if keys_fit(mapping) and values_fit(mapping.values()) and None not in mapping:
            return mapping
        return {key_down(k): down(v) for k, v in mapping.items()}

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


def _arrow(description: ArrowArrayType | ArrowBatchType) -> Codec:
    # pyarrow takes a tenth of a second and 40 MB to import, and most programs need none of it.
    from headrace.serialization import arrow_codecs  # noqa: PLC0415

    match description:
        case ArrowArrayType():
            return arrow_codecs.array_codec(description)
        case ArrowBatchType():
            return arrow_codecs.batch_codec(description)
