"""Kubernetes quantities in the two meanings that a spec uses: memory and CPU.

Kept as the user wrote them; the functions give the numbers. A memory amount needs a unit of bytes
(``512Mi``, ``1.5G``): Spark's ``512m`` would be half a byte to Kubernetes, so it is refused.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, WithJsonSchema

_MEMORY_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?(k|M|G|T|Ki|Mi|Gi|Ti)$"
_CPU_PATTERN: Final = r"^([0-9]+(\.[0-9]{1,3})?|[0-9]+m)$"
_NUMBER_AND_UNIT: Final = re.compile(r"([0-9.]+)([A-Za-z]*)")
_MEMORY_UNITS: Final = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_MIB: Final = 2**20


def _number_to_text(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_number else value


Memory = Annotated[str, Field(pattern=_MEMORY_PATTERN, max_length=20)]
"""An amount of memory, e.g. ``512Mi`` or ``2G``."""

Cpu = Annotated[
    str,
    Field(pattern=_CPU_PATTERN, max_length=20),
    BeforeValidator(_number_to_text),
    WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": _CPU_PATTERN}),
]
"""An amount of CPU: cores (``2``, ``"0.5"``) or thousandths (``500m``)."""


def _split(text: str) -> tuple[Decimal, str]:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        msg = f"not a quantity, write a number and a unit such as 512Mi; got={text!r}"
        raise ValueError(msg)
    return Decimal(match[1]), match[2]


def memory_mib(text: str) -> int:
    """Return a `Memory` in MiB, rounded down.

    Raises:
        ValueError: not a number with a unit of bytes.
    """
    number, unit = _split(text)
    if unit not in _MEMORY_UNITS:
        msg = f"memory needs a unit of bytes, for example 512Mi; got={text!r}"
        raise ValueError(msg)
    return int(number * _MEMORY_UNITS[unit] / _MIB)


def cpu_millis(text: str) -> int:
    """Return a `Cpu` in thousandths of a core.

    Raises:
        ValueError: not a number of cores or thousandths.
    """
    number, unit = _split(text)
    if unit not in {"", "m"}:
        msg = f"cpu is a number of cores or thousandths, for example 500m; got={text!r}"
        raise ValueError(msg)
    return int(number) if unit == "m" else int(number * 1000)
