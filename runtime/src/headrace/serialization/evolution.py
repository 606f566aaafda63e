"""Whether values of one type can become values of another, and how (E6).

`resolve` compares the stored description with the declared one, part by part, and returns a
verdict, a line for every field, and the conversion of decoded values.

`Verdict.AS_IS` is given only where every old value's bytes are bytes of the new type with the same
meaning, whatever the type becomes later. So it is transitive, and the type in a checkpoint is
enough to read all its values. A dropped field, for one, needs a migration: its bytes would come
back to life when a field of that name is added again.

Parts of rows, tuples, lists and maps are nullable; parts of classes are when they say so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.serialization import conversions
from headrace.serialization.class_types import (
    ChoiceType,
    CollectionKind,
    CollectionType,
    DictType,
    FixedTupleType,
    NativeType,
    NumpyType,
    OptionalType,
    RecordType,
    RecursiveType,
    UnionType,
)
from headrace.serialization.classes import record_of_class
from headrace.serialization.codec import identity
from headrace.serialization.compatibility import WHOLE, Compatibility, FieldChange, Verdict
from headrace.serialization.conversions import Convert, Form, Taken
from headrace.serialization.leaf_evolution import (
    SAME,
    Step,
    arrays,
    checked,
    choice,
    differ,
    migrated,
    refused,
    scalars,
)
from headrace.serialization.record_fields import (
    Field,
    Fields,
    Part,
    by_name_only,
    fields_of,
    has_gap,
    shape_of,
    sources_of,
)
from headrace.serialization.type_text import type_text
from headrace.serialization.types import (
    ArrowArrayType,
    ArrowBatchType,
    ClassType,
    ListType,
    MapType,
    PickledType,
    RowType,
    ScalarType,
    TupleType,
)

if TYPE_CHECKING:
    from headrace.serialization.types import AnyType


@dataclass(frozen=True, slots=True)
class Evolution:
    """A verdict, and the conversion of decoded values when it is `Verdict.AFTER_MIGRATION`."""

    compatibility: Compatibility
    convert: Convert


def resolve(stored: AnyType, declared: AnyType) -> Evolution:
    """Return what becomes of values of ``stored`` under ``declared``."""
    resolver = _Resolver()
    step = resolver.step(Part(stored), Part(declared), "")
    changes = resolver.changes
    if step.note or not isinstance(stored, RowType | RecordType | ClassType):
        was, becomes = type_text(stored), type_text(declared)
        changes = [FieldChange(WHOLE, was, becomes, step.verdict, step.note), *changes]
    return Evolution(Compatibility(step.verdict, tuple(changes)), step.convert)


@dataclass(slots=True)
class _Open:
    """A pair of classes that is being compared, for those that hold themselves."""

    convert: Convert = identity

    def again(self, wire: object) -> object:
        """Convert a value inside itself."""
        return self.convert(wire)


@dataclass(slots=True)
class _Resolver:
    """One comparison; collects a line for every field."""

    changes: list[FieldChange] = field(default_factory=list)
    _stored: dict[str, RecordType] = field(default_factory=dict)
    _declared: dict[str, RecordType] = field(default_factory=dict)
    _pairs: dict[tuple[str, str], _Open] = field(default_factory=dict)

    def step(self, stored: Part, declared: Part, place: str) -> Step:
        """Return what becomes of one part; ``place`` is its path, empty for the whole value."""
        stored, declared = _without_optional(stored), _without_optional(declared)
        if stored.nullable and not declared.nullable:
            return refused("it may be null, declare it optional")
        old = self._expanded(stored.type, self._stored)
        new = self._expanded(declared.type, self._declared)
        step = self._either(old, new, place)
        if not stored.nullable:
            return step
        return Step(step.verdict, conversions.nullable(step.convert), step.note)

    def _expanded(self, description: AnyType, enclosing: dict[str, RecordType]) -> AnyType:
        match description:
            case ClassType(python_class):
                return record_of_class(python_class)
            case RecursiveType(name):
                return enclosing[name]
            case _:
                return description

    def _either(self, old: AnyType, new: AnyType, place: str) -> Step:  # noqa: C901, PLR0911
        match old, new:
            case ((RowType() | RecordType()), (RowType() | RecordType())):
                return self._records(old, new, place)
            case ((ListType() | CollectionType()), (ListType() | CollectionType())):
                return self._collections(old, new, place)
            case ((TupleType() | FixedTupleType()), (TupleType() | FixedTupleType())):
                return self._tuples(old, new, place)
            case ((MapType() | DictType()), (MapType() | DictType())):
                return self._maps(old, new, place)
            case (UnionType(), _) | (_, UnionType()):
                return self._unions(old, new, place)
            case NumpyType(), NumpyType():
                return arrays(old, new)
            case ArrowArrayType(was), ArrowArrayType(becomes):
                rows = RowType(("item",), (was,)), RowType(("item",), (becomes,))
                return self._arrow(*rows, place)
            case ArrowBatchType(was_row), ArrowBatchType(becomes_row):
                return self._arrow(was_row, becomes_row, place)
            case PickledType(), PickledType():
                return SAME
            case ChoiceType(), _:
                return choice(old, new)
            case ((ScalarType() | NativeType()), (ScalarType() | NativeType())):
                return scalars(old, new)
            case _:
                return differ(old, new)

    # --- rows and classes -------------------------------------------------------------------------

    def _records(self, old: RowType | RecordType, new: RowType | RecordType, place: str) -> Step:
        if not (isinstance(old, RecordType) and isinstance(new, RecordType)):
            return self._fields(fields_of(old), fields_of(new), place)
        pair = old.name, new.name
        if pair in self._pairs:
            # Its verdict is part of the enclosing one's, which is being found out.
            return Step(Verdict.AS_IS, self._pairs[pair].again)
        opened = self._pairs[pair] = _Open()
        self._stored[old.name], self._declared[new.name] = old, new
        step = self._fields(fields_of(old), fields_of(new), place)
        opened.convert = step.convert
        del self._pairs[pair]
        return step

    def _fields(self, old: Fields, new: Fields, place: str) -> Step:
        sources = sources_of(old, new)
        verdict = Verdict.AS_IS
        if old.shape != new.shape and not by_name_only(old.shape, new.shape):
            verdict = Verdict.AFTER_MIGRATION
        plan = []
        for item in new.fields:
            step = self._field(old, item, sources[item.name], place)
            verdict = max(verdict, step.verdict)
            default = conversions.wire_of(item.default)
            plan.append(Taken(item.name, sources[item.name], step.convert, default))
        for item in old.fields:
            if item.name not in sources.values():
                verdict = max(verdict, Verdict.AFTER_MIGRATION)
                self._note(_join(place, item.name), item.part, None, _DROPPED)
        if old.fields and not any(sources.values()):
            return refused("no field in common, all values would be lost")
        if new.shape.form is Form.ARRAY and has_gap([sources[name] for name in new.shape.names]):
            return refused("new fields of an array-like struct must come last")
        if verdict is Verdict.AS_IS and all(taken.convert is identity for taken in plan):
            return SAME
        return Step(verdict, conversions.fields_conversion(old.shape, new.shape, plan))

    def _field(self, old: Fields, item: Field, source: str | None, place: str) -> Step:
        path = _join(place, item.name)
        if source is None:
            step = refused("new and without a default") if item.required else _ADDED
            self._note(path, None, item.part, step)
            return step
        was = old.of(source).part
        before = len(self.changes)
        step = self.step(was, item.part, path)
        if all(change.unchanged for change in self.changes[before:]):
            del self.changes[before:]
        if source != item.name:
            note = f"renamed from {source}" + (f", {step.note}" if step.note else "")
            step = Step(max(step.verdict, Verdict.AFTER_MIGRATION), step.convert, note)
        self._note(path, was, item.part, step, before)
        return step

    def _note(
        self, place: str, old: Part | None, new: Part | None, step: Step, at: int | None = None
    ) -> None:
        change = FieldChange(
            place,
            "" if old is None else type_text(old.type),
            "" if new is None else type_text(new.type),
            step.verdict,
            step.note,
        )
        self.changes.insert(len(self.changes) if at is None else at, change)

    # --- containers -------------------------------------------------------------------------------

    def _collections(
        self, old: ListType | CollectionType, new: ListType | CollectionType, place: str
    ) -> Step:
        (was, old_kind, old_bounds), (becomes, new_kind, new_bounds) = (
            _elements(old),
            _elements(new),
        )
        if old_kind != new_kind and {old_kind, new_kind} not in _ALIKE:
            return differ(old, new)
        step = self.step(was, becomes, f"{place}[]")
        convert = identity if step.convert is identity else conversions.each(step.convert)
        whole = Step(step.verdict, convert, _inside("element", step.note))
        return whole if old_bounds == new_bounds else checked(whole)

    def _tuples(
        self, old: TupleType | FixedTupleType, new: TupleType | FixedTupleType, place: str
    ) -> Step:
        olds, news = _places(old), _places(new)
        if len(olds) != len(news):
            return refused(
                f"tuples have different lengths; stored={len(olds)} declared={len(news)}"
            )
        steps = [
            self.step(was, becomes, f"{place}[{index}]")
            for index, (was, becomes) in enumerate(zip(olds, news, strict=True))
        ]
        notes = (_inside(f"element {index}", step.note) for index, step in enumerate(steps))
        converts = [step.convert for step in steps]
        plain = all(convert is identity for convert in converts)
        return Step(
            max((step.verdict for step in steps), default=Verdict.AS_IS),
            identity if plain else conversions.each_place(converts),
            "; ".join(filter(None, notes)),
        )

    def _maps(self, old: MapType | DictType, new: MapType | DictType, place: str) -> Step:
        (old_key, was, old_bounds), (new_key, becomes, new_bounds) = _entries(old), _entries(new)
        keys = self.step(old_key, new_key, f"{place}{{key}}")
        if keys.verdict is not Verdict.AS_IS:
            return refused(f"map key: {keys.note or 'keys keep their type'}")
        step = self.step(was, becomes, f"{place}{{}}")
        convert = identity if step.convert is identity else conversions.each_value(step.convert)
        whole = Step(step.verdict, convert, _inside("map value", step.note))
        return whole if old_bounds == new_bounds else checked(whole)

    def _unions(self, old: AnyType, new: AnyType, place: str) -> Step:
        olds = old.members if isinstance(old, UnionType) else (old,)
        news = new.members if isinstance(new, UnionType) else (new,)
        verdict, converts = Verdict.AS_IS, []
        for was in olds:
            best = self._member(was, news, place)
            if best.verdict is Verdict.INCOMPATIBLE:
                return refused(f"no member of the union takes {type_text(was)}")
            verdict = max(verdict, best.verdict)
            if isinstance(was, RecordType) and best.convert is not identity:
                converts.append((shape_of(was), best.convert))
        return Step(verdict, conversions.of_member(converts) if converts else identity)

    def _member(self, was: AnyType, news: tuple[AnyType, ...], place: str) -> Step:
        """Return the best step to a member of a union; keeps only that one's changes."""
        before = len(self.changes)
        best, changes = refused(""), list[FieldChange]()
        for becomes in news:
            if isinstance(was, RecordType) and isinstance(becomes, RecordType):
                if was.tag != becomes.tag:
                    continue
                told_apart = True
            else:
                told_apart = False
            step = self.step(Part(was), Part(becomes), f"{place}<{type_text(was)}>")
            # Only classes are told apart by their bytes, so only they may need a conversion.
            if step.verdict < best.verdict and (told_apart or step.convert is identity):
                best, changes = step, self.changes[before:]
            del self.changes[before:]
        self.changes += changes
        return best

    def _arrow(self, old: RowType, new: RowType, place: str) -> Step:
        old, new = (RowType(row.field_names, row.field_types) for row in (old, new))
        if old == new:
            return SAME
        sources = sources_of(fields_of(old), fields_of(new))
        step = self._fields(fields_of(old), fields_of(new), place)
        if step.verdict is Verdict.INCOMPATIBLE:
            return step

        def convert(wire: object) -> object:
            # pyarrow takes long to import, see `codecs`.
            from headrace.serialization.arrow_codecs import migrate_batch  # noqa: PLC0415

            return migrate_batch(wire, old, new, sources)

        # Wider columns have other bytes, unlike wider numbers in MessagePack.
        return migrated(convert, step.note)


_DROPPED: Final = migrated(identity, "dropped")
_ADDED: Final = migrated(identity, "new, gets its default")

_LIST: Final = CollectionKind.LIST
_ALIKE: Final = (
    {CollectionKind.LIST, CollectionKind.VAR_TUPLE},
    {CollectionKind.SET, CollectionKind.FROZENSET},
)


def _without_optional(part: Part) -> Part:
    return Part(part.type.of, nullable=True) if isinstance(part.type, OptionalType) else part


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _inside(place: str, note: str) -> str:
    return f"{place}: {note}" if note else ""


def _elements(collection: ListType | CollectionType) -> tuple[Part, CollectionKind, object]:
    if isinstance(collection, ListType):
        return Part(collection.element_type, nullable=True), _LIST, ()
    return Part(collection.element), collection.kind, collection.bounds


def _places(description: TupleType | FixedTupleType) -> list[Part]:
    if isinstance(description, TupleType):
        return [Part(element, nullable=True) for element in description.element_types]
    return [Part(element) for element in description.elements]


def _entries(description: MapType | DictType) -> tuple[Part, Part, object]:
    if isinstance(description, MapType):
        return Part(description.key_type), Part(description.value_type, nullable=True), ()
    return Part(description.key), Part(description.value), description.bounds
