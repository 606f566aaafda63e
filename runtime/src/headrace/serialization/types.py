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
    DURATION         datetime.timedelta
    RowType          headrace.serialization.row.Row (tuples are accepted), fields may be None
    TupleType        tuple, elements may be None
    ListType         list, elements may be None
    MapType          dict, values may be None
    ClassType        a dataclass, msgspec.Struct or pydantic model
    NumpyType        numpy.ndarray of one dtype
    ArrowArrayType   pyarrow.Array
    ArrowBatchType   pyarrow.RecordBatch

What only fields of classes can be (optional, union, enum...) is in
`headrace.serialization.class_types`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from headrace.serialization.class_types import ClassPart, NumpyType, RecordType


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
    DURATION = "duration"


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A type without parts."""

    kind: ScalarKind


@dataclass(frozen=True, slots=True)
class PickledType:
    """Any picklable Python object; also stands for "not declared".

    Attributes:
        as_bytes: whether values are the pickles' bytes, as for readers without the program.
    """

    as_bytes: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class RowType:
    """A row of named, nullable fields.

    Attributes:
        field_names: unique, in order; ``f0``, ``f1``... when the user gave none.
        field_types: one for each name.
        former_names: (field, names under which older state holds it), for renamed fields.
    """

    field_names: tuple[str, ...]
    field_types: tuple[TypeDescription, ...]
    former_names: tuple[tuple[str, tuple[str, ...]], ...] = ()

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
        unknown = [name for name, _ in self.former_names if name not in self.field_names]
        if unknown:
            msg = f"former names are given for fields that a row does not have; fields={unknown}"
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
    """A dict. Keys may be scalars other than floats, or tuples of such."""

    key_type: TypeDescription
    value_type: TypeDescription


@dataclass(frozen=True, slots=True)
class ClassType:
    """A dataclass, `msgspec.Struct` or pydantic model; its fields may come and go."""

    python_class: type


@dataclass(frozen=True, slots=True)
class ArrowArrayType:
    """A `pyarrow.Array`; elements may be null."""

    element_type: TypeDescription


@dataclass(frozen=True, slots=True)
class ArrowBatchType:
    """A `pyarrow.RecordBatch`: columns of a row's fields, in its order."""

    row: RowType


TypeDescription = (
    ScalarType
    | PickledType
    | RowType
    | TupleType
    | ListType
    | MapType
    | ClassType
    | NumpyType
    | ArrowArrayType
    | ArrowBatchType
    | RecordType
)
"""What can be declared; a `RecordType` stands for a class of which only the fields are known."""

AnyType = TypeDescription | ClassPart
"""Every description."""


@dataclass(frozen=True, slots=True)
class FormerName:
    """Marks a renamed field, so that state stored under the old name is read.

    ``total: Annotated[int, FormerName("count")]`` in a dataclass, struct or pydantic model.
    """

    name: str


PICKLED: Final = PickledType()
STORED_PICKLE: Final = PickledType(as_bytes=True)
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
DURATION: Final = ScalarType(ScalarKind.DURATION)

INTEGER_BITS: Final = {
    ScalarKind.BYTE: 8,
    ScalarKind.SHORT: 16,
    ScalarKind.INT: 32,
    ScalarKind.LONG: 64,
}
"""Width of the fixed-size integers; each can be read as any wider one."""
