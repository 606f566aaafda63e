"""Types as people write them, for messages and `repr`: ``ROW<name STRING, tags LIST<LONG>>``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.serialization.class_types import (
    ChoiceType,
    CollectionType,
    DictType,
    FixedTupleType,
    NativeType,
    NumpyType,
    OptionalType,
    RecordType,
    RecursiveType,
    UnionType,
)
from headrace.serialization.types import (
    ArrowArrayType,
    ArrowBatchType,
    ClassType,
    ListType,
    MapType,
    PickledType,
    RowType,
    ScalarType,
    TupleType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.serialization.class_types import Bounds
    from headrace.serialization.types import AnyType


def type_text(description: AnyType) -> str:  # noqa: C901, PLR0911, PLR0912  one kind a case
    """Return a type in one line; of a class its name only."""
    match description:
        case ScalarType(kind):
            return kind.name
        case PickledType():
            return "PICKLED"
        case RowType(names, types):
            return f"ROW<{_fields(zip(names, types, strict=True))}>"
        case TupleType(elements):
            return f"TUPLE<{_all(elements)}>"
        case FixedTupleType(parts):
            return f"TUPLE<{_all(parts)}>"
        case ListType(element):
            return f"LIST<{type_text(element)}>"
        case CollectionType(collection, part, bounds):
            return f"{collection.name}<{type_text(part)}>{_where(bounds)}"
        case MapType(key, value):
            return f"MAP<{type_text(key)}, {type_text(value)}>"
        case DictType(of_key, of_value, bounds):
            return f"MAP<{type_text(of_key)}, {type_text(of_value)}>{_where(bounds)}"
        case ClassType(python_class):
            return python_class.__qualname__
        case RecordType(name):
            return name.rpartition(":")[2]
        case RecursiveType(name):
            return name.rpartition(":")[2]
        case NumpyType(dtype, ndim):
            return f"NUMPY<{dtype}>" if ndim is None else f"NUMPY<{dtype}, {ndim}>"
        case ArrowArrayType(element):
            return f"ARROW_ARRAY<{type_text(element)}>"
        case ArrowBatchType(row):
            return f"ARROW_BATCH<{_fields(zip(row.field_names, row.field_types, strict=True))}>"
        case NativeType(native, bounds):
            return native.name + _where(bounds)
        case ChoiceType(choice, values):
            return f"{choice.name}<{', '.join(map(repr, values))}>"
        case OptionalType(UnionType() as union):
            return f"({type_text(union)})?"
        case OptionalType(of):
            return f"{type_text(of)}?"
        case UnionType(members):
            return " | ".join(map(type_text, members))


def _all(types: Iterable[AnyType]) -> str:
    return ", ".join(map(type_text, types))


def _fields(pairs: Iterable[tuple[str, AnyType]]) -> str:
    return ", ".join(f"{name} {type_text(kind)}" for name, kind in pairs)


def _where(bounds: Bounds) -> str:
    return f"[{', '.join(f'{name}={value}' for name, value in bounds)}]" if bounds else ""
