"""Python classes as stored types: dataclasses, msgspec structs and pydantic models by their fields.

msgspec knows what it writes of a class (``msgspec.inspect``); here that becomes a `RecordType`, and
classes that would not come back as they went in are refused (fields of undeclared type, classes of
unknown make, fields that are left out of the bytes). What msgspec does not know: pydantic models
and NumPy arrays.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from msgspec import inspect as mi

from headrace.errors import InvalidProgramError
from headrace.serialization.class_types import (
    NO_DEFAULT,
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
from headrace.serialization.models import ModelField, model_fields
from headrace.serialization.numpy_codec import check_dtype
from headrace.serialization.types import FormerName

if TYPE_CHECKING:
    from headrace.serialization.class_types import Bounds, ClassPart

_NATIVE: Final[dict[type[mi.Type], NativeKind]] = {
    mi.BoolType: NativeKind.BOOLEAN,
    mi.IntType: NativeKind.LONG,
    mi.FloatType: NativeKind.DOUBLE,
    mi.StrType: NativeKind.STRING,
    mi.BytesType: NativeKind.BYTES,
    mi.DecimalType: NativeKind.DECIMAL,
    mi.DateType: NativeKind.DATE,
    mi.TimeType: NativeKind.TIME,
    mi.DateTimeType: NativeKind.DATETIME,
    mi.TimeDeltaType: NativeKind.TIMEDELTA,
    mi.UUIDType: NativeKind.UUID,
    mi.NoneType: NativeKind.NONE,
}

_COLLECTIONS: Final[dict[type[mi.Type], CollectionKind]] = {
    mi.ListType: CollectionKind.LIST,
    mi.SetType: CollectionKind.SET,
    mi.FrozenSetType: CollectionKind.FROZENSET,
    mi.VarTupleType: CollectionKind.VAR_TUPLE,
}

_BOUNDS: Final = (
    "ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of", "pattern", "tz",
)  # fmt: skip
"""Constraints of ``msgspec.Meta``, sorted."""


def record_of_class(python_class: type) -> RecordType:
    """Return the description of a dataclass, struct or pydantic model.

    Raises:
        InvalidProgramError: it is none of these, or a field cannot be stored.
    """
    return _Classes().record(python_class)


def class_name(python_class: type) -> str:
    """Return ``module:qualname``."""
    return f"{python_class.__module__}:{python_class.__qualname__}"


class _Classes:
    """One walk over a class and the classes of its fields."""

    def __init__(self) -> None:
        self._open: list[type] = []

    def record(self, python_class: type) -> RecordType:
        """Return the description of a class that is not open."""
        models = model_fields(python_class)
        if models is not None:
            return self._model(python_class, models)
        origin = typing.get_origin(python_class) or python_class
        if not (dataclasses.is_dataclass(origin) or issubclass(origin, msgspec.Struct)):
            msg = (
                "a class must be a dataclass, a msgspec.Struct or a pydantic model to be a "
                f"declared type; class={class_name(python_class)}"
            )
            raise InvalidProgramError(msg)
        try:
            info = mi.type_info(python_class)
            msgspec.msgpack.Decoder(python_class)
        except (TypeError, NameError) as error:
            msg = f"a class cannot be stored: {error}; class={class_name(python_class)}"
            raise InvalidProgramError(msg) from error
        if not isinstance(info, mi.StructType | mi.DataclassType):
            msg = f"a class has no fields; class={class_name(python_class)}"
            raise InvalidProgramError(msg)
        return self._fields(info)

    def _fields(self, info: mi.StructType | mi.DataclassType) -> RecordType:
        python_class: type = info.cls
        name = class_name(python_class)
        struct = info if isinstance(info, mi.StructType) else None
        if struct is not None and python_class.__struct_config__.omit_defaults:  # type: ignore[attr-defined]  # every struct has it
            msg = (
                "a struct that leaves out fields with default values would change its stored "
                f"values with its defaults, set omit_defaults=False; class={name}"
            )
            raise InvalidProgramError(msg)
        for late in _late_defaults(python_class):
            msg = (
                "a field that __init__ does not set is left out of stored bytes while it has its "
                f"default, set it in __post_init__; field={name}.{late}"
            )
            raise InvalidProgramError(msg)
        hints = _hints(python_class)
        self._open.append(python_class)
        fields = tuple(
            self._field(
                field,
                hints.get(field.name),
                f"{name}.{field.name}",
                # What msgspec fills in stays the class's own, and it writes what objects own.
                NO_DEFAULT if struct or field.default is msgspec.NODEFAULT else field.default,
            )
            for field in info.fields
        )
        self._open.pop()
        return RecordType(
            name=name,
            fields=fields,
            layout=Layout.ARRAY if struct is not None and struct.array_like else Layout.MAP,
            tag=_tag(struct),
            python_class=python_class,
        )

    def _field(self, field: mi.Field, hint: object, place: str, default: object) -> RecordField:
        if _mentions(hint, msgspec.UnsetType):
            msg = f"fields that may be unset are left out of stored bytes, use None; field={place}"
            raise InvalidProgramError(msg)
        return RecordField(
            name=field.encode_name,
            type=self.part(field.type, hint, place),
            required=field.required,
            former_names=_former_names(hint),
            attribute=field.name,
            default=default,
        )

    def _model(self, python_class: type, models: list[ModelField]) -> RecordType:
        name = class_name(python_class)
        self._open.append(python_class)
        fields = []
        for model in models:
            place = f"{name}.{model.name}"
            try:
                info = mi.type_info(model.hint)
            except (TypeError, NameError) as error:
                msg = f"a field of a class cannot be stored: {error}; field={place}"
                raise InvalidProgramError(msg) from error
            former = tuple(mark.name for mark in model.metadata if isinstance(mark, FormerName))
            part = self.part(info, model.hint, place)
            fields.append(RecordField(model.name, part, model.required, former, model.name))
        self._open.pop()
        return RecordType(name, tuple(fields), python_class=python_class)

    def part(self, info: mi.Type, hint: object, place: str) -> ClassPart:  # noqa: C901, PLR0911
        """Return the description of a field's type.

        Args:
            info: as msgspec sees it.
            hint: the annotation it was made of, for what msgspec does not see.
            place: for messages.
        """
        native = _NATIVE.get(type(info))
        if native is not None:
            return NativeType(native, _bounds(info))
        match info:
            case mi.Metadata():
                return self.part(info.type, hint, place)
            case mi.StructType() | mi.DataclassType():
                if info.cls in self._open:
                    return RecursiveType(class_name(info.cls))
                return self._fields(info)
            case mi.CollectionType() if type(info) in _COLLECTIONS:
                element = self.part(info.item_type, hint, place)
                return CollectionType(_COLLECTIONS[type(info)], element, _bounds(info))
            case mi.TupleType():
                return FixedTupleType(tuple(self.part(t, hint, place) for t in info.item_types))
            case mi.DictType():
                key = self.part(info.key_type, hint, place)
                if not _may_be_key(key):
                    msg = (
                        "keys of a dict in a class must be scalars, enums or tuples of these; "
                        f"field={place}"
                    )
                    raise InvalidProgramError(msg)
                return DictType(key, self.part(info.value_type, hint, place), _bounds(info))
            case mi.UnionType():
                return self._union(info, hint, place)
            case mi.EnumType():
                values = sorted((member.value for member in info.cls), key=str)
                return ChoiceType(ChoiceKind.ENUM, tuple(values), info.cls)
            case mi.LiteralType():
                texts = (value for value in info.values if isinstance(value, str | int))
                return ChoiceType(ChoiceKind.LITERAL, tuple(sorted(texts, key=str)))
            case mi.CustomType():
                return self._custom(info.cls, hint, place)
        msg = (
            "a field of a class has no type that can be stored, annotate it with a concrete type; "
            f"field={place} type={type(info).__name__}"
        )
        raise InvalidProgramError(msg)

    def _union(self, info: mi.UnionType, hint: object, place: str) -> ClassPart:
        members = [t for t in info.types if not isinstance(t, mi.NoneType)]
        parts = tuple(self.part(member, hint, place) for member in members)
        union: ClassPart = parts[0] if len(parts) == 1 else UnionType(parts)
        return OptionalType(union) if len(members) < len(info.types) else union

    def _custom(self, python_class: type, hint: object, place: str) -> ClassPart:
        if not isinstance(python_class, type):
            python_class = object  # e.g. a type variable
        if issubclass(python_class, np.ndarray):
            dtypes = {str(np.dtype(dtype)) for dtype in _array_dtypes(hint)}
            if len(dtypes) == 1:
                return NumpyType(check_dtype(dtypes.pop()), None)
            msg = (
                "an array in a class needs one element type, annotate it like "
                f"numpy.typing.NDArray[numpy.float64]; field={place} found={sorted(dtypes)}"
            )
            raise InvalidProgramError(msg)
        if python_class in self._open:
            return RecursiveType(class_name(python_class))
        if model_fields(python_class) is not None:
            return self.record(python_class)
        msg = (
            "a field of a class has a type that cannot be stored; "
            f"field={place} type={class_name(python_class)}"
        )
        raise InvalidProgramError(msg)


def _may_be_key(part: ClassPart) -> bool:
    match part:
        case NativeType() | ChoiceType():
            return True
        case UnionType(parts) | FixedTupleType(parts):
            return all(map(_may_be_key, parts))
        case _:
            return False


def _array_dtypes(hint: object) -> list[type]:
    """Return the element types of all ``NDArray[...]`` in an annotation."""
    if typing.get_origin(hint) is np.ndarray:
        _, dtype = typing.get_args(hint)
        return [item for item in typing.get_args(dtype) if isinstance(item, type)]
    return [found for part in typing.get_args(hint) for found in _array_dtypes(part)]


def _late_defaults(python_class: type) -> list[str]:
    if not dataclasses.is_dataclass(python_class):
        return []
    missing = dataclasses.MISSING
    return [
        f.name for f in dataclasses.fields(python_class) if not f.init and f.default is not missing
    ]


def _mentions(hint: object, python_class: type) -> bool:
    return hint is python_class or any(
        _mentions(part, python_class) for part in typing.get_args(hint)
    )


def _hints(python_class: type) -> dict[str, object]:
    origin = typing.get_origin(python_class) or python_class
    return typing.get_type_hints(origin, include_extras=True)


def _former_names(hint: object) -> tuple[str, ...]:
    marks = getattr(hint, "__metadata__", ())
    return tuple(mark.name for mark in marks if isinstance(mark, FormerName))


def _bounds(info: mi.Type) -> Bounds:
    found = ((name, getattr(info, name, None)) for name in _BOUNDS)
    return tuple((name, value) for name, value in found if value is not None)


def _tag(struct: mi.StructType | None) -> Tag | None:
    if struct is None or struct.tag is None or struct.tag_field is None:
        return None
    return Tag(struct.tag_field, struct.tag)
