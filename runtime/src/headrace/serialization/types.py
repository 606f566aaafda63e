"""Descriptions of types: what a value looks like, apart from how it becomes bytes.

A `TypeDescription` is a small immutable tree. ``headrace.common.typeinfo.Types`` (PyFlink's names)
builds it, `headrace.serialization.registry` turns it into serializers, and its JSON form
(`describe`) is what checkpoints keep and what messages print. It knows no bytes and no Spark.

Values of each kind (what user code sees)::

    PICKLED          anything that pickles; the fallback, slower and not evolvable
    STRING, BYTES    str, bytes
    BOOLEAN          bool
    BYTE..LONG       int of 8, 16, 32, 64 bits, signed
    BIG_INT          int of any size
    FLOAT, DOUBLE    float (values keep full precision; FLOAT *keys* are rounded to 32 bits)
    DECIMAL          decimal.Decimal
    DATE, TIME       datetime.date, datetime.time without zone
    TIMESTAMP        datetime.datetime without zone
    INSTANT          datetime.datetime with zone; read back in UTC
    RowType          headrace.serialization.row.Row (tuples are accepted), fields may be None
    TupleType        tuple, elements may be None
    ListType         list, elements may be None
    MapType          dict, values may be None
    ClassType        a dataclass or msgspec.Struct
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final


class ScalarKind(enum.Enum):
    """Kinds without parts; the value is the stored name, never to be changed."""

    STRING = "string"
    BYTES = "bytes"
    BOOLEAN = "boolean"
    BYTE = "byte"
    SHORT = "short"
    INT = "int"
    LONG = "long"
    BIG_INT = "big_int"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    INSTANT = "instant"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type without parts."""

    kind: ScalarKind


@dataclass(frozen=True, slots=True)
class PickledType:
    """Any picklable Python object; also stands for "not declared"."""


@dataclass(frozen=True, slots=True)
class RowType:
    """A row of named, nullable fields.

    Attributes:
        field_names: unique, in order; ``f0``, ``f1``... when the user gave none.
        field_types: one for each name.
    """

    field_names: tuple[str, ...]
    field_types: tuple[TypeDescription, ...]

    def __post_init__(self) -> None:
        if len(self.field_names) != len(self.field_types):
            msg = (
                "a row needs one type for each field name; "
                f"names={len(self.field_names)} types={len(self.field_types)}"
            )
            raise ValueError(msg)
        if len(set(self.field_names)) != len(self.field_names):
            msg = f"field names of a row must be unique; names={list(self.field_names)}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple of fixed length."""

    element_types: tuple[TypeDescription, ...]


@dataclass(frozen=True, slots=True)
class ListType:
    """A list of any length; stands for Flink's arrays too."""

    element_type: TypeDescription


@dataclass(frozen=True, slots=True)
class MapType:
    """A dict. Keys may be string, bytes, boolean, an integer, date, time or timestamp."""

    key_type: TypeDescription
    value_type: TypeDescription


@dataclass(frozen=True, slots=True)
class ClassType:
    """A user's dataclass or `msgspec.Struct`; stored by field name, so fields may come and go."""

    python_class: type


TypeDescription = ScalarType | PickledType | RowType | TupleType | ListType | MapType | ClassType

PICKLED: Final = PickledType()
STRING: Final = ScalarType(ScalarKind.STRING)
BYTES: Final = ScalarType(ScalarKind.BYTES)
BOOLEAN: Final = ScalarType(ScalarKind.BOOLEAN)
BYTE: Final = ScalarType(ScalarKind.BYTE)
SHORT: Final = ScalarType(ScalarKind.SHORT)
INT: Final = ScalarType(ScalarKind.INT)
LONG: Final = ScalarType(ScalarKind.LONG)
BIG_INT: Final = ScalarType(ScalarKind.BIG_INT)
FLOAT: Final = ScalarType(ScalarKind.FLOAT)
DOUBLE: Final = ScalarType(ScalarKind.DOUBLE)
DECIMAL: Final = ScalarType(ScalarKind.DECIMAL)
DATE: Final = ScalarType(ScalarKind.DATE)
TIME: Final = ScalarType(ScalarKind.TIME)
TIMESTAMP: Final = ScalarType(ScalarKind.TIMESTAMP)
INSTANT: Final = ScalarType(ScalarKind.INSTANT)

INTEGER_BITS: Final = {
    ScalarKind.BYTE: 8,
    ScalarKind.SHORT: 16,
    ScalarKind.INT: 32,
    ScalarKind.LONG: 64,
}
"""Width of the fixed-size integers; each can be read as any wider one."""
