"""Where a bounded source ends: for each partition the first offset that is not read.

The places are those of starting offsets (``latest`` = what is there when the job first starts). The
brokers are asked once; afterwards the answer is kept in checkpoints, so that it stays the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from headrace.connectors.kafka.starting_offsets import (
    OffsetReset,
    StartingPlace,
    complete_offsets,
)
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.connectors.kafka.starting_offsets import StartingOffsets

    Partition = tuple[str, int]


class OffsetsOfTopics(Protocol):
    """What must be known of a cluster; `headrace.connectors.kafka.probe.ClusterProbe`."""

    def partitions(self, topics: Sequence[str]) -> dict[str, list[int]]:
        """Return the partitions of each topic."""
        ...

    def committed(self, group: str, topics: Sequence[str]) -> dict[Partition, int]:
        """Return a consumer group's offsets."""
        ...

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset of each partition's first record."""
        ...

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset after each partition's last record."""
        ...

    def at_time(self, partitions: Iterable[Partition], time_ms: int) -> dict[Partition, int]:
        """Return the first offsets at or after a time; partitions without one are left out."""
        ...


def find_stopping_offsets(
    probe: OffsetsOfTopics, topics: Sequence[str], place: StartingOffsets, group: str | None
) -> dict[Partition, int]:
    """Return the first offset that is not read, for every partition that there is now.

    Raises:
        InvalidConfigError: see `complete_offsets`, or there is no such topic.
        SourceUnavailableError: no broker answered.
    """
    numbers = probe.partitions(topics)
    everything = [(topic, number) for topic in topics for number in numbers[topic]]
    match place.place:
        case StartingPlace.LATEST:
            return probe.latest(everything)
        case StartingPlace.EARLIEST:
            return probe.earliest(everything)
        case StartingPlace.TIMESTAMP:
            found = probe.at_time(everything, place.timestamp_ms)
            return found | probe.latest(p for p in everything if p not in found)
        case StartingPlace.COMMITTED:
            known: Mapping[Partition, int] = probe.committed(group or "", topics)
        case StartingPlace.OFFSETS:
            known = place.offsets
    complete = complete_offsets(known, numbers, place.reset)
    open_ones = [partition for partition, offset in complete.items() if offset < 0]
    late = place.reset is OffsetReset.LATEST
    return complete | (probe.latest(open_ones) if late else probe.earliest(open_ones))


def matching_topics(names: Iterable[str], pattern: str) -> list[str]:
    """Return the topics whose whole name matches, as a consumer that subscribes a pattern does.

    Raises:
        InvalidConfigError: there is none, so a bounded source would end before it begins.
    """
    found = [name for name in sorted(names) if re.fullmatch(pattern, name)]
    if not found:
        msg = f"no topic matches the pattern of a bounded source; set_topic_pattern={pattern!r}"
        raise InvalidConfigError(msg)
    return found
