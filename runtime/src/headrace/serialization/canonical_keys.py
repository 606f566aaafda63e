"""Keys without a declared type, and declared composite ones: type-tagged canonical bytes.

The declared type only decides what `coerce` accepts and returns; the bytes describe themselves
(`headrace.serialization.canonical`).
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Final, cast

import xxhash

from headrace.errors import InvalidProgramError
from headrace.keygroups import KEY_HASH_SEED
from headrace.serialization import canonical, canonical_values
from headrace.serialization.keys import (
    CODEC,
    UNDECLARED,
    UNDECLARED_TYPE,
    BooleanKeySerializer,
    BytesKeySerializer,
    DeclaredKeySerializer,
    FloatKeySerializer,
    IntegerKeySerializer,
    StringKeySerializer,
)
from headrace.serialization.row import Row
from headrace.serialization.type_text import type_text
from headrace.serialization.types import (
    INTEGER_BITS,
    PICKLED,
    ListType,
    PickledType,
    RowType,
    ScalarKind,
    ScalarType,
    TupleType,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.serialization.serializer import KeySerializer
    from headrace.serialization.types import TypeDescription


def build_key_serializer(description: TypeDescription) -> KeySerializer[object]:
    """See `headrace.serialization.registry.key_serializer`."""
    serializer: object
    match description:
        case ScalarType(kind) if kind in INTEGER_BITS:
            serializer = IntegerKeySerializer(kind)
        case ScalarType(ScalarKind.FLOAT | ScalarKind.DOUBLE as kind):
            serializer = FloatKeySerializer(kind)
        case ScalarType(ScalarKind.STRING):
            serializer = StringKeySerializer()
        case ScalarType(ScalarKind.BYTES):
            serializer = BytesKeySerializer()
        case ScalarType(ScalarKind.BOOLEAN):
            serializer = BooleanKeySerializer()
        case _:
            serializer = CanonicalKeySerializer(description)
    # A key serializer is only ever given what its own `coerce` returned.
    return cast("KeySerializer[object]", serializer)


class CanonicalKeySerializer(DeclaredKeySerializer[object]):
    """Type-tagged canonical bytes of values of a declared type, or of any (`PICKLED`)."""

    cache_key_is_key = False

    def __init__(self, description: TypeDescription = PICKLED) -> None:
        super().__init__(description)
        if isinstance(description, PickledType):
            self._described = UNDECLARED_TYPE
            self._snapshot = {"codec": CODEC, "type": self._described}
        self._coerce = _build_coercion(description)

    def __reduce__(self) -> tuple[object, ...]:
        return CanonicalKeySerializer, (self._description,)

    def _text(self) -> str:
        return UNDECLARED if self._description == PICKLED else super()._text()

    def coerce(self, value: object) -> object:
        """Return the declared type's canonical value."""
        return self._coerce(value)

    def serialize(self, value: object) -> bytes:
        """Return canonical bytes of what `coerce` returned."""
        return canonical.encode_canonical(value)

    def deserialize(self, data: bytes) -> object:
        """Return the canonical value."""
        return canonical.decode(data)

    def cache_key(self, key: object) -> object:
        """A str or an int itself, the bytes of everything else (1 == 1.0 == True in Python)."""
        return key if type(key) is str or type(key) is int else canonical.encode_canonical(key)

    def hash64(self, key: object) -> int:
        """Hash of the canonical bytes."""
        return xxhash.xxh64_intdigest(canonical.encode_canonical(key), KEY_HASH_SEED)

    def spark_expression(self, column: str) -> None:
        """There is none: Spark does not know the canonical bytes."""


def _build_coercion(description: TypeDescription) -> Callable[[object], object]:
    """Return value -> canonical value of the declared type; parts of containers may be None.

    Raises:
        InvalidProgramError: a map or a class, which have no canonical bytes.
    """
    match description:
        case PickledType():
            return canonical_values.canonical
        case ScalarType(kind) if kind in _PYTHON_TYPES:
            return _scalar_coercion(description, _PYTHON_TYPES[kind])
        case ScalarType():
            return build_key_serializer(description).coerce
        case TupleType(elements):
            return _tuple_coercion(description, [_build_coercion(t) for t in elements])
        case ListType(element):
            return _list_coercion(description, _build_coercion(element))
        case RowType(names, types):
            return _row_coercion(description, names, [_build_coercion(t) for t in types])
    msg = (
        "values of this type cannot be keys, key by a string, number, tuple or row; "
        f"type={type_text(description)}"
    )
    raise InvalidProgramError(msg)


def _scalar_coercion(
    description: TypeDescription, accepts: Callable[[object], bool]
) -> Callable[[object], object]:
    def coerce(value: object) -> object:
        result = canonical_values.canonical(value)
        if not accepts(result):
            raise _not_declared(description, value)
        return result

    return coerce


def _tuple_coercion(
    description: TypeDescription, parts: list[Callable[[object], object]]
) -> Callable[[object], object]:
    def coerce(value: object) -> object:
        if not isinstance(value, tuple) or len(value) != len(parts):
            raise _not_declared(description, value)
        pairs = zip(value, parts, strict=True)
        return tuple(None if item is None else part(item) for item, part in pairs)

    return coerce


def _list_coercion(
    description: TypeDescription, part: Callable[[object], object]
) -> Callable[[object], object]:
    def coerce(value: object) -> object:
        if not isinstance(value, list | tuple) or isinstance(value, Row):
            raise _not_declared(description, value)
        return [None if item is None else part(item) for item in value]

    return coerce


def _row_coercion(
    description: TypeDescription, names: tuple[str, ...], parts: list[Callable[[object], object]]
) -> Callable[[object], object]:
    def coerce(value: object) -> object:
        if not isinstance(value, tuple | Row) or len(value) != len(parts):
            raise _not_declared(description, value)
        if isinstance(value, Row):
            canonical_values.check_insert(value)
        pairs = zip(value, parts, strict=True)
        return Row.of_names(names, [None if item is None else part(item) for item, part in pairs])

    return coerce


def _not_declared(description: TypeDescription, value: object) -> TypeError:
    found = type(value).__qualname__
    declared = type_text(description)
    return TypeError(f"a key is not of its declared type; declared={declared} type={found}")


_PYTHON_TYPES: Final[dict[ScalarKind, Callable[[object], bool]]] = {
    ScalarKind.BIG_INT: lambda value: type(value) is int,
    ScalarKind.DECIMAL: lambda value: type(value) is Decimal,
    ScalarKind.DATE: lambda value: type(value) is dt.date,
    ScalarKind.TIME: lambda value: type(value) is dt.time,
    ScalarKind.TIMESTAMP: lambda value: type(value) is dt.datetime and value.tzinfo is None,
    ScalarKind.INSTANT: lambda value: type(value) is dt.datetime and value.tzinfo is not None,
    ScalarKind.DURATION: lambda value: type(value) is dt.timedelta,
}
