"""Arrow types of stored types, for reading state as data and for Arrow values (E9).

Every described type has one Arrow type, of those that Spark knows (its ``from_arrow_type``): no
unsigned numbers, no dictionaries, times in microseconds. `arrow_type` maps types, `arrow_array`
values of `registry.serializer_from_snapshot`'s making::

    scalars                     bool, int8..int64, float, double, string, binary, date32,
                                time64[us], timestamp[us], timestamp[us, UTC], duration[us]
    DECIMAL, BIG_INT            decimal128(38, 18), decimal128(38, 0), or text by option
    row, tuple, class           struct (of a tuple: f0, f1...); a row's kind is not shown
    list, set, var_tuple        list                map     map
    enum, literal               string or int64     uuid    string
    numpy                       lists as deep as its dimensions, or struct<shape, data>
    arrow_array, arrow_batch    list of its elements, list of structs
    pickled                     binary: the pickle
    union, recursive            string: JSON
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final, cast

import msgspec
import numpy as np
import pyarrow as pa

from headrace.serialization.class_types import (
    ChoiceType,
    CollectionType,
    DictType,
    FixedTupleType,
    NativeKind,
    NativeType,
    NumpyType,
    OptionalType,
    RecordType,
    RecursiveType,
    UnionType,
)
from headrace.serialization.classes import record_of_class
from headrace.serialization.row import Row
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
    from collections.abc import Iterable, Sequence

    from headrace.serialization.numpy_codec import AnyArray
    from headrace.serialization.types import AnyType

DECIMAL_SCALE: Final = 18
DECIMAL_DIGITS: Final = 38

Convert = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class ArrowOptions:
    """How types without an exact Arrow counterpart are shown.

    Attributes:
        decimals_as_text: DECIMAL and BIG_INT as strings, for values beyond 38 digits or 18 places.
    """

    decimals_as_text: bool = False


_US: Final = "us"
_SCALARS: Final[dict[ScalarKind, pa.DataType]] = {
    ScalarKind.STRING: pa.string(),
    ScalarKind.BYTES: pa.binary(),
    ScalarKind.BOOLEAN: pa.bool_(),
    ScalarKind.BYTE: pa.int8(),
    ScalarKind.SHORT: pa.int16(),
    ScalarKind.INT: pa.int32(),
    ScalarKind.LONG: pa.int64(),
    ScalarKind.BIG_INT: pa.decimal128(DECIMAL_DIGITS, 0),
    ScalarKind.FLOAT: pa.float32(),
    ScalarKind.DOUBLE: pa.float64(),
    ScalarKind.DECIMAL: pa.decimal128(DECIMAL_DIGITS, DECIMAL_SCALE),
    ScalarKind.DATE: pa.date32(),
    ScalarKind.TIME: pa.time64(_US),
    ScalarKind.TIMESTAMP: pa.timestamp(_US),
    ScalarKind.INSTANT: pa.timestamp(_US, "UTC"),
    ScalarKind.DURATION: pa.duration(_US),
}

_NATIVE: Final[dict[NativeKind, pa.DataType]] = {
    NativeKind.BOOLEAN: pa.bool_(),
    NativeKind.LONG: pa.int64(),
    NativeKind.DOUBLE: pa.float64(),
    NativeKind.STRING: pa.string(),
    NativeKind.BYTES: pa.binary(),
    NativeKind.DECIMAL: pa.decimal128(DECIMAL_DIGITS, DECIMAL_SCALE),
    NativeKind.DATE: pa.date32(),
    NativeKind.TIME: pa.time64(_US),
    # With or without zone, by value: text keeps both.
    NativeKind.DATETIME: pa.string(),
    NativeKind.TIMEDELTA: pa.duration(_US),
    NativeKind.UUID: pa.string(),
    NativeKind.NONE: pa.null(),
}

_WIDER: Final = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "float16": "float32"}


def arrow_type(description: AnyType, options: ArrowOptions = ArrowOptions()) -> pa.DataType:
    """Return the Arrow type of a described type."""
    return _Mapping(options).type_of(description)


def arrow_schema(row: RowType, options: ArrowOptions = ArrowOptions()) -> pa.Schema:
    """Return the Arrow schema of a row's fields."""
    return pa.schema(list(cast("Iterable[pa.Field]", arrow_type(row, options))))


def arrow_array(
    description: AnyType,
    values: Sequence[object],
    options: ArrowOptions = ArrowOptions(),
) -> pa.Array:
    """Return values of a described type as an Arrow array.

    Raises:
        ValueError: a value does not fit, e.g. a decimal of more than 38 digits.
    """
    convert = _Mapping(options).convert(description)
    of = arrow_type(description, options)
    try:
        return pa.array([None if v is None else convert(v) for v in values], of)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        msg = f"values cannot be shown as Arrow: {error}; type={of}"
        raise ValueError(msg) from error


class _Mapping:
    """Types and conversions under one set of options."""

    def __init__(self, options: ArrowOptions) -> None:
        self._options = options

    def type_of(self, description: AnyType) -> pa.DataType:  # noqa: C901, PLR0911, PLR0912  one a kind
        type_of = self.type_of
        match description:
            case ScalarType(ScalarKind.DECIMAL | ScalarKind.BIG_INT) | NativeType(
                NativeKind.DECIMAL
            ) if self._options.decimals_as_text:
                return pa.string()
            case ScalarType(kind):
                return _SCALARS[kind]
            case NativeType(native):
                return _NATIVE[native]
            case PickledType():
                return pa.binary()
            case RowType(names, types):
                return pa.struct(list(zip(names, map(type_of, types), strict=True)))
            case TupleType(elements):
                return pa.struct([(f"f{i}", type_of(t)) for i, t in enumerate(elements)])
            case FixedTupleType(parts):
                return pa.struct([(f"f{i}", type_of(t)) for i, t in enumerate(parts)])
            case ListType(element) | ArrowArrayType(element):
                return pa.list_(type_of(element))
            case CollectionType(_, part):
                return pa.list_(type_of(part))
            case MapType(key, value):
                return pa.map_(type_of(key), type_of(value))
            case DictType(of_key, of_value):
                return pa.map_(type_of(of_key), type_of(of_value))
            case ArrowBatchType(row):
                return pa.list_(type_of(row))
            case ClassType(python_class):
                return type_of(record_of_class(python_class))
            case RecordType():
                fields = [(field.name, type_of(field.type)) for field in description.fields]
                tag = description.tag
                return pa.struct(fields if tag is None else [(tag.field, pa.string()), *fields])
            case OptionalType(of):
                return type_of(of)
            case ChoiceType(_, values):
                return pa.int64() if all(isinstance(v, int) for v in values) else pa.string()
            case NumpyType():
                return _numpy_type(description)
            case UnionType() | RecursiveType():
                return pa.string()

    def convert(self, description: AnyType) -> Convert:  # noqa: C901, PLR0911, PLR0912  one a kind
        """Return what turns a value, not None, into one that `pyarrow.array` takes."""
        match description:
            case ScalarType(ScalarKind.DECIMAL | ScalarKind.BIG_INT) | NativeType(
                NativeKind.DECIMAL
            ):
                return str if self._options.decimals_as_text else _decimal
            case NativeType(NativeKind.UUID | NativeKind.DATETIME):
                return _text
            case RowType(names, types):
                return _struct(names, [self._nullable(t) for t in types])
            case TupleType(elements):
                return _struct_of_items([self._nullable(t) for t in elements])
            case FixedTupleType(parts):
                return _struct_of_items([self._nullable(t) for t in parts])
            case ListType(element):
                return _each(self._nullable(element))
            case CollectionType(_, part):
                return _each(self._nullable(part))
            case MapType(key, value):
                return _pairs(self._nullable(key), self._nullable(value))
            case DictType(of_key, of_value):
                return _pairs(self._nullable(of_key), self._nullable(of_value))
            case ClassType(python_class):
                return self.convert(record_of_class(python_class))
            case RecordType():
                return self._record(description)
            case OptionalType(of):
                return self.convert(of)
            case ArrowArrayType() | ArrowBatchType():
                return lambda value: cast("pa.Array", value).to_pylist()
            case NumpyType(_, None):
                return _shape_and_data
            case NumpyType():
                return lambda value: cast("AnyArray", value).tolist()
            case UnionType() | RecursiveType():
                return _json
            case _:
                return lambda value: value

    def _nullable(self, description: AnyType) -> Convert:
        convert = self.convert(description)
        return lambda value: None if value is None else convert(value)

    def _record(self, record: RecordType) -> Convert:
        converts = {field.name: self._nullable(field.type) for field in record.fields}
        tag = record.tag

        def convert(value: object) -> object:
            fields = cast("dict[str, object]", value)
            struct = {name: of(fields.get(name)) for name, of in converts.items()}
            return struct if tag is None else {tag.field: str(tag.value)} | struct

        return convert


def _numpy_type(description: NumpyType) -> pa.DataType:
    name = description.dtype
    element = (
        pa.decimal128(20, 0)
        if name == "uint64"
        else pa.from_numpy_dtype(np.dtype(_WIDER.get(name, name)))
    )
    if description.ndim is None:
        return pa.struct([("shape", pa.list_(pa.int64())), ("data", pa.list_(element))])
    nested = (pa.list_ for _ in range(description.ndim))
    return functools.reduce(lambda inner, wrap: wrap(inner), nested, element)


def _shape_and_data(value: object) -> object:
    array = cast("AnyArray", value)
    return {"shape": list(array.shape), "data": array.ravel().tolist()}


def _decimal(value: object) -> object:
    number = Decimal(cast("Decimal", value))
    if not number.is_finite():
        msg = f"a decimal is not finite, show decimals as text; value={number}"
        raise ValueError(msg)
    return number


def _text(value: object) -> str:
    return str(value) if isinstance(value, uuid.UUID) else cast("str", msgspec.to_builtins(value))


def _json(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=_json_hook).decode()


def _json_hook(value: object) -> object:
    if isinstance(value, Row):
        return value.as_dict()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError


def _struct(names: tuple[str, ...], converts: list[Convert]) -> Convert:
    def convert(value: object) -> object:
        items = cast("Sequence[object]", value)
        return {name: of(item) for name, of, item in zip(names, converts, items, strict=True)}

    return convert


def _struct_of_items(converts: list[Convert]) -> Convert:
    return _struct(tuple(f"f{i}" for i in range(len(converts))), converts)


def _each(of: Convert) -> Convert:
    return lambda value: [of(item) for item in cast("Iterable[object]", value)]


def _pairs(of_key: Convert, of_value: Convert) -> Convert:
    def convert(value: object) -> object:
        entries = cast("dict[object, object]", value).items()
        return [(of_key(key), of_value(item)) for key, item in entries]

    return convert
