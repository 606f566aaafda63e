"""How many rows the next epoch may read: a pure function over the epochs so far (J6).

An epoch costs a fixed time, whatever it reads (a plan, a job, two log entries), and a time for each
row. Both are learned from the epochs that have ended, and the next one is given the rows that fill
the target duration. Back pressure reaches the source this way: slow functions, a slow sink or a
starved machine make rows dear, so fewer of them are read. See docs/adr/0011.

Invariants, tested as properties:
- 1 <= rows <= `SizePolicy.rows_max`, in every state; a source that has something is never starved;
- a limit that no source reached is not raised: it proves nothing;
- while there is more to read, rows take at least as long as the fixed cost, so that a target below
  the fixed cost does not drive epochs towards nothing;
- small deviations change nothing (`TOLERANCE`), one bad epoch changes little.

The state is a value; the stream thread keeps it for one generation and begins anew with the next,
because what failed may have been too large an epoch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_EPOCH_ROWS: Final = 1_000
"""Rows of a generation's first epoch: at 100 ms a row far below any sensible epoch timeout."""

STEP_MAX: Final = 4.0
"""Largest factor between two limits; what was learned does not reach further than that."""

TOLERANCE: Final = 0.15
"""A limit that is wrong by less than this part stays."""

_APART: Final = 3.0
"""Two epochs whose rows differ by this factor tell the fixed cost from that of rows."""

_REMEMBERED_EPOCHS: Final = 64
"""How long an epoch is compared with later ones."""

_LEARNED: Final = 0.4
"""Weight of the last epoch in what is learned."""

_SURPRISE_MAX: Final = 3.0
"""A longer epoch counts as this many times the expected duration: a pause is not a price."""

_CHANGE: Final = 1.6
"""An epoch that is longer or shorter than expected by this factor begins a new time: what was
before is not compared with what comes."""

_FIXED_S: Final = 0.2
"""Fixed cost that is believed before any was seen."""


@dataclass(frozen=True, slots=True)
class SizePolicy:
    """What the controller aims at.

    Attributes:
        target_s: duration of an epoch while there is more to read, in seconds, > 0.
        rows_max: no epoch is given more rows, >= 1.
    """

    target_s: float
    rows_max: int


@dataclass(frozen=True, slots=True)
class EpochObserved:
    """One epoch that has ended.

    Attributes:
        rows: rows that it read, of all sources.
        duration_s: how long it ran, without waits between epochs.
        limited: whether a source had more to read than it was given.
    """

    rows: int
    duration_s: float
    limited: bool


@dataclass(frozen=True, slots=True)
class PastEpoch:
    """An epoch that later ones are compared with; ``number`` counts the generation's epochs."""

    number: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class EpochSize:
    """State of the controller.

    Attributes:
        rows: rows that the next epoch may read.
        epochs: epochs seen.
        fixed_s: learned duration of an epoch without rows, None when epochs could not tell it yet.
        told: number of the epoch that last told the fixed cost.
        work_s, work_rows: weighted sums over the last epochs: time beyond the fixed one, and rows.
        past: the last epoch of each order of magnitude of rows.
    """

    rows: int
    epochs: int = 0
    fixed_s: float | None = None
    told: int = 0
    work_s: float = 0.0
    work_rows: float = 0.0
    past: tuple[PastEpoch, ...] = ()


def first_size(policy: SizePolicy) -> EpochSize:
    """Return the size of a generation's first epoch."""
    return EpochSize(min(FIRST_EPOCH_ROWS, policy.rows_max))


def next_size(policy: SizePolicy, size: EpochSize, observed: EpochObserved) -> EpochSize:
    """Return the size after an epoch."""
    if size.epochs == 0:
        # Classes are loaded, connections are opened, code is compiled: it will not be so again.
        return replace(size, epochs=1)
    learned = _learn(size, observed)
    wanted = _wanted(policy, learned, observed)
    if wanted > size.rows and not observed.limited:
        return learned
    if wanted < size.rows and not _tells_row_cost(size, observed):
        return learned
    if abs(wanted / size.rows - 1) <= TOLERANCE:
        return learned
    bounded = min(max(wanted, size.rows / STEP_MAX), size.rows * STEP_MAX)
    return replace(learned, rows=max(1, min(round(bounded), policy.rows_max)))


def _tells_row_cost(size: EpochSize, observed: EpochObserved) -> bool:
    """Return whether the epoch was large enough to tell what rows cost in large epochs."""
    return observed.rows > 0 and (observed.limited or observed.rows * 2 >= size.rows)


def _wanted(policy: SizePolicy, size: EpochSize, observed: EpochObserved) -> float:
    """Return the rows that the next epoch should read."""
    if size.fixed_s is None:
        # Dear rows or a dear epoch? A much smaller or larger one will tell.
        step = STEP_MAX if observed.duration_s <= policy.target_s else 1 / STEP_MAX
        return size.rows * step
    if size.work_rows == 0:
        return size.rows
    if size.fixed_s * 2 > policy.target_s and size.epochs - size.told > _REMEMBERED_EPOCHS:
        return size.rows / STEP_MAX  # the fixed cost decides: see whether it is still so
    seconds = max(policy.target_s - size.fixed_s, size.fixed_s)
    return seconds * size.work_rows / size.work_s if size.work_s > 0 else math.inf


def _learn(size: EpochSize, observed: EpochObserved) -> EpochSize:
    """Return the state that has seen an epoch; its limit is as before."""
    rows, seconds = observed.rows, observed.duration_s
    expected_s = _expected_s(size, rows)
    if expected_s is not None:
        if not expected_s / _CHANGE < seconds < expected_s * _CHANGE:
            size = replace(size, past=())
        seconds = min(seconds, _SURPRISE_MAX * expected_s)
    past = _comparable(size, rows)
    fixed_s = _learn_fixed(size.fixed_s, past, rows, seconds)
    learned = replace(
        size,
        epochs=size.epochs + 1,
        fixed_s=fixed_s,
        told=size.epochs if past is not None else size.told,
        past=_remember(size, rows, seconds),
    )
    if not _tells_row_cost(size, observed):
        return learned
    believed_s = _FIXED_S if fixed_s is None else fixed_s
    work_s = max(seconds - believed_s, 0.0)
    if size.fixed_s is None:
        return replace(learned, work_s=work_s, work_rows=float(rows))
    keep = 1 - _LEARNED
    return replace(
        learned, work_s=size.work_s * keep + work_s, work_rows=size.work_rows * keep + rows
    )


def _expected_s(size: EpochSize, rows: int) -> float | None:
    """Return how long an epoch is believed to take, None while too little is known."""
    if size.fixed_s is None or size.work_rows == 0:
        return None
    return size.fixed_s + size.work_s / size.work_rows * rows or None


def _remember(size: EpochSize, rows: int, seconds: float) -> tuple[PastEpoch, ...]:
    """Return the past with one more epoch, without what it supersedes and what is too old."""
    kept = (
        past
        for past in size.past
        if past.rows.bit_length() != rows.bit_length()
        and size.epochs - past.number < _REMEMBERED_EPOCHS
    )
    return (PastEpoch(size.epochs, rows, seconds), *kept)


def _comparable(size: EpochSize, rows: int) -> PastEpoch | None:
    """Return the newest epoch of quite another size."""
    apart = (p for p in size.past if max(p.rows, rows) > _APART * min(p.rows, rows))
    return next(apart, None)


def _learn_fixed(
    believed_s: float | None, past: PastEpoch | None, rows: int, seconds: float
) -> float | None:
    """Return the fixed cost after an epoch, from one of quite another size."""
    if past is None:
        return None if believed_s is None else min(believed_s, seconds)
    (few, few_s), (many, many_s) = sorted(((rows, seconds), (past.rows, past.seconds)))
    seen_s = (many * few_s - few * many_s) / (many - few)
    seen_s = min(max(seen_s, 0.0), few_s, many_s)
    if believed_s is None:
        return seen_s
    return min(believed_s + _LEARNED * (seen_s - believed_s), seconds)


def share_rows(rows: int, expected: Sequence[int | None]) -> list[int]:
    """Divide an epoch's rows among its sources; max-min fair, nothing is left over.

    Args:
        rows: what all sources together may read, >= 1.
        expected: rows that each source is likely to have, None when nobody knows.

    Returns:
        each source's limit, >= 1; together ``rows``, or one a source if those are more.
    """
    count = len(expected)
    if rows <= count:
        return [1] * count
    # Room to grow: a source that wakes up is not held to what it had while it slept.
    room = max(1, rows // (10 * count))
    wants = [rows if rows_i is None else min(rows, 2 * rows_i + room) for rows_i in expected]
    shares = [0] * count
    left = rows
    by_want = sorted(range(count), key=lambda i: wants[i])
    for position, index in enumerate(by_want):
        fair = left // (count - position)
        shares[index] = max(1, min(wants[index], fair))
        left -= shares[index]
    shares = [share + left // count for share in shares]
    shares[by_want[-1]] += left % count
    return shares
