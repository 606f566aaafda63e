"""What becomes of parts that have no parts: scalars, choices, arrays.

Integers become wider, floats become doubles: the same bytes. Integers become floats or decimals,
dates change between their two forms: every value is rewritten, without loss or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from headrace.serialization import conversions
from headrace.serialization.class_types import ChoiceType, NativeKind, NativeType, NumpyType
from headrace.serialization.codec import identity
from headrace.serialization.compatibility import Verdict
from headrace.serialization.type_text import type_text
from headrace.serialization.types import INTEGER_BITS, ScalarKind, ScalarType

if TYPE_CHECKING:
    from headrace.serialization.conversions import Convert
    from headrace.serialization.types import AnyType


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of one part. Changes of fields inside it are not repeated in ``note``."""

    verdict: Verdict
    convert: Convert = identity
    note: str = ""


SAME: Final = Step(Verdict.AS_IS)


def refused(note: str) -> Step:
    """Return the step of a change that is not possible."""
    return Step(Verdict.INCOMPATIBLE, note=note)


def migrated(convert: Convert, note: str) -> Step:
    """Return the step of a change that rewrites values."""
    return Step(Verdict.AFTER_MIGRATION, convert, note)


def differ(old: AnyType, new: AnyType) -> Step:
    """Return the refusal of types that have nothing to do with each other."""
    return refused(f"the types differ; stored={type_text(old)} declared={type_text(new)}")


def checked(step: Step) -> Step:
    """Return ``step`` for changed constraints: every value is read once under the new ones."""
    note = step.note or "constraints changed, every value is checked"
    return Step(max(step.verdict, Verdict.AFTER_MIGRATION), step.convert, note)


def arrays(old: NumpyType, new: NumpyType) -> Step:
    """Return what becomes of NumPy arrays."""
    if None not in {old.ndim, new.ndim} and old.ndim != new.ndim:
        return refused(f"dimensions differ; stored={old.ndim} declared={new.ndim}")
    if not np.can_cast(np.dtype(old.dtype), np.dtype(new.dtype), "safe"):
        return differ(old, new)
    if old.dtype != new.dtype:
        return migrated(conversions.array_cast(old.dtype, new.dtype), "elements become wider")
    if new.ndim in {None, old.ndim}:
        return SAME
    return migrated(identity, "every value's dimensions are checked")


def choice(old: ChoiceType, new: AnyType) -> Step:
    """Return what becomes of an enum or literal."""
    match new:
        case ChoiceType(_, values):
            gone = [value for value in old.values if value not in values]
            return refused(f"values are gone; values={gone}") if gone else SAME
        case NativeType(NativeKind.STRING, ()) | ScalarType(ScalarKind.STRING):
            fits = all(isinstance(value, str) for value in old.values)
        case NativeType(NativeKind.LONG, ()) | ScalarType(ScalarKind.LONG):
            fits = all(isinstance(value, int) for value in old.values)
        case _:
            fits = False
    return SAME if fits else differ(old, new)


_WIDTH: Final = {kind.value: bits for kind, bits in INTEGER_BITS.items()} | {
    ScalarKind.BIG_INT.value: 1 << 30
}
_BITS_OF_FLOAT: Final = {"float": 16, "double": 64}
"""Widest integer type whose values a float type takes: exactly up to 32 bits, checked for 64."""


def scalars(old: ScalarType | NativeType, new: ScalarType | NativeType) -> Step:
    """Return what becomes of numbers, texts and times."""
    step = _kinds(_kind_name(old), _kind_name(new)) or differ(old, new)
    old_bounds = old.bounds if isinstance(old, NativeType) else ()
    new_bounds = new.bounds if isinstance(new, NativeType) else ()
    return step if old_bounds == new_bounds or step.note else checked(step)


def _kinds(old: str, new: str) -> Step | None:
    if old == new or (old, new) in _SAME_BYTES:
        return SAME
    if old in _WIDTH and new in _WIDTH:
        return SAME if _WIDTH[old] <= _WIDTH[new] else None
    if _WIDTH.get(old, 1 << 31) <= _BITS_OF_FLOAT.get(new, 0):
        return migrated(conversions.to_double, "becomes a float, exactly or not at all")
    if old in _WIDTH and new == ScalarKind.DECIMAL.value:
        return migrated(conversions.to_decimal, "becomes a decimal")
    convert = conversions.TEXT_FORMS.get((old, new))
    return None if convert is None else migrated(convert, "the same value in another form")


_SAME_BYTES: Final = {("float", "double"), ("uuid", "string")}


def _kind_name(description: ScalarType | NativeType) -> str:
    """Return a name that is the same for types whose values have the same bytes."""
    if isinstance(description, NativeType) and description.kind in _TEXTS:
        return f"{description.kind.value} text"
    name: str = description.kind.value
    return name


_TEXTS: Final = {NativeKind.DATE, NativeKind.TIME}
