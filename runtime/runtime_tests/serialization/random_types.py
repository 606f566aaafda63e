"""Hypothesis strategies of types with their values, and of changes with their expected outcome.

A `Spec` is a type that can be built anew after a change: classes are made of their fields by one of
four makers. Changes return the changed spec and what becomes of a value; they are written from the
rules in docs/types.md, not from the code.
"""
# ruff: noqa: DTZ001 - times without zone are a type of their own here

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pydantic
from hypothesis import strategies as st

from headrace.serialization.row import Row
from headrace.serialization.types import (
    BIG_INT,
    BYTE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    ClassType,
    ListType,
    MapType,
    RowType,
    ScalarType,
    TupleType,
    TypeDescription,
)

from .keys_by_type import aware, ints, scalars, text

Convert = Callable[[Any], Any]

VALUES = scalars | {
    DOUBLE: st.floats(allow_nan=False),
    FLOAT: st.floats(width=32, allow_nan=False),
    DECIMAL: st.decimals(allow_nan=False),
}
KEYS = [STRING, LONG, *(kind for kind in scalars if kind not in {DOUBLE, FLOAT, DECIMAL})]
NAMES = ["a", "b", "c", "d", "e"]

_made = itertools.count()


@dataclasses.dataclass(frozen=True)
class Scalar:
    kind: ScalarType


@dataclasses.dataclass(frozen=True)
class Listed:
    element: Spec


@dataclasses.dataclass(frozen=True)
class Mapped:
    key: ScalarType
    value: Spec


@dataclasses.dataclass(frozen=True)
class Tupled:
    elements: tuple[Spec, ...]


@dataclasses.dataclass(frozen=True)
class Rowed:
    fields: tuple[tuple[str, Spec], ...]
    former: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclasses.dataclass(frozen=True)
class Annotation:
    """A field's type in a class: its annotation, its values, and a default."""

    hint: Any
    values: st.SearchStrategy[Any]
    default: Any


@dataclasses.dataclass(frozen=True)
class Classed:
    maker: str
    fields: tuple[tuple[str, str], ...]
    with_default: frozenset[str] = frozenset()


Spec = Scalar | Listed | Mapped | Tupled | Rowed | Classed

ANNOTATIONS = {
    "int": Annotation(int, ints(64), 7),
    "small": Annotation(int, ints(32), 7),
    "float": Annotation(float, st.floats(allow_nan=False), 0.5),
    "str": Annotation(str, text, "d"),
    "bool": Annotation(bool, st.booleans(), True),
    "bytes": Annotation(bytes, st.binary(max_size=9), b"d"),
    "decimal": Annotation(
        Decimal, st.decimals(allow_nan=False, allow_infinity=False), Decimal("1.50")
    ),
    "date": Annotation(dt.date, st.dates(), dt.date(2024, 1, 1)),
    "datetime": Annotation(dt.datetime, aware | st.datetimes(), dt.datetime(2024, 1, 1)),
    "int?": Annotation(int | None, st.none() | ints(64), None),
    "small?": Annotation(int | None, st.none() | ints(32), None),
    "float?": Annotation(float | None, st.none() | st.floats(allow_nan=False), None),
    "list": Annotation(list[int], st.lists(ints(64), max_size=3), None),
    "dict": Annotation(
        dict[str, float | None], st.dictionaries(text, st.floats(allow_nan=False), max_size=3), None
    ),
    "tuple": Annotation(tuple[int, str], st.tuples(ints(64), text), (1, "d")),
}
DEFAULTED = sorted(
    name for name, of in ANNOTATIONS.items() if of.default is not None or "?" in name
)
MAKERS = ["dataclass", "struct", "array", "model"]


def build_class(spec: Classed) -> type:
    """Return a new class; fields with defaults must come last."""
    name = f"Made{next(_made)}"
    fields: list[Any] = []
    for field, kind in spec.fields:
        of = ANNOTATIONS[kind]
        fields.append(
            (field, of.hint, of.default) if field in spec.with_default else (field, of.hint)
        )
    match spec.maker:
        case "dataclass":
            made = [
                (*field[:2], dataclasses.field(default=field[2])) if len(field) > 2 else field
                for field in fields
            ]
            return dataclasses.make_dataclass(name, made)
        case "struct" | "array":
            return msgspec.defstruct(name, fields, array_like=spec.maker == "array")
        case _:
            described = {
                field[0]: (field[1], field[2] if len(field) > 2 else ...) for field in fields
            }
            return pydantic.create_model(name, **described)


@dataclasses.dataclass(frozen=True)
class Built:
    """A spec's type, its values, and what turns plain parts into a value of it."""

    type: TypeDescription
    values: st.SearchStrategy[Any]


_classes: dict[Classed, type] = {}


def class_of(spec: Classed) -> type:
    if spec not in _classes:
        _classes[spec] = build_class(spec)
    return _classes[spec]


def make_value(spec: Classed, values: dict[str, Any]) -> Any:
    python_class = class_of(spec)
    if spec.maker == "model":
        return python_class.model_construct(**values)
    return python_class(**values)


def build(spec: Spec) -> Built:
    """Return type and values of a spec."""
    match spec:
        case Scalar(kind):
            return Built(kind, VALUES[kind])
        case Listed(element):
            of = build(element)
            return Built(ListType(of.type), st.lists(st.none() | of.values, max_size=3))
        case Mapped(key, value):
            of = build(value)
            keys = VALUES[key]
            return Built(
                MapType(key, of.type), st.dictionaries(keys, st.none() | of.values, max_size=3)
            )
        case Tupled(elements):
            parts = [build(element) for element in elements]
            values = st.tuples(*(st.none() | part.values for part in parts))
            return Built(TupleType(tuple(part.type for part in parts)), values)
        case Rowed(fields, former):
            parts = [build(of) for _, of in fields]
            names = tuple(name for name, _ in fields)
            values = st.tuples(*(st.none() | part.values for part in parts))
            row = RowType(names, tuple(part.type for part in parts), former)
            return Built(row, values.map(lambda items: Row.of_names(names, items)))
        case Classed(_, fields):
            fixed = {name: ANNOTATIONS[kind].values for name, kind in fields}
            values = st.fixed_dictionaries(fixed).map(lambda items: make_value(spec, items))
            return Built(ClassType(class_of(spec)), values)


# --- specs ----------------------------------------------------------------------------------------

scalar_specs = st.sampled_from([Scalar(kind) for kind in VALUES])


@st.composite
def class_specs(draw: st.DrawFn) -> Classed:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    fields = [(name, draw(st.sampled_from(sorted(ANNOTATIONS)))) for name in names]
    defaulted = [name for name, kind in fields if kind in DEFAULTED and draw(st.booleans())]
    ordered = [field for field in fields if field[0] not in defaulted]
    ordered += [field for field in fields if field[0] in defaulted]
    return Classed(draw(st.sampled_from(MAKERS)), tuple(ordered), frozenset(defaulted))


def _nest(inner: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    named = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)
    return st.one_of(
        st.builds(Listed, inner),
        st.builds(Mapped, st.sampled_from(KEYS), inner),
        st.builds(lambda parts: Tupled(tuple(parts)), st.lists(inner, min_size=1, max_size=3)),
        named.flatmap(
            lambda names: st.tuples(*(st.tuples(st.just(name), inner) for name in names))
        ).map(Rowed),
        class_specs(),
    )


specs: st.SearchStrategy[Spec] = st.recursive(scalar_specs | class_specs(), _nest, max_leaves=6)


# --- changes --------------------------------------------------------------------------------------


def same(value: Any) -> Any:
    return value


@dataclasses.dataclass(frozen=True)
class Change:
    """A changed spec and what becomes of a value; ``as_is`` when bytes need not change."""

    spec: Spec
    convert: Convert
    as_is: bool


WIDER = {
    BYTE: [SHORT, INT, LONG, BIG_INT],
    SHORT: [INT, LONG, BIG_INT],
    INT: [LONG, BIG_INT],
    LONG: [BIG_INT],
    FLOAT: [DOUBLE],
}
CONVERTED: dict[ScalarType, list[tuple[ScalarType, Convert]]] = {
    BYTE: [(FLOAT, float), (DOUBLE, float), (DECIMAL, Decimal)],
    SHORT: [(FLOAT, float), (DOUBLE, float), (DECIMAL, Decimal)],
    INT: [(DOUBLE, float), (DECIMAL, Decimal)],
    LONG: [(DECIMAL, Decimal)],
    BIG_INT: [(DECIMAL, Decimal)],
}
WIDER_FIELDS: dict[str, list[tuple[str, Convert, bool]]] = {
    "int": [("int?", same, True)],
    "small": [("int?", same, True), ("float", float, False), ("float?", float, False)],
    "small?": [("int?", same, True), ("float?", lambda v: None if v is None else float(v), False)],
    "float": [("float?", same, True)],
}


def nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


@st.composite
def changes(draw: st.DrawFn, spec: Spec) -> Change:
    """A change at one place of a spec that the rules allow."""
    match spec:
        case Scalar(kind):
            options: list[Change] = [Change(spec, same, as_is=True)]
            options += [Change(Scalar(wider), same, as_is=True) for wider in WIDER.get(kind, [])]
            options += [
                Change(Scalar(other), convert, as_is=False)
                for other, convert in CONVERTED.get(kind, [])
            ]
            return draw(st.sampled_from(options))
        case Listed(element):
            inner = draw(changes(element))
            of = nullable(inner.convert)
            return Change(Listed(inner.spec), lambda v: [of(item) for item in v], inner.as_is)
        case Mapped(key, value):
            inner = draw(changes(value))
            of = nullable(inner.convert)
            return Change(
                Mapped(key, inner.spec),
                lambda v: {k: of(item) for k, item in v.items()},
                inner.as_is,
            )
        case Tupled(elements):
            index = draw(st.integers(0, len(elements) - 1))
            inner = draw(changes(elements[index]))
            of = nullable(inner.convert)
            return Change(
                Tupled((*elements[:index], inner.spec, *elements[index + 1 :])),
                lambda v: (*v[:index], of(v[index]), *v[index + 1 :]),
                inner.as_is,
            )
        case Rowed():
            return draw(row_changes(spec))
        case Classed():
            return draw(class_changes(spec))


@st.composite
def row_changes(draw: st.DrawFn, spec: Rowed) -> Change:
    names = [name for name, _ in spec.fields]
    index = draw(st.integers(0, len(names) - 1))
    name, of = spec.fields[index]
    rest = (*spec.fields[:index], *spec.fields[index + 1 :])
    kinds = ["inner", "add", "rename", "reorder"] + (["drop"] if len(names) > 1 else [])
    match draw(st.sampled_from(kinds)):
        case "inner":
            inner = draw(changes(of))
            fields = (*spec.fields[:index], (name, inner.spec), *spec.fields[index + 1 :])
            convert = nullable(inner.convert)
            return Change(
                Rowed(fields),
                lambda v: Row.of_names(
                    tuple(names), [convert(x) if i == index else x for i, x in enumerate(v)]
                ),
                inner.as_is,
            )
        case "add":
            added = draw(st.integers(0, len(names)))
            fields = (*spec.fields[:added], ("new", draw(scalar_specs)), *spec.fields[added:])
            return _of_row(fields, lambda v: {"new": None} | v.as_dict())
        case "rename":
            fields = (*rest, ("new", of))
            renamed = (("new", ("older", name)),)
            return _of_row(fields, lambda v: {"new": v[name]} | v.as_dict(), renamed)
        case "drop":
            return _of_row(rest, lambda v: v.as_dict())
        case _:
            order = draw(st.permutations(spec.fields))
            same_order = list(order) == list(spec.fields)
            return _of_row(tuple(order), lambda v: v.as_dict(), as_is=same_order)


def _of_row(
    fields: tuple[tuple[str, Spec], ...],
    values: Convert,
    former: tuple[tuple[str, tuple[str, ...]], ...] = (),
    *,
    as_is: bool = False,
) -> Change:
    names = tuple(name for name, _ in fields)

    def convert(row: Any) -> Row:
        found = values(row)
        return Row.of_names(names, [found[name] for name in names])

    return Change(Rowed(fields, former), convert, as_is)


@st.composite
def class_changes(draw: st.DrawFn, spec: Classed) -> Change:
    kinds = ["add", "maker"] + (["drop"] if len(spec.fields) > 1 else [])
    wider = [
        (i, WIDER_FIELDS[kind]) for i, (_, kind) in enumerate(spec.fields) if kind in WIDER_FIELDS
    ]
    kinds += ["widen"] if wider else []
    old_names = [name for name, _ in spec.fields]
    as_is = False
    of_field: dict[str, Convert] = {}
    match draw(st.sampled_from(kinds)):
        case "add":
            kind = draw(st.sampled_from(DEFAULTED))
            new = Classed(spec.maker, (*spec.fields, ("new", kind)), spec.with_default | {"new"})
        case "drop":
            gone = draw(st.sampled_from(old_names))
            kept = tuple(field for field in spec.fields if field[0] != gone)
            new = Classed(spec.maker, kept, spec.with_default - {gone})
        case "widen":
            index, options = draw(st.sampled_from(wider))
            name = old_names[index]
            kind, of_field[name], as_is = draw(st.sampled_from(options))
            fields = (*spec.fields[:index], (name, kind), *spec.fields[index + 1 :])
            new = Classed(spec.maker, fields, spec.with_default)
        case _:
            maker = draw(st.sampled_from(MAKERS))
            new = Classed(maker, spec.fields, spec.with_default)
            as_is = (maker == "array") == (spec.maker == "array")

    def convert(value: Any) -> Any:
        values = {
            name: of_field.get(name, same)(getattr(value, name))
            for name, _ in new.fields
            if name in old_names
        }
        if "new" in new.with_default:
            values["new"] = ANNOTATIONS[dict(new.fields)["new"]].default
        return make_value(new, values)

    return Change(new, convert, as_is)
