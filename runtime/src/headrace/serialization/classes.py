"""Dataclasses and msgspec structs as stored types: what fields they have, in JSON form.

msgspec writes and reads the objects; this module only describes them, so that a later program's
class can be compared with the stored one, and refuses classes that would not come back as they
went in (fields of undeclared type, classes of unknown make).

Types of fields use the names of `headrace.serialization.types` where the meaning is the same; the
others are msgspec's (``datetime``, ``uuid``, ``enum``...).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import inspect as mi

from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from headrace.serialization.compatibility import Described

_SIMPLE: Final[dict[type, str]] = {
    mi.BoolType: "boolean",
    mi.IntType: "long",
    mi.FloatType: "double",
    mi.StrType: "string",
    mi.BytesType: "bytes",
    mi.DecimalType: "decimal",
    mi.DateType: "date",
    mi.TimeType: "time",
    mi.DateTimeType: "datetime",
    mi.TimeDeltaType: "timedelta",
    mi.UUIDType: "uuid",
    mi.NoneType: "none",
}

_COLLECTIONS: Final[dict[type, str]] = {
    mi.ListType: "list",
    mi.SetType: "set",
    mi.FrozenSetType: "frozenset",
    mi.VarTupleType: "var_tuple",
}


def describe_class(python_class: type) -> Described:
    """Return the JSON form of a dataclass or struct.

    Raises:
        InvalidProgramError: it is neither, or a field cannot be stored.
    """
    if not (dataclasses.is_dataclass(python_class) or issubclass(python_class, msgspec.Struct)):
        msg = (
            "a class must be a dataclass or a msgspec.Struct to be a declared type; "
            f"class={_name(python_class)}"
        )
        raise InvalidProgramError(msg)
    try:
        info = mi.type_info(python_class)
        msgspec.msgpack.Decoder(python_class)
    except (TypeError, NameError) as error:
        msg = f"a class cannot be stored: {error}; class={_name(python_class)}"
        raise InvalidProgramError(msg) from error
    return _describe(info, (), _name(python_class))


def _name(python_class: type) -> str:
    return f"{python_class.__module__}:{python_class.__qualname__}"


def _describe(  # noqa: PLR0911  one kind of type a case
    info: mi.Type, open_classes: tuple[type, ...], place: str
) -> Described:
    simple = _SIMPLE.get(type(info))
    if simple:
        return {"type": simple}
    match info:
        case mi.StructType() | mi.DataclassType():
            return _describe_fields(info, open_classes)
        case mi.CollectionType():
            if type(info) in _COLLECTIONS:
                element = _describe(info.item_type, open_classes, place)
                return {"type": _COLLECTIONS[type(info)], "element": element}
        case mi.TupleType():
            items = [_describe(item, open_classes, place) for item in info.item_types]
            return {"type": "tuple", "elements": items}
        case mi.DictType():
            return {
                "type": "map",
                "key": _describe(info.key_type, open_classes, place),
                "value": _describe(info.value_type, open_classes, place),
            }
        case mi.UnionType():
            return _describe_union(info, open_classes, place)
        case mi.EnumType():
            return {"type": "enum", "values": sorted(str(member.value) for member in info.cls)}
        case mi.LiteralType():
            return {"type": "literal", "values": sorted(map(str, info.values))}
    msg = (
        "a field of a class has no type that can be stored, annotate it with a concrete type; "
        f"field={place} type={type(info).__name__}"
    )
    raise InvalidProgramError(msg)


def _describe_fields(
    info: mi.StructType | mi.DataclassType, open_classes: tuple[type, ...]
) -> Described:
    if info.cls in open_classes:
        return {"type": "recursive", "name": _name(info.cls)}
    inner = (*open_classes, info.cls)
    struct = info if isinstance(info, mi.StructType) else None
    return {
        "type": "class",
        "name": _name(info.cls),
        "layout": "array" if struct and struct.array_like else "map",
        "strict": bool(struct and struct.forbid_unknown_fields),
        "tag": None if struct is None or struct.tag is None else f"{struct.tag_field}={struct.tag}",
        "fields": [
            {
                "name": field.encode_name,
                "type": _describe(field.type, inner, f"{_name(info.cls)}.{field.name}"),
                "required": field.required,
            }
            for field in info.fields
        ],
    }


def _describe_union(info: mi.UnionType, open_classes: tuple[type, ...], place: str) -> Described:
    members = [t for t in info.types if not isinstance(t, mi.NoneType)]
    described = [_describe(member, open_classes, place) for member in members]
    union: Described = described[0] if len(described) == 1 else {"type": "union", "of": described}
    return {"type": "optional", "of": union} if len(members) < len(info.types) else union
