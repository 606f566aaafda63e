"""Codecs of classes and of what their fields can be.

There are two ways to a class, with the same bytes:

- *native*: msgspec writes and reads the user's class itself, in C. For dataclasses and structs
  whose fields msgspec knows.
- *composed*: msgspec decodes a struct made of the description, the parts are lifted one by one.
  For pydantic models, classes with arrays, and records without a class, whose values are dicts: a
  stored snapshot is enough to read everything.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, Union, cast

import msgspec

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
from headrace.serialization.part_codecs import (
    bounded,
    collection,
    dict_check,
    dict_of,
    fixed,
    optional,
    plain,
    union,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.serialization.class_types import ClassPart

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
                return plain(bounded(_NATIVE[kind], bounds))
            case ChoiceType(_, values, python_class):
                return plain(Literal[values] if python_class is None else python_class)
            case OptionalType(of):
                return optional(self.part(of))
            case UnionType(members):
                return union(members, [self.part(member) for member in members])
            case CollectionType(kind, element, bounds):
                if isinstance(element, RecordType) and element.python_class is None:
                    kind = CollectionKind.LIST  # dicts do not go into sets
                return collection(kind, self.part(element), bounds)
            case FixedTupleType(elements):
                return fixed([self.part(element) for element in elements])
            case DictType(key, value, bounds):
                return dict_of(self.part(key), self.part(value), bounds)
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
        self.check = dict_check(record) if python_class is None else _instance_check(python_class)
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
