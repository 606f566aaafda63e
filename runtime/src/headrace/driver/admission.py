"""Admission: what each source may read in the next epoch, after every epoch.

The stream thread calls `EpochAdmission.begin` and `end` around an epoch. Between them are facts
(`headrace.engine.read_limits`), and a decision over them that is a pure function (`decide`), so
that nothing is read that was not admitted. With a target duration of 0 nothing is decided: epochs
are as large as the sources' own limits make them, and only their lag is watched.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.driver.epoch_size import (
    EpochObserved,
    EpochSize,
    SizePolicy,
    first_size,
    next_size,
    share_rows,
)
from headrace.engine.read_limits import ReadUnit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.engine.read_limits import ReadLimits, SourceFacts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Admission:
    """What was decided.

    Attributes:
        size: the controller's state.
        units: limit of each source for the next epoch, in its own unit; empty before the first.
        file_rows: learned rows of one file, None before the first file.
    """

    size: EpochSize
    units: tuple[int, ...] = ()
    file_rows: float | None = None


@dataclass(frozen=True, slots=True)
class AdmissionStatus:
    """What the outside may know.

    Attributes:
        lag: records that sources know of and have not read, over the sources that can tell; None
            when none can.
        max_rows: rows that the next epoch may read, None when nobody limits them.
    """

    lag: int | None
    max_rows: int | None


def decide(
    policy: SizePolicy,
    before: Admission,
    sources: Sequence[SourceFacts],
    rows: int,
    duration_s: float,
) -> Admission:
    """Return what the sources may read next.

    Args:
        policy: what epochs should be like.
        before: the decision that the epoch ran under.
        sources: facts of the epoch that has ended.
        rows: rows that it read, of all sources, also of those that take no limit.
        duration_s: how long it ran.
    """
    granted = before.units or (None,) * len(sources)
    held_back = [
        _is_held_back(source, limit, rows, before.size.rows)
        for source, limit in zip(sources, granted, strict=True)
    ]
    observed = EpochObserved(rows, duration_s, limited=any(held_back))
    size = next_size(policy, before.size, observed)
    uncounted = _uncounted_rows(sources, rows)
    files = sum(s.admitted or 0 for s in sources if s.unit is ReadUnit.FILES)
    file_rows = uncounted / files if files and uncounted else before.file_rows
    if size.rows == before.size.rows and before.units and not any(held_back):
        return Admission(size, before.units, file_rows)  # nobody misses anything
    expected = [
        None if full and source.backlog is None else _expected_rows(source, file_rows)
        for source, full in zip(sources, held_back, strict=True)
    ]
    # Sources that take no limit are part of the epoch, but the others must not starve for them.
    others = 0 if files else uncounted
    shares = share_rows(max(size.rows - others, size.rows // 10, 1), expected)
    units = [
        _units(source, share, file_rows) for source, share in zip(sources, shares, strict=True)
    ]
    return Admission(size, tuple(units), file_rows)


def _is_held_back(source: SourceFacts, limit: int | None, rows: int, rows_max: int) -> bool:
    """Return whether a source has more than we gave it."""
    if limit is not None and limit == source.ceiling:
        return False  # it is the user who holds it back
    if source.backlog is not None:
        return source.backlog > 0
    if source.admitted is not None and limit is not None:
        return source.admitted >= limit
    return rows * 2 >= rows_max  # nobody can tell: a well-filled epoch is taken for a full one


def _uncounted_rows(sources: Sequence[SourceFacts], rows: int) -> int:
    """Return the rows of sources that cannot tell them: files, and what takes no limit."""
    counts = [s.admitted for s in sources if s.unit is ReadUnit.ROWS]
    if None in counts:
        return 0
    return max(0, rows - sum(count for count in counts if count is not None))


def _expected_rows(source: SourceFacts, file_rows: float | None) -> int | None:
    """Return the rows that a source is likely to have for the next epoch, None if unknown."""
    if source.unit is ReadUnit.ROWS:
        return None if source.backlog is None else (source.admitted or 0) + source.backlog
    if source.admitted is None or file_rows is None:
        return None
    return math.ceil(source.admitted * file_rows)


def _units(source: SourceFacts, rows: int, file_rows: float | None) -> int:
    """Return a source's limit in its own unit."""
    units = rows
    if source.unit is ReadUnit.FILES:
        units = 1 if file_rows is None else max(1, int(rows / file_rows))
    return units if source.ceiling is None else min(units, source.ceiling)


class EpochAdmission:
    """Keeps the sources of one generation's query within what is decided."""

    def __init__(self, limits: ReadLimits, policy: SizePolicy | None) -> None:
        """Create it.

        Args:
            limits: Spark's side.
            policy: None: nothing is decided.
        """
        self._limits = limits
        self._policy = policy
        self._admission = Admission(first_size(policy)) if policy else None
        self._sources: list[SourceFacts] = []

    def begin(self, query: StreamingQuery) -> None:
        """Note what an epoch that is about to run reads."""
        if not self._limits.attached:
            self._limits.attach(query)
        self._sources = self._limits.observe()

    def end(self, rows: int, duration_s: float) -> AdmissionStatus:
        """Decide about the next epoch and tell Spark, if anything changes."""
        known = [s.backlog for s in self._sources if s.backlog is not None]
        lag = sum(known) if known else None
        if self._policy is None or self._admission is None or not self._sources:
            return AdmissionStatus(lag, None)
        before = self._admission
        after = decide(self._policy, before, self._sources, rows, duration_s)
        if after.units != before.units:
            self._limits.admit(after.units)
        if after.size.rows != before.size.rows:
            log.debug("epoch size rows=%s units=%s", after.size.rows, after.units)
        self._admission = after
        return AdmissionStatus(lag, after.size.rows)
