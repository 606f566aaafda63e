"""Rows and classes as what they have in common: named fields at places of a wire value.

`headrace.serialization.evolution` compares them without asking which is which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.serialization.class_types import NO_DEFAULT, Layout, RecordType
from headrace.serialization.conversions import Form, Shape

if TYPE_CHECKING:
    from headrace.serialization.types import AnyType, RowType


@dataclass(frozen=True, slots=True)
class Part:
    """A type where it stands."""

    type: AnyType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One field, as `headrace.serialization.class_types.RecordField`."""

    name: str
    part: Part
    required: bool
    former_names: tuple[str, ...]
    default: object = NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Fields:
    """A row or a class."""

    shape: Shape
    fields: tuple[Field, ...]

    def of(self, name: str) -> Field:
        """Return the field of a name that there is."""
        return next(item for item in self.fields if item.name == name)


def fields_of(record: RowType | RecordType) -> Fields:
    """Return the fields of a row or class; those of rows are nullable and need no default."""
    if isinstance(record, RecordType):
        return Fields(
            shape_of(record),
            tuple(
                Field(item.name, Part(item.type), item.required, item.former_names, item.default)
                for item in record.fields
            ),
        )
    former = dict(record.former_names)
    return Fields(
        Shape(Form.ROW, record.field_names),
        tuple(
            Field(
                name, Part(kind, nullable=True), required=False, former_names=former.get(name, ())
            )
            for name, kind in zip(record.field_names, record.field_types, strict=True)
        ),
    )


def shape_of(record: RecordType) -> Shape:
    """Return where a class's fields are in its wire value."""
    form = Form.ARRAY if record.layout is Layout.ARRAY else Form.MAP
    return Shape(form, tuple(item.name for item in record.fields), record.tag)


def by_name_only(old: Shape, new: Shape) -> bool:
    """Whether the two differ in the order of fields that are stored by name."""
    same_names = sorted(old.names) == sorted(new.names)
    return old.form is new.form is Form.MAP and old.tag == new.tag and same_names


def sources_of(old: Fields, new: Fields) -> dict[str, str | None]:
    """Return which stored field each declared one is made of: the same name, else a former one."""
    free = {item.name for item in old.fields} - {item.name for item in new.fields}
    sources: dict[str, str | None] = {}
    for item in new.fields:
        if item.name in old.shape.names:
            sources[item.name] = item.name
            continue
        sources[item.name] = next((name for name in item.former_names if name in free), None)
        free.discard(sources[item.name] or "")
    return sources


def has_gap(sources: list[str | None]) -> bool:
    """Whether a field without source comes before one with."""
    known = [source is not None for source in sources]
    return known != sorted(known, reverse=True)
