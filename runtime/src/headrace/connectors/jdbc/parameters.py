"""Values of declared types as parameters of a statement.

Every parameter has the server's type of its declared type, so the server decides at the start, by
preparing the statement, whether a column takes it. Strings have no type of their own: the server
reads them as what stands there (text, JSON, UUID, an enum, a network address...).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from psycopg.types.numeric import Float8, Int2, Int4, Int8, IntNumeric

from headrace.errors import InvalidProgramError, UserCodeError
from headrace.serialization.row import Row, RowKind
from headrace.serialization.type_text import type_text
from headrace.serialization.types import (
    AnyType,
    ListType,
    RowType,
    ScalarKind,
    ScalarType,
)

UNKNOWN_OID: Final = 0
"""The server infers the type from where the parameter stands."""

_OIDS: Final[dict[ScalarKind, tuple[int, int]]] = {
    ScalarKind.STRING: (UNKNOWN_OID, UNKNOWN_OID),
    ScalarKind.BYTES: (17, 1001),
    ScalarKind.BOOLEAN: (16, 1000),
    ScalarKind.BYTE: (21, 1005),
    ScalarKind.SHORT: (21, 1005),
    ScalarKind.INT: (23, 1007),
    ScalarKind.LONG: (20, 1016),
    ScalarKind.BIG_INT: (1700, 1231),
    ScalarKind.FLOAT: (701, 1022),
    ScalarKind.DOUBLE: (701, 1022),
    ScalarKind.DECIMAL: (1700, 1231),
    ScalarKind.DATE: (1082, 1182),
    ScalarKind.TIME: (1083, 1183),
    ScalarKind.TIMESTAMP: (1114, 1115),
    ScalarKind.INSTANT: (1184, 1185),
    ScalarKind.DURATION: (1186, 1187),
}
"""Fixed numbers of the server's types and of arrays of them (``pg_type.oid``)."""

_WRAPPERS: Final[dict[ScalarKind, Callable[[int], object]]] = {
    ScalarKind.BYTE: Int2,
    ScalarKind.SHORT: Int2,
    ScalarKind.INT: Int4,
    ScalarKind.LONG: Int8,
    ScalarKind.BIG_INT: IntNumeric,
}
"""Without these the client would choose a type by the value, and prepare a statement for each."""

_RETRACTIONS: Final = frozenset({RowKind.UPDATE_BEFORE, RowKind.DELETE})


def parameter_oids(row: RowType) -> list[int]:
    """Return the server's types of a row's fields.

    Raises:
        InvalidProgramError: a field's type has none; names the field.
    """
    return [_oid(name, of) for name, of in zip(row.field_names, row.field_types, strict=True)]


def _oid(name: str, description: AnyType) -> int:
    match description:
        case ScalarType(kind):
            return _OIDS[kind][0]
        case ListType(ScalarType(kind)):
            return _OIDS[kind][1]
    msg = (
        "a JDBC sink takes scalars and lists of scalars, write others as a string of JSON; "
        f"field={name} type={type_text(description)}"
    )
    raise InvalidProgramError(msg)


def row_binder(row: RowType) -> Callable[[Sequence[object]], list[object]]:
    """Return what turns a row's values into parameters."""
    binders = [_binder(of) for of in row.field_types]

    def bind(values: Sequence[object]) -> list[object]:
        return [
            value if value is None or binder is None else binder(value)
            for binder, value in zip(binders, values, strict=True)
        ]

    return bind


def _binder(description: AnyType) -> Callable[[object], object] | None:
    match description:
        case ScalarType(ScalarKind.FLOAT | ScalarKind.DOUBLE):
            return lambda value: Float8(cast("float", value))
        case ScalarType(kind) if kind in _WRAPPERS:
            wrapper = _WRAPPERS[kind]
            return lambda value: wrapper(cast("int", value))
        case ListType(element) if (of_element := _binder(element)) is not None:
            return lambda value: [
                None if item is None else of_element(item) for item in cast("list[object]", value)
            ]
    return None


def check_row(value: object) -> None:
    """Refuse, before it is part of a checkpoint, what the database would refuse after it.

    Raises:
        UserCodeError: a retraction, or a string with a character that the server cannot store.
    """
    if isinstance(value, Row) and value.get_row_kind() in _RETRACTIONS:
        msg = (
            "a JDBC sink writes rows and takes none back, filter retractions before it; "
            f"row_kind={value.get_row_kind()}"
        )
        raise UserCodeError(msg)
    for item in cast("Sequence[object]", value):
        if isinstance(item, str) and "\0" in item:
            msg = f"PostgreSQL stores no NUL characters, remove them; value={item[:80]!r}"
            raise UserCodeError(msg)
