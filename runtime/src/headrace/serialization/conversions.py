"""How stored values of one type become values of another: functions over decoded MessagePack.

A *wire* value is what msgspec decodes without a type: numbers, texts, bytes, lists, dicts.
Functions raise ValueError, TypeError or alike for a value that has no counterpart; whoever migrates
names it.
`headrace.serialization.evolution` decides which function applies.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import msgspec
import numpy as np

from headrace.serialization.class_types import Tag
from headrace.serialization.codec import identity
from headrace.serialization.numpy_codec import array_of_wire, array_to_wire
from headrace.serialization.row import RowKind
from headrace.serialization.scalar_codecs import scalar_codec
from headrace.serialization.types import ScalarKind

if TYPE_CHECKING:
    from collections.abc import Sequence

Convert = Callable[[object], object]

EXACT_IN_DOUBLE: Final = 1 << 53
"""All integers up to here are doubles."""

_MISSING: Final = object()


def nullable(convert: Convert) -> Convert:
    """Return ``convert`` that keeps None."""
    if convert is identity:
        return identity
    return lambda wire: None if wire is None else convert(wire)


def each(convert: Convert) -> Convert:
    """Return the conversion of a list's elements."""
    return lambda wire: [convert(item) for item in cast("list[object]", wire)]


def each_value(convert: Convert) -> Convert:
    """Return the conversion of a map's values."""
    return lambda wire: {k: convert(v) for k, v in cast("dict[object, object]", wire).items()}


def each_place(converts: Sequence[Convert]) -> Convert:
    """Return the conversion of a tuple's elements."""
    return lambda wire: [
        convert(item) for convert, item in zip(converts, cast("list[object]", wire), strict=True)
    ]


def to_double(wire: object) -> object:
    """Integer to float, without loss."""
    number = cast("int", wire)
    if abs(number) > EXACT_IN_DOUBLE:
        msg = f"an integer has no exact double; value={number}"
        raise ValueError(msg)
    return float(number)


def to_decimal(wire: object) -> object:
    """Integer of any size to decimal."""
    return str(scalar_codec(ScalarKind.BIG_INT).lift(wire))


def from_text(kind: ScalarKind, python_type: type) -> Convert:
    """Return the conversion of msgspec's text of a date, time or timedelta to ours."""
    lower = scalar_codec(kind).lower
    return lambda wire: lower(msgspec.convert(wire, python_type))


def to_text(kind: ScalarKind) -> Convert:
    """Return the conversion of our date, time or duration to msgspec's text."""
    lift = scalar_codec(kind).lift
    return lambda wire: msgspec.to_builtins(lift(wire))


TEXT_FORMS: Final = {
    ("date", "date text"): to_text(ScalarKind.DATE),
    ("time", "time text"): to_text(ScalarKind.TIME),
    ("duration", "timedelta"): to_text(ScalarKind.DURATION),
    ("date text", "date"): from_text(ScalarKind.DATE, dt.date),
    ("time text", "time"): from_text(ScalarKind.TIME, dt.time),
    ("timedelta", "duration"): from_text(ScalarKind.DURATION, dt.timedelta),
}
"""Between declared types and fields of classes, which hold the same values."""


def array_cast(stored: str, declared: str) -> Convert:
    """Return the conversion of an array's elements to another dtype, without loss."""
    old, new = np.dtype(stored), np.dtype(declared)

    def convert(wire: object) -> object:
        array = array_of_wire(cast("list[object]", wire), old)
        wider = array.astype(new)
        if not np.array_equal(wider.astype(old), array, equal_nan=old.kind == "f"):
            msg = f"an array's elements have no exact counterpart; stored={old} declared={new}"
            raise ValueError(msg)
        return array_to_wire(wider, new)

    return convert


# --- records --------------------------------------------------------------------------------------


class Form(enum.Enum):
    """How fields are laid out."""

    ROW = "row"
    MAP = "map"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Shape:
    """Where the fields of a row or class are in its wire value."""

    form: Form
    names: tuple[str, ...]
    tag: Tag | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """One field of the new type: of which old one it is made, and how."""

    name: str
    source: str | None
    convert: Convert


def fields_conversion(old: Shape, new: Shape, plan: Sequence[Taken]) -> Convert:
    """Return the conversion of one row or class to another, ``plan`` in the new one's order.

    Fields without source are left out where they have defaults; in rows they are None. In an array
    they must come last.
    """

    def convert(wire: object) -> object:
        fields, kind = _fields_of(old, wire)
        taken = [
            (item.name, _MISSING if value is _MISSING else item.convert(value))
            for item in plan
            for value in [_MISSING if item.source is None else fields.get(item.source, _MISSING)]
        ]
        return _made(new, taken, kind)

    return convert


def of_member(converts: Sequence[tuple[Shape, Convert]]) -> Convert:
    """Return the conversion of the classes among a union's values; others stay."""

    def convert(wire: object) -> object:
        of = next((of for shape, of in converts if _is_of(shape, wire)), identity)
        return of(wire)

    return convert


def _is_of(shape: Shape, wire: object) -> bool:
    tag = shape.tag
    if shape.form is Form.MAP:
        return isinstance(wire, dict) and (tag is None or wire.get(tag.field) == tag.value)
    return isinstance(wire, list) and (tag is None or wire[0] == tag.value)


def _fields_of(old: Shape, wire: object) -> tuple[dict[object, object], int]:
    if old.form is Form.MAP:
        return cast("dict[object, object]", wire), RowKind.INSERT.value
    items = cast("list[object]", wire)
    if old.form is Form.ROW:
        kind = cast("int", items[0])
        return dict(zip(old.names, items[1:], strict=True)), kind
    return dict(zip(old.names, items[old.tag is not None :], strict=False)), RowKind.INSERT.value


def _made(new: Shape, taken: list[tuple[str, object]], kind: int) -> object:
    if new.form is Form.ROW:
        return [kind, *(None if value is _MISSING else value for _, value in taken)]
    if kind != RowKind.INSERT.value:
        msg = f"a row that is no insertion cannot become a class; kind={RowKind(kind).name}"
        raise ValueError(msg)
    if new.form is Form.ARRAY:
        head = [] if new.tag is None else [new.tag.value]
        return [*head, *(value for _, value in taken if value is not _MISSING)]
    tag: dict[str, object] = {} if new.tag is None else {new.tag.field: new.tag.value}
    return tag | {name: value for name, value in taken if value is not _MISSING}
