"""Offsets of a changed program: each source finds its own by uid, as state does (E4, E7).

Spark tells sources apart by their place in the plan alone. A program that got another source, lost
one, or creates them in another order would read on at its neighbours' offsets, or fail in Spark
with a message about numbers. So a restored log is put into the order of today's program before
Spark sees it:

- a source whose uid the checkpoint knows goes on where it was, wherever it stands now;
- a new one begins at its own beginning (``-`` in Spark's log: no offset yet);
- offsets of a source that the program does not have are dropped only if that is allowed, like any
  other state.

Pure functions over `SourcePosition`; places are those of the offset log's lines and of the
directories below ``sources/``. The last line is the heartbeat's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from headrace.errors import CorruptStateError, IncompatibleStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.checkpoint.protocol.types import SourcePosition
    from headrace.ids import OperatorUid

_HEADER_LINES: Final = 2
"""Version and metadata of an entry of Spark's offset log."""

_NO_OFFSET: Final = "-"


def align_position(
    position: SourcePosition, wanted: Sequence[OperatorUid], *, may_drop: bool
) -> tuple[SourcePosition, list[OperatorUid]]:
    """Return the position in the order of today's sources, and the sources that were dropped.

    Args:
        position: of the checkpoint.
        wanted: uids of the program's sources, in their order.
        may_drop: whether offsets of sources that the program does not have may be left behind.

    Raises:
        IncompatibleStateError: sources are missing and must not be, or the sources changed and one
            of them is a DataFrame of several streams, which have no identities.
        CorruptStateError: the log is not of the form that Spark writes.
    """
    stored = position.uids
    if not stored or list(wanted) == stored:
        return position, []
    places = _places(position)
    if places != len(stored) + 1:
        msg = (
            "sources changed, and one of them is a DataFrame of several streams whose offsets "
            "cannot be told apart: keep the sources and their order, or start without state; "
            f"stored={stored} program={list(wanted)}"
        )
        raise IncompatibleStateError(msg)
    dropped = [uid for uid in stored if uid not in wanted]
    if dropped and not may_drop:
        msg = (
            "the checkpoint holds offsets of sources that the program does not have, restore their "
            "uids or set allowNonRestoredState to drop them; "
            f"sources={dropped} program={list(wanted)}"
        )
        raise IncompatibleStateError(msg)
    place_of = {uid: stored.index(uid) for uid in wanted if uid in stored}
    order = [*(place_of.get(uid) for uid in wanted), len(stored)]
    aligned = msgspec.structs.replace(
        position,
        offsets={epoch: _reorder_entry(entry, order) for epoch, entry in position.offsets.items()},
        sources=_renumber(position.sources, order),
        uids=list(wanted),
        ends={uid: end for uid, end in position.ends.items() if uid in place_of},
    )
    return aligned, dropped


def _places(position: SourcePosition) -> int:
    counts = {len(entry.splitlines()) - _HEADER_LINES for entry in position.offsets.values()}
    if len(counts) != 1:
        msg = f"entries of Spark's offset log differ in their number of sources; counts={counts}"
        raise CorruptStateError(msg)
    return counts.pop()


def _reorder_entry(entry: str, order: Sequence[int | None]) -> str:
    lines = entry.splitlines()
    header, offsets = lines[:_HEADER_LINES], lines[_HEADER_LINES:]
    moved = [_NO_OFFSET if place is None else offsets[place] for place in order]
    return "\n".join([*header, *moved])


def _renumber(sources: dict[str, bytes], order: Sequence[int | None]) -> dict[str, bytes]:
    """Move ``<place>/<file>`` to its new place; what belongs to no source of today goes."""
    moved = {}
    for path, content in sources.items():
        place, _, rest = path.partition("/")
        for now, before in enumerate(order):
            if place == str(before):
                moved[f"{now}/{rest}"] = content
    return moved
