"""`Codec`: how a value of one type looks on the wire; pure conversions, no bytes.

A codec lowers a value to what msgspec encodes and lifts what msgspec decoded. Codecs nest as
descriptions do. Where nothing needs converting, ``lift`` is `identity`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.serialization.type_text import type_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.serialization.exact import Exact
    from headrace.serialization.types import TypeDescription


@dataclass(frozen=True, slots=True)
class Codec:
    """Conversions of one type.

    Attributes:
        wire_type: what msgspec decodes to.
        coerce: check and normalisation; complete for immutable types, of the outermost type else.
        lower: value -> what msgspec encodes; checks every part, TypeError.
        lift: what msgspec decoded -> value.
        immutable: whether no part of a value can change in place.
        verify: whether only decoding again proves that a value was of its type (classes).
        exact: values that ``coerce`` and ``lower`` leave as they are, if that can be said so.
    """

    wire_type: object
    coerce: Callable[[object], object]
    lower: Callable[[object], object]
    lift: Callable[[object], object]
    immutable: bool
    verify: bool = False
    exact: Exact | None = None


def identity(value: object) -> object:
    """Return ``value``."""
    return value


def not_of(description: TypeDescription, value: object) -> TypeError:
    """Return the error that says that ``value`` is not of the declared type."""
    found = type(value).__qualname__
    declared = type_text(description)
    return TypeError(f"a value is not of its declared type; declared={declared} type={found}")
