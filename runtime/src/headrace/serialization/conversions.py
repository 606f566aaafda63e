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

from headrace.serialization.class_types import NO_DEFAULT, Tag
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

MISSING: Final = object()
"""A field that is not there."""


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
    """One field of the new type: of which old one it is made, and how.

    ``default`` is the wire value of a field without source, `MISSING` where the new type's decoder
    knows better, or None in a row.
    """

    name: str
    source: str | None
    convert: Convert
    default: object


def wire_of(default: object) -> object:
    """Return the wire value of a class's default, `MISSING` when there is none."""
    if default is NO_DEFAULT:
        return MISSING
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(default))
    except TypeError:
        return MISSING  # of a class that is not msgspec's to make, whose __init__ knows it


def fields_conversion(old: Shape, new: Shape, plan: Sequence[Taken]) -> Convert:
    """Return the conversion of one row or class to another, ``plan`` in the new one's order.

    Fields without source and default are left out, where the new type's decoder fills them in; in
    rows they are None. In an array they must come last.
    """
    if old.form is Form.MAP:
        take = _taking_by_name(plan)
    else:
        # In front of the fields: a row's kind, an array's tag.
        take = _taking_by_place(plan, old.names, int(old.form is Form.ROW or old.tag is not None))
    make = _making(new, [taken.name for taken in plan])
    if old.form is Form.ROW:
        return lambda wire: make(take(wire), cast("list[int]", wire)[0])
    return lambda wire: make(take(wire), _INSERT)


_INSERT: Final = RowKind.INSERT.value


def _taking_by_name(plan: Sequence[Taken]) -> Callable[[object], list[object]]:
    steps = [(taken.source, taken.convert, taken.default) for taken in plan]

    def take(wire: object) -> list[object]:
        fields = cast("dict[object, object]", wire)
        values = []
        for source, convert, default in steps:
            value = default if source is None else fields.get(source, MISSING)
            plain = source is None or value is MISSING or convert is identity
            values.append(value if plain else convert(value))
        return values

    return take


def _taking_by_place(
    plan: Sequence[Taken], names: Sequence[str], head: int
) -> Callable[[object], list[object]]:
    places = {name: index for index, name in enumerate(names, head)}
    steps = [
        (None if taken.source is None else places[taken.source], taken.convert, taken.default)
        for taken in plan
    ]

    def take(wire: object) -> list[object]:
        items = cast("list[object]", wire)
        return [
            default
            if place is None
            else items[place]
            if convert is identity
            else convert(items[place])
            for place, convert, default in steps
        ]

    return take


def _making(new: Shape, names: Sequence[str]) -> Callable[[list[object], int], object]:
    """Return the function (values, row kind) -> wire value."""
    if new.form is Form.ROW:
        return lambda values, kind: [kind, *(None if v is MISSING else v for v in values)]
    head: list[object] = [] if new.tag is None else [new.tag.value]
    tag: dict[str, object] = {} if new.tag is None else {new.tag.field: new.tag.value}

    def make(values: list[object], kind: int) -> object:
        if kind != _INSERT:
            msg = f"a row that is no insertion cannot become a class; kind={RowKind(kind).name}"
            raise ValueError(msg)
        if new.form is Form.ARRAY:
            return [*head, *(value for value in values if value is not MISSING)]
        pairs = zip(names, values, strict=True)
        return tag | {name: value for name, value in pairs if value is not MISSING}

    return make


# --- unions ---------------------------------------------------------------------------------------


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
