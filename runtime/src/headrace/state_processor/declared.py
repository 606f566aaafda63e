"""Values of DataFrame columns as values of declared types: the way back of `arrow_types`.

A column's value is what pyarrow makes of it: a struct is a dict, a map a list of pairs. `converter`
turns it into what a program would hand to its state, so that a table that was read can be written.
Serializers check the result, so nothing is checked twice here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, cast

import msgspec
import numpy as np
import pyarrow as pa

from headrace.serialization.arrow_types import arrow_schema, arrow_type
from headrace.serialization.class_types import (
    CollectionType,
    DictType,
    FixedTupleType,
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
    RowType,
    ScalarKind,
    ScalarType,
    TupleType,
)

if TYPE_CHECKING:
    from headrace.serialization.types import AnyType

Convert = Callable[[object], object]


def converter(description: AnyType) -> Convert:  # noqa: C901, PLR0911, PLR0912  one kind a case
    """Return what turns a column's values into values of a declared type; None stays None.

    The function raises ValueError, TypeError or KeyError for a value that has no counterpart.
    """
    match description:
        case ScalarType(ScalarKind.BIG_INT):
            return _nullable(_integer)
        case RowType(names, types):
            return _row(names, [converter(of) for of in types])
        case TupleType(elements) | FixedTupleType(elements):
            return _tuple([converter(of) for of in elements])
        case ListType(element) | CollectionType(_, element):
            return _list(converter(element))
        case MapType(key, value) | DictType(key, value):
            return _dict(converter(key), converter(value))
        case OptionalType(of):
            return converter(of)
        case ClassType(python_class):
            return _class(python_class)
        case RecordType():
            return _record(description)
        case UnionType() | RecursiveType():
            return _nullable(lambda value: json.loads(cast("str", value)))
        case NumpyType(dtype, ndim):
            return _nullable(_array(dtype, ndim))
        case ArrowArrayType(element):
            of_element = arrow_type(element)
            return _nullable(lambda value: pa.array(value, of_element))
        case ArrowBatchType(row):
            schema = arrow_schema(row)
            return _nullable(lambda value: pa.RecordBatch.from_pylist(value, schema=schema))
        case _:
            return lambda value: value


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _integer(value: object) -> object:
    """Return a decimal of a column as the integer that it is."""
    if isinstance(value, Decimal):
        if value != value.to_integral_value():
            msg = f"not an integer; value={value}"
            raise ValueError(msg)
        return int(value)
    return value


def _row(names: tuple[str, ...], converts: list[Convert]) -> Convert:
    def convert(value: object) -> object:
        fields = cast("dict[str, object]", value)
        items = (fields[name] for name in names)
        return Row.of_names(names, [of(item) for of, item in zip(converts, items, strict=True)])

    return _nullable(convert)


def _tuple(converts: list[Convert]) -> Convert:
    def convert(value: object) -> object:
        items = cast("dict[str, object]", value).values()
        return tuple(of(item) for of, item in zip(converts, items, strict=True))

    return _nullable(convert)


def _list(of: Convert) -> Convert:
    return _nullable(lambda value: [of(item) for item in cast("list[object]", value)])


def _dict(of_key: Convert, of_value: Convert) -> Convert:
    def convert(value: object) -> object:
        pairs = cast("list[tuple[object, object]]", value)
        return {of_key(key): of_value(item) for key, item in pairs}

    return _nullable(convert)


def _record(record: RecordType) -> Convert:
    """Return the conversion of a struct to the dict that msgspec makes an object of."""
    converts = {field.name: converter(field.type) for field in record.fields}

    def convert(value: object) -> object:
        fields = cast("dict[str, object]", value)
        found = {name: of(fields[name]) for name, of in converts.items() if name in fields}
        return found if record.tag is None else {record.tag.field: record.tag.value} | found

    return _nullable(convert)


def _class(python_class: type) -> Convert:
    fields = _record(record_of_class(python_class))
    validate = getattr(python_class, "model_validate", None)  # of pydantic's models
    if validate is not None:
        return _nullable(lambda value: validate(fields(value)))
    return _nullable(lambda value: msgspec.convert(fields(value), python_class))


def _array(dtype: str, ndim: int | None) -> Convert:
    def convert(value: object) -> object:
        if ndim is not None:
            return np.array(value, dtype)
        parts = cast("dict[str, list[int]]", value)
        return np.array(parts["data"], dtype).reshape(parts["shape"])

    return convert
