"""JSON rows, as ``pyflink.datastream.formats.json``, read and written by msgspec.

Reading decodes straight into a generated `msgspec.Struct` and from there into a `Row`: the fields
that the type names are checked and converted in C, all others are skipped without becoming objects.
Dates and times are ISO 8601, bytes are base64, unknown fields are ignored, absent ones are None.
"""

from __future__ import annotations

import datetime as dt
import decimal
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import msgspec

from headrace.common.serialization import DeserializationSchema, SerializationSchema
from headrace.errors import InvalidProgramError
from headrace.serialization import types as described
from headrace.serialization.row import Row, row_class
from headrace.serialization.type_text import type_text
from headrace.serialization.types import INTEGER_BITS, RowType, ScalarKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.common.typeinfo import TypeInformation
    from headrace.serialization.types import TypeDescription

_SCALARS: Final[dict[ScalarKind, type]] = {
    ScalarKind.STRING: str,
    ScalarKind.BYTES: bytes,
    ScalarKind.BOOLEAN: bool,
    ScalarKind.BIG_INT: int,
    ScalarKind.FLOAT: float,
    ScalarKind.DOUBLE: float,
    ScalarKind.DECIMAL: decimal.Decimal,
    ScalarKind.DATE: dt.date,
    ScalarKind.TIME: dt.time,
    ScalarKind.TIMESTAMP: dt.datetime,
    ScalarKind.INSTANT: dt.datetime,
    ScalarKind.DURATION: dt.timedelta,
}

_MESSAGE_BYTES_SHOWN: Final = 120


class JsonRowDeserializationSchema(DeserializationSchema):
    """Reads JSON objects as rows; made by `builder`."""

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the rows, a ``Types.ROW_NAMED``."""
            self._type_info = type_info
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Fail when a field is absent, instead of reading None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Leave out messages that cannot be read, instead of failing."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Return the schema.

            Raises:
                InvalidProgramError: no row type was set, or the settings contradict each other.
            """
            if self._fail_on_missing_field and self._ignore_parse_errors:
                msg = "choose one of fail_on_missing_field and ignore_parse_errors"
                raise InvalidProgramError(msg)
            return JsonRowDeserializationSchema(
                _required(self._type_info),
                required=self._fail_on_missing_field,
                lenient=self._ignore_parse_errors,
            )

    def __init__(self, type_info: TypeInformation, *, required: bool, lenient: bool) -> None:
        """Use `builder` instead."""
        self._type_info = type_info
        self._required = required
        self._lenient = lenient
        self._prepare()

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder."""
        return JsonRowDeserializationSchema.Builder()

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the rows."""
        return self._type_info

    def deserialize(self, message: bytes) -> Row | None:
        """Return the row of a message; None for an unreadable one with ``ignore_parse_errors``.

        Raises:
            ValueError: the message is not a JSON object of this type.
        """
        try:
            decoded = self._decoder.decode(message)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            if self._lenient:
                return None
            shown = bytes(message[:_MESSAGE_BYTES_SHOWN])
            msg = f"message is not JSON of the declared type: {error}; message={shown!r}"
            raise ValueError(msg) from error
        return cast("Row", self._to_row(decoded))

    def _prepare(self) -> None:
        description = _row_type(self._type_info)
        struct = _struct_of(description, required=self._required)
        self._decoder = msgspec.json.Decoder(struct, strict=False)
        self._to_row = _row_maker(description)

    def __getstate__(self) -> tuple[TypeInformation, bool, bool]:
        return (self._type_info, self._required, self._lenient)

    def __setstate__(self, state: tuple[TypeInformation, bool, bool]) -> None:
        self._type_info, self._required, self._lenient = state
        self._prepare()


class JsonRowSerializationSchema(SerializationSchema):
    """Writes rows as JSON objects; made by `builder`."""

    class Builder:
        """Collects the settings."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the rows, a ``Types.ROW_NAMED``."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema.

            Raises:
                InvalidProgramError: no row type was set.
            """
            return JsonRowSerializationSchema(_required(self._type_info))

    def __init__(self, type_info: TypeInformation) -> None:
        """Use `builder` instead."""
        self._type_info = type_info
        self._prepare()

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:  # noqa: ANN401 - the base class's
        """Return a row, or a tuple of its fields, as a JSON object.

        Raises:
            ValueError: the value has not the fields of the type.
        """
        return self._encoder.encode(self._to_json(element))

    def _prepare(self) -> None:
        self._encoder = msgspec.json.Encoder(decimal_format="number")
        self._to_json = _json_maker(_row_type(self._type_info))

    def __getstate__(self) -> TypeInformation:
        return self._type_info

    def __setstate__(self, state: TypeInformation) -> None:
        self._type_info = state
        self._prepare()


def _required(type_info: TypeInformation | None) -> TypeInformation:
    if type_info is None:
        msg = "a JSON schema needs the type of its rows, give it a Types.ROW_NAMED"
        raise InvalidProgramError(msg)
    _row_type(type_info)
    return type_info


def _row_type(type_info: TypeInformation) -> RowType:
    description = type_info.description
    if not isinstance(description, RowType):
        msg = f"a JSON schema needs a row type, use Types.ROW_NAMED; type={type_info}"
        raise InvalidProgramError(msg)
    return description


def _struct_of(row: RowType, *, required: bool) -> type[msgspec.Struct]:
    """Return a struct class with positional attributes and the row's names in JSON."""
    fields = []
    for index, kind in enumerate(row.field_types):
        python = _python_type(kind, required=required) | None
        fields.append((f"f{index}", python) if required else (f"f{index}", python, None))
    names = {f"f{index}": name for index, name in enumerate(row.field_names)}
    return msgspec.defstruct("JsonRow", fields, rename=names, gc=False, frozen=True)


def _python_type(description: TypeDescription, *, required: bool) -> Any:  # noqa: ANN401, PLR0911
    match description:
        case described.ScalarType(kind) if kind in INTEGER_BITS:
            bound = 1 << (INTEGER_BITS[kind] - 1)
            return Annotated[int, msgspec.Meta(ge=-bound, le=bound - 1)]
        case described.ScalarType(kind):
            return _SCALARS[kind]
        case RowType():
            return _struct_of(description, required=required)
        case described.TupleType(elements):
            parts = tuple(_python_type(e, required=required) | None for e in elements)
            return tuple[parts]  # type: ignore[valid-type]  # built at run time
        case described.ListType(element):
            return list[_python_type(element, required=required) | None]  # type: ignore[misc]
        case described.MapType(key, value):
            keys = _python_type(key, required=required)
            return dict[keys, _python_type(value, required=required) | None]  # type: ignore[misc,valid-type]
        case described.ClassType(python_class):
            return python_class
        case described.PickledType():
            return Any
        case _:
            msg = (
                "values of this type cannot be JSON, use rows, lists and scalars; "
                f"type={type_text(description)}"
            )
            raise InvalidProgramError(msg)


def _row_maker(row: RowType) -> Callable[[object], object]:
    """Return the function decoded struct -> `Row`."""
    make_row = row_class(row.field_names)
    makers = [_value_maker(kind) for kind in row.field_types]
    astuple = msgspec.structs.astuple
    if not any(makers):

        def flat(decoded: object) -> object:
            return make_row(astuple(cast("msgspec.Struct", decoded)))

        return flat

    def nested(decoded: object) -> object:
        values = astuple(cast("msgspec.Struct", decoded))
        return make_row(
            value if make is None or value is None else make(value)
            for make, value in zip(makers, values, strict=True)
        )

    return nested


def _value_maker(description: TypeDescription) -> Callable[[object], object] | None:
    """Return what turns a decoded value into the user's, None when it is already."""
    match description:
        case RowType():
            return _row_maker(description)
        case described.ListType(element):
            of_element = _value_maker(element)
            return None if of_element is None else partial(_each, of_element)
        case described.MapType(_, value):
            of_value = _value_maker(value)
            return None if of_value is None else partial(_each_value, of_value)
        case described.TupleType(elements):
            makers = [_value_maker(element) for element in elements]
            return partial(_by_place, makers) if any(makers) else None
        case _:
            return None


def _each(make: Callable[[object], object], items: object) -> list[object]:
    return [None if item is None else make(item) for item in cast("list[object]", items)]


def _each_value(make: Callable[[object], object], pairs: object) -> dict[object, object]:
    typed = cast("dict[object, object]", pairs)
    return {key: None if item is None else make(item) for key, item in typed.items()}


def _by_place(makers: list[Callable[[object], object] | None], items: object) -> tuple[object, ...]:
    typed = cast("tuple[object, ...]", items)
    return tuple(
        item if make is None or item is None else make(item)
        for make, item in zip(makers, typed, strict=True)
    )


def _json_maker(row: RowType) -> Callable[[object], object]:
    """Return the function `Row` or tuple -> struct with the row's names, which msgspec writes."""
    names = row.field_names
    struct = _struct_of(row, required=False)
    makers = [_json_value_maker(kind) for kind in row.field_types]
    if not any(makers):

        def make_flat(value: object) -> object:
            return struct(*_fields_of(value, names))

        return make_flat

    def make_nested(value: object) -> object:
        fields = _fields_of(value, names)
        return struct(
            *(
                field if make is None or field is None else make(field)
                for make, field in zip(makers, fields, strict=True)
            )
        )

    return make_nested


def _fields_of(value: object, names: tuple[str, ...]) -> Sequence[object]:
    if isinstance(value, Row):
        own = value.field_names
        fields: Sequence[object] = (
            value if own is None or own == names else value.get_fields_by_names(names)
        )
    elif isinstance(value, (tuple, list)):
        fields = value
    else:
        msg = f"value is not a row; type={type(value).__name__} fields={list(names)}"
        raise ValueError(msg)  # noqa: TRY004 - one kind of error for a value that does not fit
    if len(fields) != len(names):
        msg = f"row has another number of fields; values={len(fields)} fields={list(names)}"
        raise ValueError(msg)
    return fields


def _json_value_maker(description: TypeDescription) -> Callable[[object], object] | None:
    match description:
        case RowType():
            return _json_maker(description)
        case described.ListType(element):
            of_element = _json_value_maker(element)
            return None if of_element is None else partial(_each, of_element)
        case described.MapType(_, value):
            of_value = _json_value_maker(value)
            return None if of_value is None else partial(_each_value, of_value)
        case described.TupleType(elements):
            makers = [_json_value_maker(element) for element in elements]
            return partial(_by_place, makers) if any(makers) else None
        case _:
            return None
