"""Types of values, as ``pyflink.common.typeinfo``: thin names over `headrace.serialization.types`.

A type decides how values are stored in state and how keys are hashed. Between two operators values
pass as Python objects, so an ``output_type`` describes them and does not convert them; only sources
(`from_collection`, schemas) make values of a declared type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.serialization import types as described
from headrace.serialization.class_types import NumpyType, RecordType
from headrace.serialization.registry import key_serializer, value_serializer
from headrace.serialization.type_text import type_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.serialization.serializer import KeySerializer, TypeSerializer
    from headrace.serialization.types import TypeDescription

FormerName = described.FormerName
"""Annotates a renamed field of a class: ``total: Annotated[int, FormerName("count")]``."""


class TypeInformation:
    """A declared type; equal when the described types are."""

    def __init__(self, description: TypeDescription) -> None:
        self._description = description

    @property
    def description(self) -> TypeDescription:
        """The described type."""
        return self._description

    def value_serializer(self) -> TypeSerializer[object]:
        """Return the serializer of values of this type."""
        return value_serializer(self._description)

    def key_serializer(self) -> KeySerializer[object]:
        """Return the canonical serializer of keys of this type.

        Raises:
            InvalidProgramError: values of this type cannot be keys.
        """
        return key_serializer(self._description)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypeInformation):
            return NotImplemented
        return self._description == other._description

    def __hash__(self) -> int:
        return hash(self._description)

    def __repr__(self) -> str:
        return type_text(self._description)


class BasicTypeInfo(TypeInformation):
    """A type without parts."""


class PickledBytesTypeInfo(TypeInformation):
    """Any picklable object; what is not declared has this type."""


class RowTypeInfo(TypeInformation):
    """A row of typed, optionally named fields."""

    def __init__(
        self,
        field_types: Sequence[TypeInformation],
        field_names: Sequence[str] | None = None,
        former_names: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        names = field_names or [f"f{index}" for index in range(len(field_types))]
        former = {name: tuple(olds) for name, olds in (former_names or {}).items()}
        self._field_types = list(field_types)
        self._row = described.RowType(
            tuple(names), tuple(t.description for t in field_types), tuple(former.items())
        )
        super().__init__(self._row)

    @property
    def row(self) -> described.RowType:
        """The description, as a row's."""
        return self._row

    def get_field_names(self) -> list[str]:
        """Return the names, ``f0``, ``f1``... when none were given."""
        return list(self._row.field_names)

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field, -1 when there is no such field."""
        names = self._row.field_names
        return names.index(field_name) if field_name in names else -1

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return list(self._field_types)


class TupleTypeInfo(TypeInformation):
    """A tuple of fixed length."""

    def __init__(self, field_types: Sequence[TypeInformation]) -> None:
        self._field_types = list(field_types)
        super().__init__(described.TupleType(tuple(t.description for t in field_types)))

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the elements."""
        return list(self._field_types)


class ListTypeInfo(TypeInformation):
    """A list; stands for Flink's arrays too."""

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type = element_type
        super().__init__(described.ListType(element_type.description))


class MapTypeInfo(TypeInformation):
    """A dict."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = key_type_info
        self._value_type_info = value_type_info
        super().__init__(described.MapType(key_type_info.description, value_type_info.description))


class ClassTypeInfo(TypeInformation):
    """A user's dataclass, `msgspec.Struct` or pydantic model."""

    def __init__(self, python_class: type) -> None:
        super().__init__(described.ClassType(python_class))


class RecordTypeInfo(TypeInformation):
    """A class that a checkpoint describes; values are dicts."""


class NumpyTypeInfo(TypeInformation):
    """A `numpy.ndarray`."""


class ArrowArrayTypeInfo(TypeInformation):
    """A `pyarrow.Array`."""

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type = element_type
        super().__init__(described.ArrowArrayType(element_type.description))


class ArrowBatchTypeInfo(TypeInformation):
    """A `pyarrow.RecordBatch`."""

    def __init__(self, row_type: RowTypeInfo) -> None:
        self.row_type = row_type
        super().__init__(described.ArrowBatchType(row_type.row))


class Types:
    """The declarable types, by PyFlink's names."""

    @staticmethod
    def STRING() -> TypeInformation:  # noqa: N802 - PyFlink's name, as all below
        """Return the type of ``str``."""
        return BasicTypeInfo(described.STRING)

    @staticmethod
    def BYTE() -> TypeInformation:  # noqa: N802
        """Return the type of ``int`` of 8 bits, signed."""
        return BasicTypeInfo(described.BYTE)

    @staticmethod
    def BOOLEAN() -> TypeInformation:  # noqa: N802
        """Return the type of ``bool``."""
        return BasicTypeInfo(described.BOOLEAN)

    @staticmethod
    def SHORT() -> TypeInformation:  # noqa: N802
        """Return the type of ``int`` of 16 bits, signed."""
        return BasicTypeInfo(described.SHORT)

    @staticmethod
    def INT() -> TypeInformation:  # noqa: N802
        """Return the type of ``int`` of 32 bits, signed."""
        return BasicTypeInfo(described.INT)

    @staticmethod
    def LONG() -> TypeInformation:  # noqa: N802
        """Return the type of ``int`` of 64 bits, signed."""
        return BasicTypeInfo(described.LONG)

    @staticmethod
    def FLOAT() -> TypeInformation:  # noqa: N802
        """Return the type of ``float`` that is a 32-bit number as a key."""
        return BasicTypeInfo(described.FLOAT)

    @staticmethod
    def DOUBLE() -> TypeInformation:  # noqa: N802
        """Return the type of ``float``."""
        return BasicTypeInfo(described.DOUBLE)

    @staticmethod
    def CHAR() -> TypeInformation:  # noqa: N802
        """Return the type of ``str`` of one character; stored as STRING."""
        return BasicTypeInfo(described.STRING)

    @staticmethod
    def BIG_INT() -> TypeInformation:  # noqa: N802
        """Return the type of ``int`` of any size."""
        return BasicTypeInfo(described.BIG_INT)

    @staticmethod
    def BIG_DEC() -> TypeInformation:  # noqa: N802
        """Return the type of ``decimal.Decimal``."""
        return BasicTypeInfo(described.DECIMAL)

    @staticmethod
    def INSTANT() -> TypeInformation:  # noqa: N802
        """Return the type of ``datetime.datetime`` with a zone."""
        return BasicTypeInfo(described.INSTANT)

    @staticmethod
    def SQL_DATE() -> TypeInformation:  # noqa: N802
        """Return the type of ``datetime.date``."""
        return BasicTypeInfo(described.DATE)

    @staticmethod
    def SQL_TIME() -> TypeInformation:  # noqa: N802
        """Return the type of ``datetime.time``."""
        return BasicTypeInfo(described.TIME)

    @staticmethod
    def SQL_TIMESTAMP() -> TypeInformation:  # noqa: N802
        """Return the type of ``datetime.datetime`` without zone."""
        return BasicTypeInfo(described.TIMESTAMP)

    @staticmethod
    def PICKLED_BYTE_ARRAY() -> TypeInformation:  # noqa: N802
        """Return the type of any picklable object: slower, and its state cannot evolve."""
        return PickledBytesTypeInfo(described.PICKLED)

    @staticmethod
    def ROW(field_types: list[TypeInformation]) -> RowTypeInfo:  # noqa: N802
        """Return the type of `Row` with fields ``f0``, ``f1``..."""
        return RowTypeInfo(field_types)

    @staticmethod
    def ROW_NAMED(  # noqa: N802
        field_names: list[str],
        field_types: list[TypeInformation],
        former_names: dict[str, list[str]] | None = None,
    ) -> RowTypeInfo:
        """Return the type of `Row` with named fields.

        Args:
            field_names: unique.
            field_types: one for each name.
            former_names: of renamed fields the names under which older state holds them.
        """
        return RowTypeInfo(field_types, field_names, former_names)

    @staticmethod
    def TUPLE(field_types: list[TypeInformation]) -> TupleTypeInfo:  # noqa: N802
        """Return the type of ``tuple``."""
        return TupleTypeInfo(field_types)

    @staticmethod
    def PRIMITIVE_ARRAY(element_type: TypeInformation) -> TypeInformation:  # noqa: N802
        """Return the type of ``bytes`` for `BYTE` elements, of ``list`` for others."""
        if element_type.description == described.BYTE:
            return BasicTypeInfo(described.BYTES)
        return ListTypeInfo(element_type)

    @staticmethod
    def BASIC_ARRAY(element_type: TypeInformation) -> TypeInformation:  # noqa: N802
        """Return the type of ``list``."""
        return ListTypeInfo(element_type)

    @staticmethod
    def OBJECT_ARRAY(element_type: TypeInformation) -> TypeInformation:  # noqa: N802
        """Return the type of ``list``."""
        return ListTypeInfo(element_type)

    @staticmethod
    def LIST(element_type_info: TypeInformation) -> TypeInformation:  # noqa: N802
        """Return the type of ``list``."""
        return ListTypeInfo(element_type_info)

    @staticmethod
    def MAP(  # noqa: N802
        key_type_info: TypeInformation, value_type_info: TypeInformation
    ) -> TypeInformation:
        """Return the type of ``dict``."""
        return MapTypeInfo(key_type_info, value_type_info)

    @staticmethod
    def POJO(python_class: type) -> TypeInformation:  # noqa: N802
        """Return the type of a dataclass, `msgspec.Struct` or pydantic model.

        Its fields may come and go; see docs/types.md for what else may change.
        """
        return ClassTypeInfo(python_class)

    @staticmethod
    def DURATION() -> TypeInformation:  # noqa: N802
        """Return the type of ``datetime.timedelta``."""
        return BasicTypeInfo(described.DURATION)

    @staticmethod
    def NUMPY(dtype: str, ndim: int | None = 1) -> TypeInformation:  # noqa: N802
        """Return the type of `numpy.ndarray` of one element type.

        Args:
            dtype: a boolean, an integer or a float, by NumPy's name, e.g. "float32".
            ndim: number of dimensions, None for any.
        """
        return NumpyTypeInfo(NumpyType(dtype, ndim))

    @staticmethod
    def ARROW_ARRAY(element_type: TypeInformation) -> TypeInformation:  # noqa: N802
        """Return the type of `pyarrow.Array`; elements may be null."""
        return ArrowArrayTypeInfo(element_type)

    @staticmethod
    def ARROW_BATCH(row_type: RowTypeInfo) -> TypeInformation:  # noqa: N802
        """Return the type of `pyarrow.RecordBatch` with a row's fields as columns."""
        return ArrowBatchTypeInfo(row_type)


def type_info_of(description: TypeDescription) -> TypeInformation:  # noqa: C901, PLR0911 - one for each kind
    """Return the declared type of a description: ``TypeInformation.description`` reversed."""
    match description:
        case described.RowType():
            return row_type_info_of(description)
        case described.TupleType(elements):
            return TupleTypeInfo([type_info_of(t) for t in elements])
        case described.ListType(element):
            return ListTypeInfo(type_info_of(element))
        case described.MapType(key, value):
            return MapTypeInfo(type_info_of(key), type_info_of(value))
        case described.ClassType(python_class):
            return ClassTypeInfo(python_class)
        case described.PickledType():
            return PickledBytesTypeInfo(description)
        case described.ScalarType():
            return BasicTypeInfo(description)
        case NumpyType():
            return NumpyTypeInfo(description)
        case described.ArrowArrayType(element):
            return ArrowArrayTypeInfo(type_info_of(element))
        case described.ArrowBatchType(row):
            return ArrowBatchTypeInfo(row_type_info_of(row))
        case RecordType():
            return RecordTypeInfo(description)


def row_type_info_of(row: described.RowType) -> RowTypeInfo:
    """Return the declared type of a row's description."""
    fields = [type_info_of(field_type) for field_type in row.field_types]
    return RowTypeInfo(fields, row.field_names, dict(row.former_names))
