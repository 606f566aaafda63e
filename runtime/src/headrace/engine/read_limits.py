"""What Spark's sources have, and how much of it the next epoch may read.

Spark asks a source for its default read limit once, when the query is planned, and keeps it in a
map that it consults before every micro-batch. `ReadLimits.admit` replaces that map between two
epochs, through the setter that Scala makes for it: no reflection, no restart of the query. The
field is volatile, and the stream thread waits in our callback meanwhile. It is not public API:
`attach` proves that it is as expected, and pyspark is pinned to one version. See docs/adr/0011.

A source is left alone unless its limit counts rows or files and is known to be obeyed.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from headrace.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

CEILING_OPTION: Final = "headrace.ceiling"
"""Reader option of our own sources: most units that an epoch may read, whatever its first limit."""

_DEAF: Final = frozenset({"RatePerMicroBatchStream"})
"""Sources that announce a limit and do not obey one."""

_FILES: Final = "FileStreamSource"
"""Spark's own source of files; those of others count in their own way."""

_UNLIMITED: Final = frozenset({"KafkaMicroBatchStream", _FILES})
"""Sources that obey a limit although they have none by default."""


class ReadUnit(enum.Enum):
    """What a source's limit counts."""

    ROWS = "rows"
    FILES = "files"


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """One source that takes limits, at one epoch.

    Attributes:
        unit: what the numbers count.
        admitted: what the epoch reads, None when nobody can tell.
        backlog: what the source has beyond the epoch, None when nobody can tell.
        ceiling: the user's own limit, None without one.
    """

    unit: ReadUnit
    admitted: int | None
    backlog: int | None
    ceiling: int | None


class ReadLimits:
    """Reads and sets the limits of one running query; used on its stream thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._execution: JavaObject | None = None
        self._sources: list[_LimitedSource] = []

    def attach(self, query: StreamingQuery) -> None:
        """Find the query's sources; call within its first epoch, when it has made them.

        Raises:
            InternalError: this Spark is not the one that the product was built for.
        """
        try:
            execution = query._jsq.streamingQuery()  # noqa: SLF001 - Spark has no other way in
            self._sources = list(_limited_sources(execution))
        except (Py4JError, TypeError, AttributeError) as error:
            msg = (
                "this Spark hides its read limits, install the pyspark that the release names or "
                f"set headrace.epoch.target-duration to 0; cause={error}"
            )
            raise InternalError(msg) from error
        self._execution = execution

    @property
    def attached(self) -> bool:
        """Whether `attach` has been called."""
        return self._execution is not None

    def observe(self) -> list[SourceFacts]:
        """Return the facts of the epoch that runs, one for each source that takes limits."""
        if self._execution is None or not self._sources:
            return []
        offsets = self._execution.availableOffsets()
        return [source.observe(offsets) for source in self._sources]

    def admit(self, units: Sequence[int]) -> None:
        """Set what the next epoch may read of each source, in the order of `observe`."""
        if self._execution is None:
            return
        jvm: Any = self._spark._jvm  # noqa: SLF001 - PySpark has no other way to Java classes
        read_limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit
        limits = self._execution.uniqueSources()
        for source, count in zip(self._sources, units, strict=True):
            make = read_limit.maxRows if source.unit is ReadUnit.ROWS else read_limit.maxFiles
            limits = limits.updated(source.stream, make(count))
        _set_limits(self._execution, limits)


class _LimitedSource:
    """One of Spark's sources, as far as its limit goes."""

    def __init__(self, stream: JavaObject, unit: ReadUnit, ceiling: int | None) -> None:
        self.stream = stream
        self.unit = unit
        self._ceiling = ceiling
        self._seen: int | None = None
        self._end: dict[str, int] | None = None

    def observe(self, offsets: JavaObject) -> SourceFacts:
        """Return the facts of the running epoch, whose end is ``offsets``."""
        if self.unit is ReadUnit.FILES:
            return SourceFacts(self.unit, self._new_files(), None, self._ceiling)
        found = offsets.get(self.stream)
        end = parse_offsets(found.get().json()) if found.isDefined() else None
        latest_offset = self.stream.reportLatestOffset()
        latest = parse_offsets(latest_offset.json()) if latest_offset is not None else None
        admitted = rows_between(self._end, end)
        self._end = end
        return SourceFacts(self.unit, admitted, rows_between(end, latest), self._ceiling)

    def _new_files(self) -> int | None:
        """Return how many files Spark has begun to read since the last call.

        It forgets very old ones, so that the count can fall: then nobody can tell.
        """
        before, self._seen = self._seen, self.stream.seenFiles().size()
        if before is None or self._seen < before:
            return None
        return self._seen - before


def _limited_sources(execution: JavaObject) -> Iterator[_LimitedSource]:
    """Yield the sources that take limits.

    The planned leaves hold Spark's sources, the analyzed ones the options that they were made with;
    planning turns leaf into leaf, in order.
    """
    limits = execution.uniqueSources()
    _set_limits(execution, limits)  # proves that it can be done
    leaves = zip(_leaves(execution.analyzedPlan()), _leaves(execution.logicalPlan()), strict=True)
    streams: list[JavaObject] = []
    for analyzed, planned in leaves:
        match planned.getClass().getSimpleName():
            case "StreamingDataSourceV2ScanRelation":
                stream = planned.stream()
            case "StreamingExecutionRelation":
                stream = planned.source()
            case _:
                continue
        if any(stream.equals(other) for other in streams):
            continue  # one source that a program uses twice
        streams.append(stream)
        own = _own_ceiling(analyzed)
        source = _limited_source(stream, limits.apply(stream), own)
        if source is not None:
            yield source


def _limited_source(
    stream: JavaObject, limit: JavaObject, own_ceiling: int | None
) -> _LimitedSource | None:
    """Return the source if it obeys limits of rows or files."""
    name = stream.getClass().getSimpleName()
    if name in _DEAF:
        return None
    match limit.getClass().getSimpleName():
        case "ReadMaxRows":
            return _LimitedSource(stream, ReadUnit.ROWS, own_ceiling or limit.maxRows())
        case "ReadMaxFiles" if name == _FILES:
            return _LimitedSource(stream, ReadUnit.FILES, own_ceiling or limit.maxFiles())
        case "ReadAllAvailable" if name in _UNLIMITED:
            unit = ReadUnit.FILES if name == _FILES else ReadUnit.ROWS
            return _LimitedSource(stream, unit, own_ceiling)
    return None


def _own_ceiling(analyzed: JavaObject) -> int | None:
    """Return what our own readers were marked with (`CEILING_OPTION`)."""
    match analyzed.getClass().getSimpleName():
        case "StreamingRelationV2":
            text = analyzed.extraOptions().get(CEILING_OPTION)
        case "StreamingRelation":
            found = analyzed.dataSource().options().get(CEILING_OPTION)
            text = found.get() if found.isDefined() else None
        case _:
            return None
    return int(text) if text is not None else None


def _leaves(plan: JavaObject) -> Iterator[JavaObject]:
    leaves = plan.collectLeaves()
    return (leaves.apply(index) for index in range(leaves.size()))


def _set_limits(execution: JavaObject, limits: JavaObject) -> None:
    getattr(execution, "uniqueSources_$eq")(limits)


def parse_offsets(text: str) -> dict[str, int] | None:
    """Return Kafka's offsets by partition from Spark's notation, None for another source's.

    ``{"topic": {"0": 12, "1": 7}}``
    """
    try:
        decoded = json.loads(text)
    except ValueError:
        return None
    if not isinstance(decoded, dict):
        return None
    offsets: dict[str, int] = {}
    for topic, partitions in decoded.items():
        if not isinstance(partitions, dict):
            return None
        for partition, offset in partitions.items():
            if not isinstance(offset, int):
                return None
            offsets[f"{topic}-{partition}"] = offset
    return offsets


def rows_between(start: Mapping[str, int] | None, end: Mapping[str, int] | None) -> int | None:
    """Return the rows between two sets of offsets, None when one is unknown.

    A partition that only ``end`` knows is new and counts from 0; one that is gone does not count.
    """
    if start is None or end is None:
        return None
    return sum(max(0, offset - start.get(name, 0)) for name, offset in end.items())
