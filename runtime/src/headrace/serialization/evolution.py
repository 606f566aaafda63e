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

import numpy as np

from headrace.serialization import conversions
from headrace.serialization.class_types import (
    NO_DEFAULT,
    ChoiceType,
    CollectionKind,
    CollectionType,
    DictType,
    FixedTupleType,
    Layout,
    NativeKind,
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
from headrace.serialization.conversions import Convert, Form, Shape, Taken
from headrace.serialization.type_text import type_text
from headrace.serialization.types import (
    INTEGER_BITS,
    ArrowArrayType,
    ArrowBatchType,
    ClassType,
    ListType,
    MapType,
    PickledType,
    RowType,
    ScalarKind,
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
    step = resolver.step(_Part(stored), _Part(declared), "")
    changes = resolver.changes
    if step.note or not isinstance(stored, RowType | RecordType | ClassType):
        was, becomes = type_text(stored), type_text(declared)
        changes = [FieldChange(WHOLE, was, becomes, step.verdict, step.note), *changes]
    return Evolution(Compatibility(step.verdict, tuple(changes)), step.convert)


@dataclass(frozen=True, slots=True)
class _Part:
    """A type where it stands."""

    type: AnyType
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class _Step:
    """What becomes of one part. Changes of fields inside it are not repeated in ``note``."""

    verdict: Verdict
    convert: Convert = identity
    note: str = ""


_SAME: Final = _Step(Verdict.AS_IS)


def _refused(note: str) -> _Step:
    return _Step(Verdict.INCOMPATIBLE, note=note)


def _migrated(convert: Convert, note: str) -> _Step:
    return _Step(Verdict.AFTER_MIGRATION, convert, note)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    part: _Part
    required: bool
    former_names: tuple[str, ...]
    default: object = NO_DEFAULT


@dataclass(frozen=True, slots=True)
class _Fields:
    """A row or a class."""

    shape: Shape
    fields: tuple[_Field, ...]

    def of(self, name: str) -> _Field:
        return next(item for item in self.fields if item.name == name)


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

    def step(self, stored: _Part, declared: _Part, place: str) -> _Step:
        """Return what becomes of one part; ``place`` is its path, empty for the whole value."""
        stored, declared = _without_optional(stored), _without_optional(declared)
        if stored.nullable and not declared.nullable:
            return _refused("it may be null, declare it optional")
        old = self._expanded(stored.type, self._stored)
        new = self._expanded(declared.type, self._declared)
        step = self._either(old, new, place)
        if not stored.nullable:
            return step
        return _Step(step.verdict, conversions.nullable(step.convert), step.note)

    def _expanded(self, description: AnyType, enclosing: dict[str, RecordType]) -> AnyType:
        match description:
            case ClassType(python_class):
                return record_of_class(python_class)
            case RecursiveType(name):
                return enclosing[name]
            case _:
                return description

    def _either(self, old: AnyType, new: AnyType, place: str) -> _Step:  # noqa: C901, PLR0911
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
                return _arrays(old, new)
            case ArrowArrayType(was), ArrowArrayType(becomes):
                rows = RowType(("item",), (was,)), RowType(("item",), (becomes,))
                return self._arrow(*rows, place)
            case ArrowBatchType(was_row), ArrowBatchType(becomes_row):
                return self._arrow(was_row, becomes_row, place)
            case PickledType(), PickledType():
                return _SAME
            case ChoiceType(), _:
                return _choice(old, new)
            case ((ScalarType() | NativeType()), (ScalarType() | NativeType())):
                return _scalars(old, new)
            case _:
                return _differ(old, new)

    # --- rows and classes -------------------------------------------------------------------------

    def _records(self, old: RowType | RecordType, new: RowType | RecordType, place: str) -> _Step:
        if not (isinstance(old, RecordType) and isinstance(new, RecordType)):
            return self._fields(_fields_of(old), _fields_of(new), place)
        pair = old.name, new.name
        if pair in self._pairs:
            # Its verdict is part of the enclosing one's, which is being found out.
            return _Step(Verdict.AS_IS, self._pairs[pair].again)
        opened = self._pairs[pair] = _Open()
        self._stored[old.name], self._declared[new.name] = old, new
        step = self._fields(_fields_of(old), _fields_of(new), place)
        opened.convert = step.convert
        del self._pairs[pair]
        return step

    def _fields(self, old: _Fields, new: _Fields, place: str) -> _Step:
        sources = _sources(old, new)
        verdict = Verdict.AS_IS
        if old.shape != new.shape and not _by_name_only(old.shape, new.shape):
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
            return _refused("no field in common, all values would be lost")
        if new.shape.form is Form.ARRAY and _has_gap([sources[name] for name in new.shape.names]):
            return _refused("new fields of an array-like struct must come last")
        if verdict is Verdict.AS_IS and all(taken.convert is identity for taken in plan):
            return _SAME
        return _Step(verdict, conversions.fields_conversion(old.shape, new.shape, plan))

    def _field(self, old: _Fields, item: _Field, source: str | None, place: str) -> _Step:
        path = _join(place, item.name)
        if source is None:
            step = _refused("new and without a default") if item.required else _ADDED
            self._note(path, None, item.part, step)
            return step
        was = old.of(source).part
        before = len(self.changes)
        step = self.step(was, item.part, path)
        if all(change.unchanged for change in self.changes[before:]):
            del self.changes[before:]
        if source != item.name:
            note = f"renamed from {source}" + (f", {step.note}" if step.note else "")
            step = _Step(max(step.verdict, Verdict.AFTER_MIGRATION), step.convert, note)
        self._note(path, was, item.part, step, before)
        return step

    def _note(
        self, place: str, old: _Part | None, new: _Part | None, step: _Step, at: int | None = None
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
    ) -> _Step:
        (was, old_kind, old_bounds), (becomes, new_kind, new_bounds) = (
            _elements(old),
            _elements(new),
        )
        if old_kind != new_kind and {old_kind, new_kind} not in _ALIKE:
            return _differ(old, new)
        step = self.step(was, becomes, f"{place}[]")
        convert = identity if step.convert is identity else conversions.each(step.convert)
        whole = _Step(step.verdict, convert, _inside("element", step.note))
        return whole if old_bounds == new_bounds else _checked(whole)

    def _tuples(
        self, old: TupleType | FixedTupleType, new: TupleType | FixedTupleType, place: str
    ) -> _Step:
        olds, news = _places(old), _places(new)
        if len(olds) != len(news):
            return _refused(
                f"tuples have different lengths; stored={len(olds)} declared={len(news)}"
            )
        steps = [
            self.step(was, becomes, f"{place}[{index}]")
            for index, (was, becomes) in enumerate(zip(olds, news, strict=True))
        ]
        notes = (_inside(f"element {index}", step.note) for index, step in enumerate(steps))
        converts = [step.convert for step in steps]
        plain = all(convert is identity for convert in converts)
        return _Step(
            max((step.verdict for step in steps), default=Verdict.AS_IS),
            identity if plain else conversions.each_place(converts),
            "; ".join(filter(None, notes)),
        )

    def _maps(self, old: MapType | DictType, new: MapType | DictType, place: str) -> _Step:
        (old_key, was, old_bounds), (new_key, becomes, new_bounds) = _entries(old), _entries(new)
        keys = self.step(old_key, new_key, f"{place}{{key}}")
        if keys.verdict is not Verdict.AS_IS:
            return _refused(f"map key: {keys.note or 'keys keep their type'}")
        step = self.step(was, becomes, f"{place}{{}}")
        convert = identity if step.convert is identity else conversions.each_value(step.convert)
        whole = _Step(step.verdict, convert, _inside("map value", step.note))
        return whole if old_bounds == new_bounds else _checked(whole)

    def _unions(self, old: AnyType, new: AnyType, place: str) -> _Step:
        olds = old.members if isinstance(old, UnionType) else (old,)
        news = new.members if isinstance(new, UnionType) else (new,)
        verdict, converts = Verdict.AS_IS, []
        for was in olds:
            best = self._member(was, news, place)
            if best.verdict is Verdict.INCOMPATIBLE:
                return _refused(f"no member of the union takes {type_text(was)}")
            verdict = max(verdict, best.verdict)
            if isinstance(was, RecordType) and best.convert is not identity:
                converts.append((_shape_of(was), best.convert))
        return _Step(verdict, conversions.of_member(converts) if converts else identity)

    def _member(self, was: AnyType, news: tuple[AnyType, ...], place: str) -> _Step:
        """Return the best step to a member of a union; keeps only that one's changes."""
        before = len(self.changes)
        best, changes = _refused(""), list[FieldChange]()
        for becomes in news:
            if isinstance(was, RecordType) and isinstance(becomes, RecordType):
                if was.tag != becomes.tag:
                    continue
                told_apart = True
            else:
                told_apart = False
            step = self.step(_Part(was), _Part(becomes), f"{place}<{type_text(was)}>")
            # Only classes are told apart by their bytes, so only they may need a conversion.
            if step.verdict < best.verdict and (told_apart or step.convert is identity):
                best, changes = step, self.changes[before:]
            del self.changes[before:]
        self.changes += changes
        return best

    def _arrow(self, old: RowType, new: RowType, place: str) -> _Step:
        old, new = (RowType(row.field_names, row.field_types) for row in (old, new))
        if old == new:
            return _SAME
        sources = _sources(_fields_of(old), _fields_of(new))
        step = self._fields(_fields_of(old), _fields_of(new), place)
        if step.verdict is Verdict.INCOMPATIBLE:
            return step

        def convert(wire: object) -> object:
            # pyarrow takes long to import, see `codecs`.
            from headrace.serialization.arrow_codecs import migrate_batch  # noqa: PLC0415

            return migrate_batch(wire, old, new, sources)

        # Wider columns have other bytes, unlike wider numbers in MessagePack.
        return _migrated(convert, step.note)


_DROPPED: Final = _migrated(identity, "dropped")
_ADDED: Final = _migrated(identity, "new, gets its default")

_LIST: Final = CollectionKind.LIST
_ALIKE: Final = (
    {CollectionKind.LIST, CollectionKind.VAR_TUPLE},
    {CollectionKind.SET, CollectionKind.FROZENSET},
)


def _without_optional(part: _Part) -> _Part:
    return _Part(part.type.of, nullable=True) if isinstance(part.type, OptionalType) else part


def _join(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _inside(place: str, note: str) -> str:
    return f"{place}: {note}" if note else ""


def _differ(old: AnyType, new: AnyType) -> _Step:
    return _refused(f"the types differ; stored={type_text(old)} declared={type_text(new)}")


def _checked(step: _Step) -> _Step:
    note = step.note or "constraints changed, every value is checked"
    return _Step(max(step.verdict, Verdict.AFTER_MIGRATION), step.convert, note)


def _fields_of(record: RowType | RecordType) -> _Fields:
    if isinstance(record, RecordType):
        return _Fields(
            _shape_of(record),
            tuple(
                _Field(item.name, _Part(item.type), item.required, item.former_names, item.default)
                for item in record.fields
            ),
        )
    former = dict(record.former_names)
    return _Fields(
        Shape(Form.ROW, record.field_names),
        tuple(
            _Field(
                name, _Part(kind, nullable=True), required=False, former_names=former.get(name, ())
            )
            for name, kind in zip(record.field_names, record.field_types, strict=True)
        ),
    )


def _shape_of(record: RecordType) -> Shape:
    form = Form.ARRAY if record.layout is Layout.ARRAY else Form.MAP
    return Shape(form, tuple(item.name for item in record.fields), record.tag)


def _by_name_only(old: Shape, new: Shape) -> bool:
    """Whether the two differ in the order of fields that are stored by name."""
    same_names = sorted(old.names) == sorted(new.names)
    return old.form is new.form is Form.MAP and old.tag == new.tag and same_names


def _sources(old: _Fields, new: _Fields) -> dict[str, str | None]:
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


def _has_gap(sources: list[str | None]) -> bool:
    """Whether a field without source comes before one with."""
    known = [source is not None for source in sources]
    return known != sorted(known, reverse=True)


def _elements(collection: ListType | CollectionType) -> tuple[_Part, CollectionKind, object]:
    if isinstance(collection, ListType):
        return _Part(collection.element_type, nullable=True), _LIST, ()
    return _Part(collection.element), collection.kind, collection.bounds


def _places(description: TupleType | FixedTupleType) -> list[_Part]:
    if isinstance(description, TupleType):
        return [_Part(element, nullable=True) for element in description.element_types]
    return [_Part(element) for element in description.elements]


def _entries(description: MapType | DictType) -> tuple[_Part, _Part, object]:
    if isinstance(description, MapType):
        return _Part(description.key_type), _Part(description.value_type, nullable=True), ()
    return _Part(description.key), _Part(description.value), description.bounds


def _arrays(old: NumpyType, new: NumpyType) -> _Step:
    if None not in {old.ndim, new.ndim} and old.ndim != new.ndim:
        return _refused(f"dimensions differ; stored={old.ndim} declared={new.ndim}")
    if not np.can_cast(np.dtype(old.dtype), np.dtype(new.dtype), "safe"):
        return _differ(old, new)
    if old.dtype != new.dtype:
        return _migrated(conversions.array_cast(old.dtype, new.dtype), "elements become wider")
    if new.ndim in {None, old.ndim}:
        return _SAME
    return _migrated(identity, "every value's dimensions are checked")


def _choice(old: ChoiceType, new: AnyType) -> _Step:
    match new:
        case ChoiceType(_, values):
            gone = [value for value in old.values if value not in values]
            return _refused(f"values are gone; values={gone}") if gone else _SAME
        case NativeType(NativeKind.STRING, ()) | ScalarType(ScalarKind.STRING):
            fits = all(isinstance(value, str) for value in old.values)
        case NativeType(NativeKind.LONG, ()) | ScalarType(ScalarKind.LONG):
            fits = all(isinstance(value, int) for value in old.values)
        case _:
            fits = False
    return _SAME if fits else _differ(old, new)


# --- scalars --------------------------------------------------------------------------------------

_WIDTH: Final = {kind.value: bits for kind, bits in INTEGER_BITS.items()} | {
    ScalarKind.BIG_INT.value: 1 << 30
}
_BITS_OF_FLOAT: Final = {"float": 16, "double": 64}
"""Widest integer type whose values a float type takes: exactly up to 32 bits, checked for 64."""


def _scalars(old: ScalarType | NativeType, new: ScalarType | NativeType) -> _Step:
    step = _kinds(_kind_name(old), _kind_name(new)) or _differ(old, new)
    old_bounds = old.bounds if isinstance(old, NativeType) else ()
    new_bounds = new.bounds if isinstance(new, NativeType) else ()
    return step if old_bounds == new_bounds or step.note else _checked(step)


def _kinds(old: str, new: str) -> _Step | None:
    if old == new or (old, new) in _SAME_BYTES:
        return _SAME
    if old in _WIDTH and new in _WIDTH:
        return _SAME if _WIDTH[old] <= _WIDTH[new] else None
    if _WIDTH.get(old, 1 << 31) <= _BITS_OF_FLOAT.get(new, 0):
        return _migrated(conversions.to_double, "becomes a float, exactly or not at all")
    if old in _WIDTH and new == ScalarKind.DECIMAL.value:
        return _migrated(conversions.to_decimal, "becomes a decimal")
    convert = conversions.TEXT_FORMS.get((old, new))
    return None if convert is None else _migrated(convert, "the same value in another form")


_SAME_BYTES: Final = {("float", "double"), ("uuid", "string")}


def _kind_name(description: ScalarType | NativeType) -> str:
    """Return a name that is the same for types whose values have the same bytes."""
    if isinstance(description, NativeType) and description.kind in _TEXTS:
        return f"{description.kind.value} text"
    name: str = description.kind.value
    return name


_TEXTS: Final = {NativeKind.DATE, NativeKind.TIME}
