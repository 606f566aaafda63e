"""Finds out whether a key selector is exactly one field of a row.

The key hash of such a stream is computed in the JVM, from the column. Nothing may go wrong with
that, so two things must hold: the selector's bytecode is a straight line that touches nothing but
its argument, and calling it with a recording stand-in returns exactly the one thing that was read.
Anything else is no field: the selector then runs in Python, which is always right.
"""

from __future__ import annotations

import dis
from types import FunctionType
from typing import TYPE_CHECKING, Final

from headrace.serialization.row import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_FORBIDDEN: Final = (
    "CALL",
    "JUMP",
    "FOR_ITER",
    "SEND",
    "YIELD",
    "STORE",
    "DELETE",
    "IMPORT",
    "RAISE",
    "WITH",
    "GLOBAL",
    "DEREF",
    "NAME",
    "MAKE",
    "COMPARE",
    "CONTAINS",
    "IS_OP",
    "UNARY",
    "FORMAT",
    "UNPACK",
    "BUILD",
    "MATCH",
)
"""Parts of opcode names that none of the selector's instructions may have."""


def traced_field(selector: Callable[[object], object], field_names: Sequence[str]) -> str | None:
    """Return the field that ``selector`` returns for every row with these fields, or None.

    Understands ``lambda r: r.key``, ``r["key"]``, ``r[0]``, and functions that do the same.
    """
    if not _is_straight_line(selector):
        return None
    probe = _Probe()
    try:
        returned = selector(probe)
    except Exception:  # noqa: BLE001 - whatever a selector does with a stand-in, it is no plain field
        return None
    if len(probe.reads) != 1 or returned is not probe.reads[0][1]:
        return None
    return _field_of(probe.reads[0][0], field_names)


def _is_straight_line(selector: object) -> bool:
    if not isinstance(selector, FunctionType) or selector.__closure__:
        return False
    code = selector.__code__
    if code.co_argcount != 1 or code.co_kwonlyargcount or code.co_flags & 0x0C:
        return False
    names = [instruction.opname for instruction in dis.get_instructions(code)]
    return not any(part in name for name in names for part in _FORBIDDEN)


def _field_of(read: str | int | _Attribute, field_names: Sequence[str]) -> str | None:
    if isinstance(read, _Attribute):
        # Names that `Row` itself defines reach its methods, not the field.
        return read if read in field_names and not hasattr(Row, read) else None
    if isinstance(read, str):
        return read if read in field_names else None
    if isinstance(read, bool) or not -len(field_names) <= read < len(field_names):
        return None
    return field_names[read]


class _Attribute(str):
    """A name read as an attribute, in contrast to an item."""

    __slots__ = ()


class _Value:
    """What a read returns; nothing can be done with it but to return it."""

    __slots__ = ()


class _Probe:
    """Stands in for a row and records what is read of it."""

    __slots__ = ("reads",)

    def __init__(self) -> None:
        self.reads: list[tuple[str | int, _Value]] = []

    def __getattr__(self, name: str) -> _Value:
        return self._read(_Attribute(name))

    def __getitem__(self, item: str | int) -> _Value:
        if not isinstance(item, (str, int)):
            raise TypeError
        return self._read(item)

    def _read(self, what: str | int) -> _Value:
        value = _Value()
        self.reads.append((what, value))
        return value
