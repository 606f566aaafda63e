"""Codecs of classes and of what their fields can be.

There are two ways to a class, with the same bytes:

- *native*: msgspec writes and reads the user's class itself, in C. For dataclasses and structs
  whose fields msgspec knows.
- *composed*: msgspec decodes a struct made of the description, the parts are lifted one by one.
  For pydantic models, classes with arrays, and records without a class, whose values are dicts: a
  stored snapshot is enough to read everything.

Codecs of parts take what a decoded value may be, and little else: serializers of classes decode
what they have encoded (`Codec.verify`).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, cast

import msgspec
import numpy as np

from headrace.errors import InvalidProgramError
from headrace.serialization.class_types import (
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
    RecordType,
    RecursiveType,
    UnionType,
)
from headrace.serialization.codec import Codec, identity
from headrace.serialization.models import model_fields, model_maker
from headrace.serialization.numpy_codec import numpy_codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.serialization.class_types import Bounds, ClassPart

_NATIVE: Final[dict[NativeKind, Any]] = {
    NativeKind.BOOLEAN: bool,
    NativeKind.LONG: int,
    NativeKind.DOUBLE: float,
    NativeKind.STRING: str,
    NativeKind.BYTES: bytes,
    NativeKind.DECIMAL: Decimal,
    NativeKind.DATE: dt.date,
    NativeKind.TIME: dt.time,
    NativeKind.DATETIME: dt.datetime,
    NativeKind.TIMEDELTA: dt.timedelta,
    NativeKind.UUID: uuid.UUID,
    NativeKind.NONE: None,
}

_CONTAINERS: Final[dict[CollectionKind, Callable[[Iterable[object]], object]]] = {
    CollectionKind.LIST: list,
    CollectionKind.SET: set,
    CollectionKind.FROZENSET: frozenset,
    CollectionKind.VAR_TUPLE: tuple,
}


def record_codec(record: RecordType) -> Codec:
    """Return the codec of a class, or of dicts when the record has no class.

    Raises:
        InvalidProgramError: its fields cannot be told apart or made.
    """
    return _ClassCodecs().record(record)


def _is_native(part: ClassPart) -> bool:
    """Whether msgspec reads and writes the part's Python values as they are."""
    match part:
        case RecordType():
            known = part.python_class is not None and model_fields(part.python_class) is None
            return known and all(_is_native(field.type) for field in part.fields)
        case OptionalType(inner) | CollectionType(element=inner):
            return _is_native(inner)
        case UnionType(parts) | FixedTupleType(parts):
            return all(map(_is_native, parts))
        case DictType(key, value):
            return _is_native(key) and _is_native(value)
        case NumpyType():
            return False
        case NativeType() | ChoiceType() | RecursiveType():
            return True


class _ClassCodecs:
    """One walk over a record; knows the records that are open, for those that hold themselves."""

    def __init__(self) -> None:
        self._open: dict[str, _Composed] = {}

    def record(self, record: RecordType) -> Codec:
        python_class = record.python_class
        if python_class is not None and _is_native(record):
            check = _instance_check(python_class)
            return Codec(python_class, check, check, identity, immutable=False, verify=True)
        outer = self._open.get(record.name)
        composed = _Composed(record)
        self._open[record.name] = composed
        composed.set_parts([self.part(field.type) for field in record.fields])
        if outer is None:
            del self._open[record.name]
        else:
            self._open[record.name] = outer
        return Codec(
            composed.wire_type,
            composed.check,
            composed.lower,
            composed.lift,
            immutable=False,
            verify=True,
        )

    def part(self, part: ClassPart) -> Codec:  # noqa: C901, PLR0911  one kind a case
        match part:
            case NativeType(kind, bounds):
                return _plain(_bounded(_NATIVE[kind], bounds))
            case ChoiceType(_, values, python_class):
                return _plain(Literal[values] if python_class is None else python_class)
            case OptionalType(of):
                return _optional(self.part(of))
            case UnionType(members):
                return _union(members, [self.part(member) for member in members])
            case CollectionType(kind, element, bounds):
                if isinstance(element, RecordType) and element.python_class is None:
                    kind = CollectionKind.LIST  # dicts do not go into sets
                return _collection(kind, self.part(element), bounds)
            case FixedTupleType(elements):
                return _fixed([self.part(element) for element in elements])
            case DictType(key, value, bounds):
                return _dict(self.part(key), self.part(value), bounds)
            case RecursiveType(name):
                return self._open[name].again()
            case NumpyType():
                return numpy_codec(part)
            case RecordType():
                return self.record(part)


class _Composed:
    """Codec of one record, made of its parts' codecs."""

    def __init__(self, record: RecordType) -> None:
        self._record = record
        self._names = [field.name for field in record.fields]
        self._required = [field.required for field in record.fields]
        # Of a value without class, a dict, its names.
        self._attributes = [field.attribute or field.name for field in record.fields]
        self._lowers: list[Callable[[object], object]] = []
        self._lifts: list[tuple[int, Callable[[object], object]]] = []
        self._some_may_miss = not all(self._required)
        self._make = _maker(record)
        python_class = record.python_class
        self.check = _dict_check(record) if python_class is None else _instance_check(python_class)
        self.wire_type: type[msgspec.Struct]

    def set_parts(self, parts: list[Codec]) -> None:
        self._lowers = [part.lower for part in parts]
        self._lifts = [(at, p.lift) for at, p in enumerate(parts) if p.lift is not identity]
        tag = self._record.tag
        self.wire_type = msgspec.defstruct(
            "Stored",
            [
                (f"f{i}", part.wire_type)
                if required
                else (f"f{i}", Union[part.wire_type, msgspec.UnsetType], msgspec.UNSET)  # noqa: UP007  known at run time only
                for i, (part, required) in enumerate(zip(parts, self._required, strict=True))
            ],
            rename={f"f{i}": name for i, name in enumerate(self._names)},
            array_like=self._record.layout is Layout.ARRAY,
            forbid_unknown_fields=True,
            kw_only=True,
            tag_field=None if tag is None else tag.field,
            tag=None if tag is None else tag.value,
        )

    def again(self) -> Codec:
        """Return the codec of the record inside itself, where its wire type is not yet known."""

        def lift(wire: object) -> object:
            return self.lift(msgspec.convert(wire, self.wire_type))

        return Codec(Any, self.check, self.lower, lift, immutable=False, verify=True)

    def lower(self, value: object) -> object:
        self.check(value)
        if isinstance(value, dict):
            values = [value[name] for name in self._names]  # checked to have them
        else:
            values = self._attributes_of(value)
        lowered = [down(item) for down, item in zip(self._lowers, values, strict=True)]
        tag = self._record.tag
        if self._record.layout is Layout.ARRAY:
            return lowered if tag is None else [tag.value, *lowered]
        fields: dict[str, object] = {} if tag is None else {tag.field: tag.value}
        fields.update(zip(self._names, lowered, strict=True))
        return fields

    def _attributes_of(self, value: object) -> list[object]:
        try:
            return [getattr(value, attribute) for attribute in self._attributes]
        except AttributeError as error:
            msg = f"a value lacks a field: {error}; class={self._record.name}"
            raise TypeError(msg) from error

    def lift(self, wire: object) -> object:
        values = list(msgspec.structs.astuple(cast("msgspec.Struct", wire)))
        for at, up in self._lifts:
            if values[at] is not msgspec.UNSET:
                values[at] = up(values[at])
        fields = dict(zip(self._attributes, values, strict=True))
        if self._some_may_miss and any(value is msgspec.UNSET for value in values):
            fields = {name: of for name, of in fields.items() if of is not msgspec.UNSET}
        return self._make(fields)


def _maker(record: RecordType) -> Callable[[dict[str, object]], object]:
    """Return the function that makes a value of its fields."""
    python_class = record.python_class
    if python_class is None:
        if record.tag is None:
            return lambda fields: fields
        tag: dict[str, object] = {record.tag.field: record.tag.value}
        return lambda fields: tag | fields
    if model_fields(python_class) is not None:
        return model_maker(python_class)
    if dataclasses.is_dataclass(python_class):
        kept_out = [field.name for field in dataclasses.fields(python_class) if not field.init]
        if kept_out:
            msg = (
                "a class with arrays or models needs all its fields in __init__; "
                f"class={record.name} fields={kept_out}"
            )
            raise InvalidProgramError(msg)
    return lambda fields: python_class(**fields)


def _dict_check(record: RecordType) -> Callable[[object], object]:
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


def _instance_check(python_class: type) -> Callable[[object], object]:
    exact = getattr(python_class, "__origin__", python_class)  # of a generic class

    def check(value: object) -> object:
        if type(value) is exact:
            return value
        declared = f"{exact.__module__}:{exact.__qualname__}"
        found = type(value).__qualname__
        msg = f"a value is not of its declared type; declared={declared} type={found}"
        raise TypeError(msg)

    return check


# --- parts ----------------------------------------------------------------------------------------


def _plain(wire_type: object) -> Codec:
    return Codec(wire_type, identity, identity, identity, immutable=False, verify=True)


def _bounded(wire_type: object, bounds: Bounds) -> object:
    if not bounds:
        return wire_type
    constraints: dict[str, Any] = dict(bounds)
    return Annotated[wire_type, msgspec.Meta(**constraints)]


def _of(python_type: Any, *parts: object) -> object:  # noqa: ANN401  a generic class
    """Return e.g. ``list[int]`` for types that are known at run time only."""
    return python_type.__class_getitem__(parts)


def _optional(part: Codec) -> Codec:
    down, up = part.lower, part.lift
    return Codec(
        wire_type=Union[part.wire_type, None],  # noqa: UP007  known at run time only
        coerce=identity,
        lower=identity if down is identity else lambda v: None if v is None else down(v),
        lift=identity if up is identity else lambda w: None if w is None else up(w),
        immutable=False,
        verify=True,
    )


def _collection(kind: CollectionKind, part: Codec, bounds: Bounds) -> Codec:
    container, down, up = _CONTAINERS[kind], part.lower, part.lift
    if down is identity and up is identity:
        parts = (part.wire_type, ...) if container is tuple else (part.wire_type,)
        return _plain(_bounded(_of(container, *parts), bounds))

    def lower(value: object) -> object:
        if not isinstance(value, list | tuple | set | frozenset):
            msg = f"a value is not of its declared type; declared={kind.value} type={type(value)}"
            raise TypeError(msg)
        return [down(item) for item in value]

    def lift(wire: object) -> object:
        return container(map(up, cast("list[object]", wire)))

    wire_type = _bounded(_of(list, part.wire_type), bounds)
    return Codec(wire_type, identity, lower, lift, immutable=False, verify=True)


def _fixed(parts: list[Codec]) -> Codec:
    wire_type = _of(tuple, *(part.wire_type for part in parts))
    if all(part.lower is identity and part.lift is identity for part in parts):
        return _plain(wire_type)

    def lower(value: object) -> object:
        items = cast("tuple[object, ...]", value)
        return [part.lower(item) for part, item in zip(parts, items, strict=True)]

    def lift(wire: object) -> object:
        items = cast("tuple[object, ...]", wire)
        return tuple([part.lift(item) for part, item in zip(parts, items, strict=True)])

    return Codec(wire_type, identity, lower, lift, immutable=False, verify=True)


def _dict(key: Codec, value: Codec, bounds: Bounds) -> Codec:
    down, up = value.lower, value.lift
    wire_type = _bounded(_of(dict, key.wire_type, value.wire_type), bounds)
    if down is identity and up is identity:
        return _plain(wire_type)

    def lower(mapping: object) -> object:
        if not isinstance(mapping, dict):
            msg = f"a value is not of its declared type; declared=map type={type(mapping)}"
            raise TypeError(msg)
        return {k: down(v) for k, v in mapping.items()}

    def lift(wire: object) -> object:
        return {k: up(v) for k, v in cast("dict[object, object]", wire).items()}

    return Codec(wire_type, identity, lower, lift, immutable=False, verify=True)


def _union(members: tuple[ClassPart, ...], parts: list[Codec]) -> Codec:
    wire_type: Any = Union.__getitem__(tuple(part.wire_type for part in parts))
    if all(part.lower is identity and part.lift is identity for part in parts):
        return _plain(wire_type)
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
            check = _dict_check(member)

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
