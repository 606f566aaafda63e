"""What a changed type means for stored values (E6): Flink's three verdicts, with reasons.

Pure data. `headrace.serialization.evolution` decides, serializers hand the decision out,
`headrace.state` executes it: it reads on, rewrites all values before the first record, or refuses.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Verdict(enum.IntEnum):
    """What becomes of stored values; of two, the greater counts.

    Flink's ``TypeSerializerSchemaCompatibility``.
    """

    AS_IS = 0
    """Old bytes mean the same under the new type: nothing is to be done, now or ever."""

    AFTER_MIGRATION = 1
    """Every stored value is rewritten before the first record; none then has the old type."""

    INCOMPATIBLE = 2
    """Refused."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """What became of one field, or of the whole value.

    Attributes:
        place: ``value``, or the path of a field, e.g. ``address.city`` or ``items[].price``.
        stored: the type in the checkpoint, empty for a new field.
        declared: the type in the program, empty for a dropped field.
        verdict: of this change.
        note: why, in words; empty when nothing changed.
    """

    place: str
    stored: str
    declared: str
    verdict: Verdict
    note: str = ""

    @property
    def unchanged(self) -> bool:
        """Whether the place looks as before."""
        return self.verdict is Verdict.AS_IS and self.stored == self.declared


@dataclass(frozen=True, slots=True)
class Compatibility:
    """A verdict and its reasons."""

    verdict: Verdict
    changes: tuple[FieldChange, ...]

    @property
    def reason(self) -> str:
        """The worst changes in one line, empty for `Verdict.AS_IS`."""
        if self.verdict is Verdict.AS_IS:
            return ""
        worst = [change for change in self.changes if change.verdict is self.verdict]
        return "; ".join(f"{change.place}: {change.note}" for change in worst if change.note)

    def table(self) -> str:
        """Return all fields, stored and declared side by side, as lines of text."""
        rows = [("field", "stored", "declared", "")]
        rows += [
            (change.place, change.stored or "-", change.declared or "-", change.note)
            for change in self.changes
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) for cell, width in zip(row, [*widths, 0], strict=True)
            ).rstrip()
            for row in rows
        )


WHOLE = "value"
"""Place of a change of the whole value."""


def of_value(verdict: Verdict, stored: str, declared: str, note: str = "") -> Compatibility:
    """Return the compatibility of a value without fields."""
    return Compatibility(verdict, (FieldChange(WHOLE, stored, declared, verdict, note),))


def of_parts(parts: Sequence[tuple[str, Compatibility]]) -> Compatibility:
    """Return the compatibility of what has named parts, e.g. the keys and values of a map."""
    return Compatibility(
        max(part.verdict for _, part in parts),
        tuple(
            replace(change, place=name if change.place == WHOLE else f"{name}.{change.place}")
            for name, part in parts
            for change in part.changes
        ),
    )
