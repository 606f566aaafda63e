"""JSON form of type descriptions, and whether bytes of one type can be read as another (E6).

Pure functions over JSON-able dicts: what a checkpoint stores on the left, what the program
declares on the right. The shapes are part of the stored format (golden-tested)::

    {"type": "<scalar kind>"}                       {"type": "pickled", "evolvable": false}
    {"type": "list", "element": T}                  {"type": "map", "key": T, "value": T}
    {"type": "tuple", "elements": [T, ...]}
    {"type": "row", "fields": [{"name": str, "type": T}, ...]}
    {"type": "class", "name": str, "layout": "map" | "array", "strict": bool, "tag": str | null,
     "fields": [{"name": str, "type": T, "required": bool}, ...]}

Inside a class also ``{"type": "optional" | "union", ...}``, see `headrace.serialization.classes`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

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

Described = dict[str, object]
"""A type in JSON form."""

_WIDTH: Final = {kind.value: bits for kind, bits in INTEGER_BITS.items()} | {
    ScalarKind.BIG_INT.value: 1 << 30
}


def describe(description: TypeDescription) -> Described:  # noqa: PLR0911  one kind a case
    """Return the JSON form of ``description``.

    Raises:
        InvalidProgramError: a class in it has fields that cannot be stored.
    """
    match description:
        case ScalarType():
            return {"type": description.kind.value}
        case PickledType():
            return {"type": "pickled", "evolvable": False}
        case RowType():
            pairs = zip(description.field_names, description.field_types, strict=True)
            return {"type": "row", "fields": [{"name": n, "type": describe(t)} for n, t in pairs]}
        case TupleType():
            return {"type": "tuple", "elements": [describe(t) for t in description.element_types]}
        case ListType():
            return {"type": "list", "element": describe(description.element_type)}
        case MapType():
            return {
                "type": "map",
                "key": describe(description.key_type),
                "value": describe(description.value_type),
            }
        case ClassType():
            from headrace.serialization.classes import describe_class  # noqa: PLC0415 cycle

            return describe_class(description.python_class)


def format_type(described: Described) -> str:
    """Return a described type as one line for messages."""
    return json.dumps(described, sort_keys=True, ensure_ascii=False)


def incompatibility(stored: object, declared: object) -> str | None:
    """Return why bytes of ``stored`` cannot be read as ``declared``, or None when they can.

    Integers may widen, float may become double, a class may gain fields with defaults and lose
    fields; everything else must be the same.
    """
    if stored == declared:
        return None
    if not (isinstance(stored, dict) and isinstance(declared, dict)):
        return f"a stored type is not understood; stored={stored!r}"
    stored_type, declared_type = stored.get("type"), declared.get("type")
    if stored_type != declared_type:
        return None if _widens(stored_type, declared_type) else _differ(stored_type, declared_type)
    compare = _COMPARISONS.get(str(declared_type))
    return compare(stored, declared) if compare else _differ(stored, declared)


def _widens(stored: object, declared: object) -> bool:
    if stored in _WIDTH and declared in _WIDTH:
        return _WIDTH[str(stored)] <= _WIDTH[str(declared)]
    return (stored, declared) == ("float", "double")


def _differ(stored: object, declared: object) -> str:
    return f"the types differ; stored={stored} declared={declared}"


def _at(place: str, reason: str | None) -> str | None:
    return None if reason is None else f"{place}: {reason}"


def _items(described: Described, name: str) -> list[Described]:
    items = described.get(name)
    return items if isinstance(items, list) else []


def _compare_list(stored: Described, declared: Described) -> str | None:
    return _at("element", incompatibility(stored.get("element"), declared.get("element")))


def _compare_optional(stored: Described, declared: Described) -> str | None:
    return incompatibility(stored.get("of"), declared.get("of"))


def _compare_map(stored: Described, declared: Described) -> str | None:
    return _at("map key", incompatibility(stored.get("key"), declared.get("key"))) or _at(
        "map value", incompatibility(stored.get("value"), declared.get("value"))
    )


def _compare_tuple(stored: Described, declared: Described) -> str | None:
    olds, news = _items(stored, "elements"), _items(declared, "elements")
    if len(olds) != len(news):
        return f"tuples have different lengths; stored={len(olds)} declared={len(news)}"
    pairs = enumerate(zip(olds, news, strict=True))
    reasons = (_at(f"element {i}", incompatibility(old, new)) for i, (old, new) in pairs)
    return next((reason for reason in reasons if reason), None)


def _compare_row(stored: Described, declared: Described) -> str | None:
    olds, news = _items(stored, "fields"), _items(declared, "fields")
    old_names, new_names = [f.get("name") for f in olds], [f.get("name") for f in news]
    if old_names != new_names:
        return f"rows have different fields; stored={old_names} declared={new_names}"
    reasons = (
        _at(f"field {old.get('name')}", incompatibility(old.get("type"), new.get("type")))
        for old, new in zip(olds, news, strict=True)
    )
    return next((reason for reason in reasons if reason), None)


def _compare_class(stored: Described, declared: Described) -> str | None:
    for attribute in ("layout", "tag"):
        if stored.get(attribute) != declared.get(attribute):
            return f"{attribute}: " + _differ(stored.get(attribute), declared.get(attribute))
    olds = {str(f.get("name")): f for f in _items(stored, "fields")}
    news = {str(f.get("name")): f for f in _items(declared, "fields")}
    shared = list(olds)[: len(news)], list(news)[: len(olds)]
    if declared.get("layout") == "array" and shared[0] != shared[1]:
        return f"fields stored by position moved; stored={list(olds)} declared={list(news)}"
    gone = [name for name in olds if name not in news]
    if gone and declared.get("strict"):
        return f"fields are gone and the class forbids unknown fields; fields={gone}"
    for name, new in news.items():
        old = olds.get(name)
        if old is None and new.get("required"):
            return f"a new field has no default; field={name}"
        if old is not None:
            reason = incompatibility(old.get("type"), new.get("type"))
            if reason:
                return f"field {name}: {reason}"
    return None


_COMPARISONS: Final[dict[str, Callable[[Described, Described], str | None]]] = {
    "list": _compare_list,
    "optional": _compare_optional,
    "map": _compare_map,
    "tuple": _compare_tuple,
    "row": _compare_row,
    "class": _compare_class,
}
