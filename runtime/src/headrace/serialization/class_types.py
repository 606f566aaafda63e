"""What fields of classes can be: descriptions below those of `headrace.serialization.types`.

A class is described as a `RecordType` of its fields, whoever made the class. msgspec writes these
values, so that their bytes differ from declared types of the same name where msgspec's form does
(a date is text, parts are not nullable unless they say so). Two sources build them:
`headrace.serialization.classes` from a Python class, `headrace.serialization.described` from a
stored snapshot; the second has no class, and its values are plain dicts, numbers and texts.

Python classes are no part of a description's identity.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

Scalar = str | int | float | bool | None


class NativeKind(enum.Enum):
    """Scalars as msgspec writes them; the value is the stored name, never to be changed."""

    BOOLEAN = "boolean"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time"
    DATETIME = "datetime"
    TIMEDELTA = "timedelta"
    UUID = "uuid"
    NONE = "none"


class CollectionKind(enum.Enum):
    """Collections of any length; the value is the stored name, never to be changed."""

    LIST = "list"
    SET = "set"
    FROZENSET = "frozenset"
    VAR_TUPLE = "var_tuple"


class ChoiceKind(enum.Enum):
    """Where a fixed set of values comes from; the value is the stored name."""

    ENUM = "enum"
    LITERAL = "literal"


class Layout(enum.Enum):
    """How a record's fields are stored."""

    MAP = "map"
    ARRAY = "array"


Bounds = tuple[tuple[str, Scalar], ...]
"""Constraints of ``msgspec.Meta`` by name, sorted, e.g. ``(("ge", 0),)``."""


@dataclass(frozen=True, slots=True)
class NativeType:
    """A scalar field."""

    kind: NativeKind
    bounds: Bounds = ()


@dataclass(frozen=True, slots=True)
class ChoiceType:
    """One of a fixed set of values.

    Attributes:
        kind: enum or literal.
        values: str or int, sorted; of an enum its members' values.
        python_class: the enum, None when it is not known.
    """

    kind: ChoiceKind
    values: tuple[str | int, ...]
    python_class: type | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class OptionalType:
    """The type or None."""

    of: ClassPart


@dataclass(frozen=True, slots=True)
class UnionType:
    """One of several types, told apart by their bytes."""

    members: tuple[ClassPart, ...]


@dataclass(frozen=True, slots=True)
class CollectionType:
    """A list, set, frozenset or tuple of any length."""

    kind: CollectionKind
    element: ClassPart
    bounds: Bounds = ()


@dataclass(frozen=True, slots=True)
class FixedTupleType:
    """A tuple of fixed length."""

    elements: tuple[ClassPart, ...]


@dataclass(frozen=True, slots=True)
class DictType:
    """A dict."""

    key: ClassPart
    value: ClassPart
    bounds: Bounds = ()


@dataclass(frozen=True, slots=True)
class NumpyType:
    """A `numpy.ndarray`; a declared type of its own as well.

    Attributes:
        dtype: NumPy's name of the element type: a boolean, an integer or a float, e.g. "float32".
        ndim: number of dimensions, None for any.
    """

    dtype: str
    ndim: int | None = 1


@dataclass(frozen=True, slots=True)
class RecursiveType:
    """The enclosing record of this name again."""

    name: str


NO_DEFAULT: Final = object()


@dataclass(frozen=True, slots=True)
class RecordField:
    """One field.

    Attributes:
        name: as stored.
        type: of its values.
        required: whether it has no default.
        former_names: under which older state may hold it.
        attribute: of the Python object; empty when no class is known.
        default: of a dataclass, where msgspec does not write it by itself; else `NO_DEFAULT`.
    """

    name: str
    type: ClassPart
    required: bool
    former_names: tuple[str, ...] = ()
    attribute: str = field(default="", compare=False)
    default: object = field(default=NO_DEFAULT, compare=False)


@dataclass(frozen=True, slots=True)
class Tag:
    """What a tagged struct writes beside its fields."""

    field: str
    value: str | int


@dataclass(frozen=True, slots=True)
class RecordType:
    """A class: named, typed fields.

    Attributes:
        name: ``module:qualname`` of the class; informative, classes may move.
        fields: in order.
        layout: by name or by position.
        tag: of a tagged struct.
        python_class: None when only its stored description is known: values are dicts.
    """

    name: str
    fields: tuple[RecordField, ...]
    layout: Layout = Layout.MAP
    tag: Tag | None = None
    python_class: type | None = field(default=None, compare=False)


ClassPart = (
    NativeType
    | ChoiceType
    | OptionalType
    | UnionType
    | CollectionType
    | FixedTupleType
    | DictType
    | RecursiveType
    | RecordType
    | NumpyType
)
"""What a field of a class can be."""
