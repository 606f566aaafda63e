"""Types of a DataFrame's columns, from the JSON form of its schema; needs no Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.common.typeinfo import RowTypeInfo, Types
from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation

_SCALARS: Final[dict[str, Callable[[], TypeInformation]]] = {
    "string": Types.STRING,
    "boolean": Types.BOOLEAN,
    "byte": Types.BYTE,
    "short": Types.SHORT,
    "integer": Types.INT,
    "long": Types.LONG,
    "float": Types.FLOAT,
    "double": Types.DOUBLE,
    "date": Types.SQL_DATE,
    "timestamp": Types.INSTANT,
    "timestamp_ntz": Types.SQL_TIMESTAMP,
}


def type_info_of_schema(schema: dict[str, Any]) -> RowTypeInfo:
    """Return the row type of ``DataFrame.schema.jsonValue()``.

    Raises:
        InvalidProgramError: a column has a type without counterpart.
    """
    fields = schema["fields"]
    return RowTypeInfo(
        [_type_info(field["type"], field["name"]) for field in fields],
        [field["name"] for field in fields],
    )


def _type_info(described: str | dict[str, Any], column: str) -> TypeInformation:
    if isinstance(described, dict):
        match described["type"]:
            case "struct":
                return type_info_of_schema(described)
            case "array":
                return Types.LIST(_type_info(described["elementType"], column))
            case "map":
                return Types.MAP(
                    _type_info(described["keyType"], column),
                    _type_info(described["valueType"], column),
                )
    elif described in _SCALARS:
        return _SCALARS[described]()
    elif described == "binary":
        return Types.PRIMITIVE_ARRAY(Types.BYTE())
    elif described.startswith("decimal"):
        return Types.BIG_DEC()
    msg = f"column has a type without counterpart, cast it; column={column!r} type={described}"
    raise InvalidProgramError(msg)
