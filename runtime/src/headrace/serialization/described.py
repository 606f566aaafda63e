"""JSON form of types: what checkpoints store of them, what messages print (E6).

The shapes are part of the stored format (golden-tested, never changed, only added to)::

    {"type": "<scalar kind>"}                       {"type": "pickled", "evolvable": false}
    {"type": "list", "element": T}                  {"type": "map", "key": T, "value": T}
    {"type": "tuple", "elements": [T, ...]}
    {"type": "row", "fields": [{"name": str, "type": T, "formerly"?: [str, ...]}, ...]}
    {"type": "numpy", "dtype": str, "ndim": int | null}
    {"type": "arrow_array", "element": T}           {"type": "arrow_batch", "fields": as of a row}
    {"type": "class", "name": str, "layout": "map" | "array",
     "tag": {"field": str, "value": str | int} | null,
     "fields": [{"name": str, "type": C, "required": bool, "formerly"?: [str, ...]}, ...]}

Inside a class (C) parts are not nullable unless they say so, and scalars, list, map and tuple may
carry constraints, ``"where"?: {str: ...}``. There are also::

    {"type": "optional", "of": C}                   {"type": "union", "of": [C, ...]}
    {"type": "set" | "frozenset" | "var_tuple", "element": C}
    {"type": "enum" | "literal", "values": [str | int, ...]}
    {"type": "recursive", "name": str}              {"type": "numpy", ...}, {"type": "class", ...}
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from headrace.errors import IncompatibleStateError
from headrace.serialization.class_types import (
    ChoiceKind,
    ChoiceType,
    CollectionKind,
    CollectionType,
    DictType,
    FixedTupleType,
    Layout,
    NativeKind,
    NativeType,
    NumpyType,
    OptionalType,
    RecordField,
    RecordType,
    RecursiveType,
    Tag,
    UnionType,
)
from headrace.serialization.classes import record_of_class
from headrace.serialization.types import (
    STORED_PICKLE,
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
    from collections.abc import Iterable

    from headrace.serialization.class_types import Bounds, ClassPart
    from headrace.serialization.types import AnyType, TypeDescription

Described = dict[str, object]
"""A type in JSON form."""


def format_type(described: Described) -> str:
    """Return a described type as one line of JSON."""
    return json.dumps(described, sort_keys=True, ensure_ascii=False)


def describe(description: AnyType) -> Described:  # noqa: C901, PLR0911, PLR0912  one kind a case
    """Return the JSON form of ``description``.

    Raises:
        InvalidProgramError: a class in it has fields that cannot be stored.
    """
    match description:
        case ScalarType(kind):
            return {"type": kind.value}
        case PickledType():
            return {"type": "pickled", "evolvable": False}
        case RowType():
            return {"type": "row", "fields": _row_fields(description)}
        case TupleType(elements):
            return {"type": "tuple", "elements": [describe(t) for t in elements]}
        case ListType(element):
            return {"type": "list", "element": describe(element)}
        case MapType(key, value):
            return {"type": "map", "key": describe(key), "value": describe(value)}
        case ClassType(python_class):
            return describe(record_of_class(python_class))
        case NumpyType(dtype, ndim):
            return {"type": "numpy", "dtype": dtype, "ndim": ndim}
        case ArrowArrayType(element):
            return {"type": "arrow_array", "element": describe(element)}
        case ArrowBatchType(row):
            return {"type": "arrow_batch", "fields": _row_fields(row)}
        case NativeType(native, bounds):
            return {"type": native.value, **_where(bounds)}
        case ChoiceType(choice, values):
            return {"type": choice.value, "values": list(values)}
        case OptionalType(of):
            return {"type": "optional", "of": describe(of)}
        case UnionType(members):
            return {"type": "union", "of": [describe(member) for member in members]}
        case CollectionType(collection, part, bounds):
            return {"type": collection.value, "element": describe(part), **_where(bounds)}
        case FixedTupleType(parts):
            return {"type": "tuple", "elements": [describe(t) for t in parts]}
        case DictType(of_key, of_value, bounds):
            both = {"key": describe(of_key), "value": describe(of_value)}
            return {"type": "map", **both, **_where(bounds)}
        case RecursiveType(name):
            return {"type": "recursive", "name": name}
        case RecordType():
            return _describe_record(description)


def _where(bounds: Bounds) -> Described:
    return {"where": dict(bounds)} if bounds else {}


def _formerly(names: Iterable[str]) -> Described:
    listed = list(names)
    return {"formerly": listed} if listed else {}


def _row_fields(row: RowType) -> list[Described]:
    former = dict(row.former_names)
    return [
        {"name": name, "type": describe(field_type), **_formerly(former.get(name, ()))}
        for name, field_type in zip(row.field_names, row.field_types, strict=True)
    ]


def _describe_record(record: RecordType) -> Described:
    tag = record.tag
    return {
        "type": "class",
        "name": record.name,
        "layout": record.layout.value,
        "tag": None if tag is None else {"field": tag.field, "value": tag.value},
        "fields": [
            {
                "name": field.name,
                "type": describe(field.type),
                "required": field.required,
                **_formerly(field.former_names),
            }
            for field in record.fields
        ],
    }


# --- from JSON ------------------------------------------------------------------------------------


def parse(described: object) -> TypeDescription:
    """Return the type of a JSON form: what `describe` wrote.

    Classes become records, whose values are dicts, and pickles stay bytes: nothing is executed.

    Raises:
        IncompatibleStateError: it is not understood; a newer release may have written it.
    """
    try:
        return _parse(_object(described))
    except (KeyError, ValueError, TypeError) as error:
        msg = (
            "a stored type is not understood, read it with the release that wrote it: "
            f"{error!r}; type={described!r}"
        )
        raise IncompatibleStateError(msg) from error


def _object(described: object) -> Described:
    if isinstance(described, dict):
        return described
    msg = f"not an object: {described!r}"
    raise TypeError(msg)


def _objects(described: object) -> list[Described]:
    if isinstance(described, list):
        return [_object(item) for item in described]
    msg = f"not a list: {described!r}"
    raise TypeError(msg)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    msg = f"not a text: {value!r}"
    raise TypeError(msg)


def _parse(described: Described) -> TypeDescription:  # noqa: PLR0911  one kind a case
    match described["type"]:
        case "pickled":
            return STORED_PICKLE
        case "row":
            return _parse_row(described)
        case "tuple":
            return TupleType(tuple(_parse(t) for t in _objects(described["elements"])))
        case "list":
            return ListType(_parse(_object(described["element"])))
        case "map":
            key, value = _object(described["key"]), _object(described["value"])
            return MapType(_parse(key), _parse(value))
        case "numpy":
            return _parse_numpy(described)
        case "arrow_array":
            return ArrowArrayType(_parse(_object(described["element"])))
        case "arrow_batch":
            return ArrowBatchType(_parse_row(described))
        case "class":
            return _parse_record(described)
        case kind:
            return ScalarType(ScalarKind(kind))


def _parse_numpy(described: Described) -> NumpyType:
    ndim = described["ndim"]
    if ndim is None or isinstance(ndim, int):
        return NumpyType(_text(described["dtype"]), ndim)
    msg = f"not a number of dimensions: {ndim!r}"
    raise TypeError(msg)


def _former_names(field: Described) -> tuple[str, ...]:
    former = field.get("formerly", [])
    if isinstance(former, list):
        return tuple(_text(name) for name in former)
    msg = f"not a list: {former!r}"
    raise TypeError(msg)


def _parse_row(described: Described) -> RowType:
    fields = _objects(described["fields"])
    former = {_text(field["name"]): _former_names(field) for field in fields}
    return RowType(
        tuple(former),
        tuple(_parse(_object(field["type"])) for field in fields),
        tuple((name, names) for name, names in former.items() if names),
    )


def _parse_record(described: Described) -> RecordType:
    tag = described["tag"]
    return RecordType(
        name=_text(described["name"]),
        fields=tuple(
            RecordField(
                name=_text(field["name"]),
                type=_parse_part(_object(field["type"])),
                required=field["required"] is True,
                former_names=_former_names(field),
            )
            for field in _objects(described["fields"])
        ),
        layout=Layout(described["layout"]),
        tag=None if tag is None else _parse_tag(_object(tag)),
    )


def _parse_tag(described: Described) -> Tag:
    return Tag(_text(described["field"]), _choice(described["value"]))


def _choice(value: object) -> str | int:
    if isinstance(value, str | int):
        return value
    msg = f"neither text nor number: {value!r}"
    raise TypeError(msg)


def _bounds(described: Described) -> Bounds:
    bounds = []
    for name, value in sorted(_object(described.get("where", {})).items()):
        if not isinstance(value, str | int | float | bool | None):
            msg = f"not a constraint: {name}={value!r}"
            raise TypeError(msg)
        bounds.append((name, value))
    return tuple(bounds)


_COLLECTIONS: Final = {kind.value: kind for kind in CollectionKind}
_CHOICES: Final = {kind.value: kind for kind in ChoiceKind}


def _parse_part(described: Described) -> ClassPart:  # noqa: C901, PLR0911  one kind a case
    kind = _text(described["type"])
    if kind in _COLLECTIONS:
        element = _parse_part(_object(described["element"]))
        return CollectionType(_COLLECTIONS[kind], element, _bounds(described))
    if kind in _CHOICES:
        values = described["values"]
        if not isinstance(values, list):
            msg = f"not a list: {values!r}"
            raise TypeError(msg)
        return ChoiceType(_CHOICES[kind], tuple(_choice(value) for value in values))
    match kind:
        case "optional":
            return OptionalType(_parse_part(_object(described["of"])))
        case "union":
            return UnionType(tuple(_parse_part(t) for t in _objects(described["of"])))
        case "tuple":
            return FixedTupleType(tuple(_parse_part(t) for t in _objects(described["elements"])))
        case "map":
            key, value = _object(described["key"]), _object(described["value"])
            return DictType(_parse_part(key), _parse_part(value), _bounds(described))
        case "recursive":
            return RecursiveType(_text(described["name"]))
        case "numpy":
            return _parse_numpy(described)
        case "class":
            return _parse_record(described)
        case _:
            return NativeType(NativeKind(kind), _bounds(described))
