"""Differences of two checkpoints or savepoints, entry by entry (C10).

Both sides are read in the order of key groups and merged like two sorted files, so that memory
holds one key's rows however large the state is, and the local disk the state of one slot of each
side. What is stored for a key and how it lies in rows are two things: lists are compared element by
element, since where a list is split into rows means nothing; all else by its bytes, unless its
type changed.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.errors import IncompatibleStateError
from headrace.state.rows import parse_state_row, state_row
from headrace.state.schemas import LIST
from headrace.state_processor.text import EntryTexts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.ids import OperatorUid
    from headrace.state.entries import Row
    from headrace.state_processor.catalog import StateTable, StoredState
    from headrace.state_processor.reading import StateFiles
    from headrace.state_processor.text import Plain

ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"


@dataclass(frozen=True, slots=True)
class EntryChange:
    """One entry that the two sides do not share.

    Attributes:
        change: `ADDED`, `REMOVED` or `CHANGED`.
        before, after: the entry by column; None where it is not.
    """

    change: str
    before: Plain | None
    after: Plain | None


@dataclass(frozen=True, slots=True)
class TablePair:
    """One state on both sides; None where there is none.

    Attributes:
        uid, state: whose, and its name.
    """

    uid: OperatorUid
    state: str
    before: StateTable | None
    after: StateTable | None

    @property
    def note(self) -> str:
        """What changed about the state itself; empty for nothing."""
        before, after = self.before, self.after
        if before is None or after is None:
            return "only before" if after is None else "only after"
        if before.kind != after.kind:
            return f"kind changed from {before.kind} to {after.kind}, entries are not compared"
        if before.key_serializer != after.key_serializer:
            return f"key type changed from {before.key_type} to {after.key_type}"
        if before.schema != after.schema:
            return f"type changed from {before.value_type} to {after.value_type}"
        return ""

    @property
    def comparable(self) -> bool:
        """Whether entries of both sides can be told to be the same ones."""
        return self.before is None or self.after is None or self.before.kind == self.after.kind


def pair_tables(before: StoredState, after: StoredState) -> list[TablePair]:
    """Return the states of both sides, by operator and name.

    Raises:
        IncompatibleStateError: max parallelism differs, so no entry lies where the other one does.
    """
    stored = (before.metadata.max_parallelism, after.metadata.max_parallelism)
    if stored[0] != stored[1]:
        msg = (
            "states of different max parallelism have no key groups in common, compare them as "
            f"tables instead (headrace.state_processor.read); paths={before.path} {after.path} "
            f"max_parallelism={stored[0]} other={stored[1]}"
        )
        raise IncompatibleStateError(msg)
    old, new = _tables(before), _tables(after)
    return [
        TablePair(uid, name, old.get((uid, name)), new.get((uid, name)))
        for uid, name in sorted({*old, *new})
    ]


def changes_of(pair: TablePair, before: StateFiles, after: StateFiles) -> Iterator[EntryChange]:
    """Yield the entries that differ, in the order of key groups.

    Args:
        pair: a state that is `TablePair.comparable`.
        before: what opens the files of the earlier side.
        after: what opens those of the later one.

    Raises: as `StateFiles.open`.
    """
    old = _Side(pair.before, before)
    new = _Side(pair.after, after)
    same_form = pair.before is not None and pair.after is not None and not pair.note
    for left, right in _merge(old.units(), new.units()):
        if left is None or right is None:
            yield from (EntryChange(REMOVED, entry, None) for entry in old.plain(left))
            yield from (EntryChange(ADDED, None, entry) for entry in new.plain(right))
        elif left != right or not same_form:
            yield from _compare(old.plain(left), new.plain(right))


Unit = list[tuple[bytes, bytes]]
"""Rows that are one thing: an entry, or all rows of a list."""


class _Side:
    """One state of one side, as units in order."""

    def __init__(self, table: StateTable | None, files: StateFiles) -> None:
        self._table = table
        self._files = files
        self._texts = None if table is None else EntryTexts(table)

    def units(self) -> Iterator[tuple[bytes, Unit]]:
        if self._table is None:
            return
        rows = self._files.rows(self._table)
        if self._table.kind != LIST:
            yield from ((row, [(row, value)]) for row, value in rows)
            return
        for owner, group in itertools.groupby(rows, _owner):
            yield owner, list(group)

    def plain(self, unit: Unit | None) -> list[Plain]:
        if unit is None or self._texts is None:
            return []
        return self._texts.plain(list(self._texts.columns.entries(unit)))


def _merge(
    left: Iterator[tuple[bytes, Unit]], right: Iterator[tuple[bytes, Unit]]
) -> Iterator[tuple[Unit | None, Unit | None]]:
    """Pair the units of two sorted sides by where they lie."""
    one, other = next(left, None), next(right, None)
    while one is not None and other is not None:
        if one[0] == other[0]:
            yield one[1], other[1]
            one, other = next(left, None), next(right, None)
        elif one[0] < other[0]:
            yield one[1], None
            one = next(left, None)
        else:
            yield None, other[1]
            other = next(right, None)
    while one is not None:
        yield one[1], None
        one = next(left, None)
    while other is not None:
        yield None, other[1]
        other = next(right, None)


def _compare(old: list[Plain], new: list[Plain]) -> Iterator[EntryChange]:
    for before, after in itertools.zip_longest(old, new):
        if before is None:
            yield EntryChange(ADDED, None, after)
        elif after is None:
            yield EntryChange(REMOVED, before, None)
        elif before != after:
            yield EntryChange(CHANGED, before, after)


def _owner(row: Row) -> bytes:
    return state_row(*parse_state_row(row[0])[:3])


def _tables(stored: StoredState) -> dict[tuple[OperatorUid, str], StateTable]:
    return {
        (operator.uid, table.name): table
        for operator in stored.operators
        for table in operator.tables
    }
