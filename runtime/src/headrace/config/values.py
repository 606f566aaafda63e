"""Types of option values: how text becomes a value, how a value becomes text, what is accepted.

The notations are Flink's: durations as ``30 s``, ``1min`` or plain milliseconds (``TimeUtils``),
memory as ``64mb`` or plain bytes, in powers of 1024 (``MemorySize``), enums by name without regard
to case.
Parsers raise `ValueError` with the reason only; `headrace.config.job_configuration` adds the key.
"""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)

INTEGER_MAX: Final = 2**31 - 1
"""Java's ``Integer.MAX_VALUE``, which Flink writes as ``infinite``."""

URI_SCHEMES: Final = ("s3://", "s3a://", "abfss://", "abfs://", "file:///")
"""Storage that checkpoints can live in; a path without scheme is a local one."""

_NO_CLIENT: Final = "no client is part of this release; reach it over its S3 interface or a mount"
_NOT_ATOMIC: Final = (
    "its Python clients create a file by looking first, so two drivers could publish one "
    "checkpoint; reach it over a mount"
)
_AS_ABFSS: Final = "it is the former name, write abfss://<container>@<account>.dfs.core.windows.net"
UNSUPPORTED_SCHEMES: Final[Mapping[str, str]] = {
    "hdfs": _NOT_ATOMIC,
    "viewfs": _NOT_ATOMIC,
    "webhdfs": _NOT_ATOMIC,
    "gs": _NO_CLIENT,
    "wasb": _AS_ABFSS,
    "wasbs": _AS_ABFSS,
    "oss": _NO_CLIENT,
}
"""Schemes that Flink has file systems for -> why checkpoints cannot live there; see
docs/checkpoint-format.md, "What storage must give"."""

_NUMBER_AND_UNIT: Final = re.compile(r"(\d+)\s*([a-zµ]*)", re.IGNORECASE)

_NANOS: Final = {
    "d": 86_400_000_000_000,
    "day": 86_400_000_000_000,
    "h": 3_600_000_000_000,
    "hour": 3_600_000_000_000,
    "min": 60_000_000_000,
    "m": 60_000_000_000,
    "minute": 60_000_000_000,
    "s": 1_000_000_000,
    "sec": 1_000_000_000,
    "second": 1_000_000_000,
    "": 1_000_000,
    "ms": 1_000_000,
    "milli": 1_000_000,
    "millisecond": 1_000_000,
    "µs": 1_000,
    "micro": 1_000,
    "microsecond": 1_000,
    "ns": 1,
    "nano": 1,
    "nanosecond": 1,
}

_BYTES: Final = {
    "": 1,
    "b": 1,
    "byte": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "kibibyte": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "mebibyte": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
    "gibibyte": 1 << 30,
    "t": 1 << 40,
    "tb": 1 << 40,
    "tebibyte": 1 << 40,
}


@dataclass(frozen=True, slots=True)
class ValueType(Generic[T]):
    """One type of option value.

    Attributes:
        name: shown in the reference page, e.g. ``Duration``.
        accepts: completes "expected ..." in a message.
        parse: text -> value; raises ValueError.
        format: value -> text that ``parse`` reads back as the same value.
    """

    name: str
    accepts: str
    parse: Callable[[str], T]
    format: Callable[[T], str]


def parse_duration_ms(text: str) -> int:
    """Return a duration in whole milliseconds, >= 0.

    Raises:
        ValueError: not a duration, or one that is not a whole number of milliseconds.
    """
    nanos = _scaled(text, _NANOS)
    millis, rest = divmod(nanos, 1_000_000)
    if rest:
        msg = "durations are whole milliseconds"
        raise ValueError(msg)
    return millis


def format_duration(millis: int) -> str:
    """Return the shortest notation of a duration in milliseconds."""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if millis and millis % size == 0:
            return f"{millis // size} {unit}"
    return f"{millis} ms"


def parse_memory_bytes(text: str) -> int:
    """Return a memory size in bytes, >= 0.

    Raises:
        ValueError: not a memory size.
    """
    return _scaled(text, _BYTES)


def format_memory(size_bytes: int) -> str:
    """Return the shortest notation of a size in bytes."""
    for unit, size in (("tb", 1 << 40), ("gb", 1 << 30), ("mb", 1 << 20), ("kb", 1 << 10)):
        if size_bytes and size_bytes % size == 0:
            return f"{size_bytes // size}{unit}"
    return f"{size_bytes}b"


def _scaled(text: str, units: dict[str, int]) -> int:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if match is None:
        msg = "not a number with a unit"
        raise ValueError(msg)
    unit = match[2].lower()
    # Long unit names may stand in the plural; "s" and "ms" are units of their own.
    factor = units.get(unit, units.get(unit.removesuffix("s")) if len(unit) > 2 else None)
    if factor is None:
        msg = f"unknown unit {match[2]!r}"
        raise ValueError(msg)
    return int(match[1]) * factor


def _parse_boolean(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in {"true", "false"}:
        msg = "neither true nor false"
        raise ValueError(msg)
    return lowered == "true"


def _format_boolean(value: bool) -> str:
    return "true" if value else "false"


def _parse_uri(text: str) -> str:
    stripped = text.strip()
    if stripped.startswith("/"):
        return f"file://{stripped}"
    if not stripped.startswith(URI_SCHEMES):
        scheme = stripped.partition("://")[0].lower()
        raise ValueError(UNSUPPORTED_SCHEMES.get(scheme, "not a known scheme"))
    return stripped


DURATION: Final = ValueType(
    "Duration", 'a duration such as "30 s" or "1 min", or milliseconds', parse_duration_ms,
    format_duration,
)  # fmt: skip
MEMORY: Final = ValueType(
    "MemorySize", 'a size such as "64mb" or "1g", or bytes', parse_memory_bytes, format_memory
)
BOOLEAN: Final = ValueType("Boolean", "true or false", _parse_boolean, _format_boolean)
STORAGE_URI: Final = ValueType(
    "URI",
    f"a URI with one of the schemes {', '.join(URI_SCHEMES)}, or an absolute path",
    _parse_uri,
    str,
)
STRING: Final = ValueType("String", "any text", str.strip, str)


def integer(minimum: int, maximum: int = INTEGER_MAX) -> ValueType[int]:
    """Return the type of whole numbers in ``minimum..maximum``, both inclusive.

    ``infinite`` stands for `INTEGER_MAX` where that is allowed.
    """

    def parse(text: str) -> int:
        stripped = text.strip()
        value = INTEGER_MAX if stripped.lower() == "infinite" else int(stripped)
        if not minimum <= value <= maximum:
            msg = "out of range"
            raise ValueError(msg)
        return value

    def format_(value: int) -> str:
        return "infinite" if value == INTEGER_MAX else str(value)

    bounds = f">= {minimum}" if maximum == INTEGER_MAX else f"in {minimum}..{maximum}"
    return ValueType("Integer", f"a whole number {bounds}", parse, format_)


def number(minimum: float, maximum: float = math.inf, *, above: bool = False) -> ValueType[float]:
    """Return the type of decimal numbers in ``minimum..maximum``.

    Args:
        minimum: least value; excluded when ``above`` is set.
        maximum: greatest value, inclusive.
        above: whether the value must be greater than ``minimum``.
    """

    def parse(text: str) -> float:
        value = float(text)
        too_small = value <= minimum if above else value < minimum
        if math.isnan(value) or too_small or value > maximum:
            msg = "out of range"
            raise ValueError(msg)
        return value

    low = f"> {minimum:g}" if above else f">= {minimum:g}"
    bounds = low if maximum == math.inf else f"{low} and <= {maximum:g}"
    return ValueType("Double", f"a number {bounds}", parse, repr)


def enumeration(kind: type[E], aliases: dict[str, E] | None = None) -> ValueType[E]:
    """Return the type of the members of ``kind``, written by value.

    Case does not matter, nor do ``-`` against ``_``; ``aliases`` are further spellings.
    """
    spellings = {_enum_spelling(str(member.value)): member for member in kind}
    spellings |= {_enum_spelling(text): member for text, member in (aliases or {}).items()}

    def parse(text: str) -> E:
        member = spellings.get(_enum_spelling(text))
        if member is None:
            msg = "not one of the values"
            raise ValueError(msg)
        return member

    accepted = ", ".join(str(member.value) for member in kind)
    return ValueType("Enum", f"one of {accepted}", parse, lambda member: str(member.value))


def _enum_spelling(text: str) -> str:
    return text.strip().lower().replace("_", "-")


def optional(inner: ValueType[T]) -> ValueType[T | None]:
    """Return ``inner`` for options that have no default; None is never written as text."""

    def format_(value: T | None) -> str:
        return "(none)" if value is None else inner.format(value)

    return ValueType(inner.name, inner.accepts, inner.parse, format_)


def list_of(inner: ValueType[T]) -> ValueType[tuple[T, ...]]:
    """Return the type of a list of at least one value, separated by ``;`` as in Flink."""

    def parse(text: str) -> tuple[T, ...]:
        return tuple(inner.parse(part.strip()) for part in text.split(";"))

    return ValueType(
        f"List<{inner.name}>",
        f"values separated by ';', each {inner.accepts}",
        parse,
        lambda values: ";".join(map(inner.format, values)),
    )
