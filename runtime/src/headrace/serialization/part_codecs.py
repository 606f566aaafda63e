"""Codecs of what fields of classes can be, made of the codecs of their parts.

Where no part needs converting, msgspec reads and writes the whole (`plain`). These codecs take what
a decoded value may be, and little else: serializers of classes decode what they have encoded
(`Codec.verify`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Union, cast

import msgspec
import numpy as np

from headrace.serialization.class_types import (
    CollectionKind,
    CollectionType,
    DictType,
    FixedTupleType,
    NumpyType,
    RecordType,
)
from headrace.serialization.codec import Codec, identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.serialization.class_types import Bounds, ClassPart

_CONTAINERS: Final[dict[CollectionKind, Callable[[Iterable[object]], object]]] = {
    CollectionKind.LIST: list,
    CollectionKind.SET: set,
    CollectionKind.FROZENSET: frozenset,
    CollectionKind.VAR_TUPLE: tuple,
}


def dict_check(record: RecordType) -> Callable[[object], object]:
    """Return the check that a value is a dict of exactly a record's fields; TypeError if not."""
    names = {field.name for field in record.fields}
    if record.tag is not None:
        names.add(record.tag.field)

    def check(value: object) -> object:
        if isinstance(value, dict) and value.keys() == names:
            if record.tag is None or value[record.tag.field] == record.tag.value:
                return value
            msg = f"a dict has another tag; class={record.name} tag={record.tag}"
            raise TypeError(msg)
        found = sorted(map(str, value)) if isinstance(value, dict) else type(value).__qualname__
        msg = f"a dict needs exactly a class's fields; class={record.name} found={found}"
        raise TypeError(msg)

    return check


def plain(wire_type: object) -> Codec:
    """Return the codec of what msgspec reads and writes as it is."""
    return Codec(wire_type, identity, identity, identity, immutable=False, verify=True)


def bounded(wire_type: object, bounds: Bounds) -> object:
    """Return a wire type with its constraints."""
    if not bounds:
        return wire_type
    constraints: dict[str, Any] = dict(bounds)
    return Annotated[wire_type, msgspec.Meta(**constraints)]


def _of(python_type: Any, *parts: object) -> object:  # noqa: ANN401  a generic class
    """Return e.g. ``list[int]`` for types that are known at run time only."""
    return python_type.__class_getitem__(parts)


def optional(part: Codec) -> Codec:
    """Return the codec of a part that may be None."""
    down, up = part.lower, part.lift
    return Codec(
        wire_type=Union[part.wire_type, None],  # noqa: UP007  known at run time only
        coerce=identity,
        lower=identity if down is identity else lambda v: None if v is None else down(v),
        lift=identity if up is identity else lambda w: None if w is None else up(w),
        immutable=False,
        verify=True,
    )


def collection(kind: CollectionKind, part: Codec, bounds: Bounds) -> Codec:
    """Return the codec of a collection of any length."""
    container, down, up = _CONTAINERS[kind], part.lower, part.lift
    if down is identity and up is identity:
        parts = (part.wire_type, ...) if container is tuple else (part.wire_type,)
        return plain(bounded(_of(container, *parts), bounds))

    def lower(value: object) -> object:
        if not isinstance(value, list | tuple | set | frozenset):
            msg = f"a value is not of its declared type; declared={kind.value} type={type(value)}"
            raise TypeError(msg)
        return [down(item) for item in value]

    def lift(wire: object) -> object:
        return container(map(up, cast("list[object]", wire)))

    wire_type = bounded(_of(list, part.wire_type), bounds)
    return Codec(wire_type, identity, lower, lift, immutable=False, verify=True)


def fixed(parts: list[Codec]) -> Codec:
    """Return the codec of a tuple of fixed length."""
    wire_type = _of(tuple, *(part.wire_type for part in parts))
    if all(part.lower is identity and part.lift is identity for part in parts):
        return plain(wire_type)

    def lower(value: object) -> object:
        items = cast("tuple[object, ...]", value)
        return [part.lower(item) for part, item in zip(parts, items, strict=True)]

    def lift(wire: object) -> object:
        items = cast("tuple[object, ...]", wire)
        return tuple([part.lift(item) for part, item in zip(parts, items, strict=True)])

    return Codec(wire_type, identity, lower, lift, immutable=False, verify=True)


def dict_of(key: Codec, value: Codec, bounds: Bounds) -> Codec:
    """Return the codec of a dict; its keys are plain."""
    down, up = value.lower, value.lift
    wire_type = bounded(_of(dict, key.wire_type, value.wire_type), bounds)
    if down is identity and up is identity:
        return plain(wire_type)

    def lower(mapping: object) -> object:
        if not isinstance(mapping, dict):
            msg = f"a value is not of its declared type; declared=map type={type(mapping)}"
            raise TypeError(msg)
        return {k: down(v) for k, v in mapping.items()}

    def lift(wire: object) -> object:
        return {k: up(v) for k, v in cast("dict[object, object]", wire).items()}

    return Codec(wire_type, identity, lower, lift, immutable=False, verify=True)


def union(members: tuple[ClassPart, ...], parts: list[Codec]) -> Codec:
    """Return the codec of one of several members, told apart by value and by bytes."""
    wire_type: Any = Union.__getitem__(tuple(part.wire_type for part in parts))
    if all(part.lower is identity and part.lift is identity for part in parts):
        return plain(wire_type)
    lowers = [
        (_accepts(member), part.lower)
        for member, part in zip(members, parts, strict=True)
        if part.lower is not identity
    ]
    lifts = [
        (_wire_class(member, part), part.lift)
        for member, part in zip(members, parts, strict=True)
        if part.lift is not identity
    ]

    def lower(value: object) -> object:
        down = next((down for accepts, down in lowers if accepts(value)), identity)
        return down(value)

    def lift(wire: object) -> object:
        up = next((up for python_class, up in lifts if isinstance(wire, python_class)), identity)
        return up(wire)

    return Codec(wire_type, identity, lower, lift, immutable=False, verify=True)


def _accepts(member: ClassPart) -> Callable[[object], bool]:
    """Whether a value is of this member of a union; of those whose values are converted."""
    match member:
        case RecordType(python_class=None):
            check = dict_check(member)

            def is_record(value: object) -> bool:
                try:
                    check(value)
                except TypeError:
                    return False
                return True

            return is_record
        case RecordType(python_class=python_class):
            return lambda value: type(value) is python_class
        case CollectionType(kind):
            container = cast("type", _CONTAINERS[kind])
            return lambda value: isinstance(value, container)
        case FixedTupleType():
            return lambda value: isinstance(value, tuple)
        case NumpyType():
            return lambda value: isinstance(value, np.ndarray)
        case _:
            return lambda value: isinstance(value, dict)


def _wire_class(member: ClassPart, part: Codec) -> type | tuple[type, ...]:
    """Return the Python classes of a member's decoded values; unions hold one of each at most."""
    match member:
        case RecordType():
            return cast("type", part.wire_type)
        case DictType():
            return dict
        case _:
            return list, tuple
