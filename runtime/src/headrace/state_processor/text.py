"""State as text: values for people and programs, keys as they are typed.

JSON has no bytes, no NaN and no keys but texts: bytes are Base64 (standard alphabet), numbers that
are not finite are their names, maps are lists of pairs, times are ISO 8601, decimals are texts.
"""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import json
import math
from decimal import Decimal
from typing import TYPE_CHECKING, Final, cast

import msgspec

from headrace.errors import InvalidConfigError
from headrace.serialization.arrow_types import ArrowOptions
from headrace.serialization.registry import described_type
from headrace.serialization.row import Row
from headrace.serialization.type_text import type_text
from headrace.serialization.types import (
    PickledType,
    RowType,
    ScalarKind,
    ScalarType,
    TupleType,
)
from headrace.state_processor.catalog import is_undeclared_key
from headrace.state_processor.columns import KEY_GROUP, TableColumns
from headrace.state_processor.lists import ListColumns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.serialization.types import TypeDescription
    from headrace.state.entries import StoredEntry
    from headrace.state_processor.catalog import OperatorStateList, StateTable

Plain = dict[str, object]
"""An entry by column, as JSON values."""

TEXT_MAX: Final = 200
"""So many characters of a value are shown to people; JSON has all of them."""


_TEXT: Final = ArrowOptions(decimals_as_text=True)


class EntryTexts:
    """Entries of one state as JSON values.

    Args:
        table: the state.

    Raises:
        IncompatibleStateError: a newer release wrote the state.
    """

    def __init__(self, table: StateTable) -> None:
        self.columns = TableColumns(table, _TEXT)

    def plain(self, entries: Sequence[StoredEntry]) -> list[Plain]:
        """Return entries without their key groups, which nobody chose."""
        rows: list[Plain] = self.columns.batch(entries).to_pylist()
        return [
            {name: plain_value(value) for name, value in row.items() if name != KEY_GROUP}
            for row in rows
        ]


def list_texts(stored: OperatorStateList, limit: int | None) -> list[Plain]:
    """Return the first items of a state without keys as JSON values."""
    columns = ListColumns(stored, _TEXT)
    items = list(itertools.islice(columns.items(), limit))
    rows: list[Plain] = columns.batch(items).to_pylist()
    return [{name: plain_value(value) for name, value in row.items()} for row in rows]


def plain_value(value: object) -> object:
    """Return a value of an Arrow column as JSON has it."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case dict():
            return {str(name): plain_value(item) for name, item in value.items()}
        case list() | tuple():
            return [plain_value(item) for item in value]
        case _:
            return msgspec.to_builtins(value)


def shown(value: object) -> str:
    """Return a JSON value as people read it, cut to `TEXT_MAX` characters."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= TEXT_MAX else f"{text[: TEXT_MAX - 1]}…"


def parse_key(text: str, snapshot: dict[str, object]) -> object:
    """Return a key that was typed, by the key type of the operator.

    Texts are typed as they are, numbers, booleans and times as in JSON, tuples and rows as JSON
    arrays. A key of undeclared type is JSON, or, where it is none, the text itself.

    Args:
        text: what was typed.
        snapshot: of the key type.

    Raises:
        InvalidConfigError: not a key of this type.
    """
    if is_undeclared_key(snapshot):
        try:
            return _undeclared(json.loads(text))
        except json.JSONDecodeError:
            return text
    description = described_type(snapshot)
    try:
        return _typed(text, description)
    except (ValueError, TypeError, ArithmeticError, msgspec.ValidationError) as error:
        msg = (
            f"not a key of the operator's key type: {error}; "
            f"key={text!r} key_type={type_text(description)}"
        )
        raise InvalidConfigError(msg) from error


def _undeclared(value: object) -> object:
    """Return a JSON value as the key that shows as it: arrays are tuples."""
    return tuple(map(_undeclared, value)) if isinstance(value, list) else value


def _typed(text: str, description: TypeDescription) -> object:
    match description:
        case ScalarType(ScalarKind.STRING):
            return text
        case ScalarType(ScalarKind.DECIMAL):
            return Decimal(text)
        case ScalarType(kind) if kind in _QUOTED:
            return _value(text, description)
        case _:
            return _value(json.loads(text), description)


_QUOTED: Final[dict[ScalarKind, type]] = {
    ScalarKind.BYTES: bytes,
    ScalarKind.DATE: dt.date,
    ScalarKind.TIME: dt.time,
    ScalarKind.TIMESTAMP: dt.datetime,
    ScalarKind.INSTANT: dt.datetime,
    ScalarKind.DURATION: dt.timedelta,
}
"""Kinds that JSON has as texts; bytes in Base64."""


def _value(plain: object, description: TypeDescription) -> object:
    """Return a JSON value as one of a key's type."""
    if plain is None:
        return None
    match description:
        case ScalarType(ScalarKind.DECIMAL):
            return Decimal(str(plain))
        case ScalarType(kind) if kind in _QUOTED:
            return msgspec.convert(plain, _QUOTED[kind])
        case TupleType(elements):
            items = cast("Sequence[object]", plain)
            return tuple(_value(item, of) for item, of in zip(items, elements, strict=True))
        case RowType(names, types):
            values = list(plain.values()) if isinstance(plain, dict) else plain
            items = cast("Sequence[object]", values)
            return Row.of_names(names, [_value(i, of) for i, of in zip(items, types, strict=True)])
        case PickledType():
            msg = "keys of this type cannot be typed"
            raise TypeError(msg)
        case _:
            return plain
