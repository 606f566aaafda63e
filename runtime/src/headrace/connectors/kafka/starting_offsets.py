"""Where a source without restored state begins, and how Spark wants to be told; pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from headrace.errors import CorruptStateError, InvalidConfigError

SPARK_EARLIEST: Final = -2
SPARK_LATEST: Final = -1
"""How Spark writes these two places in an offsets JSON."""


class StartingPlace(enum.Enum):
    """Where a source without restored state begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


class OffsetReset(enum.Enum):
    """What to do for a partition that has no committed or given offset."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class StartingOffsets:
    """Where to begin.

    Attributes:
        place: see `StartingPlace`.
        timestamp_ms: for TIMESTAMP: first record at or after this time of the broker's index.
        offsets: for OFFSETS: (topic, partition) -> first offset to read.
        reset: for COMMITTED and OFFSETS: partitions without one.
    """

    place: StartingPlace
    timestamp_ms: int = 0
    offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    reset: OffsetReset = OffsetReset.EARLIEST


def complete_offsets(
    known: Mapping[tuple[str, int], int],
    partitions: Mapping[str, list[int]],
    reset: OffsetReset,
) -> dict[tuple[str, int], int]:
    """Return an offset for every partition: the known one, else what ``reset`` says; pure.

    Raises:
        InvalidConfigError: an offset is missing and ``reset`` is NONE, or one is given for a
            partition that does not exist.
    """
    existing = {(topic, number) for topic, numbers in partitions.items() for number in numbers}
    strangers = sorted(known.keys() - existing)
    if strangers:
        msg = f"starting offsets name partitions that do not exist; partitions={strangers}"
        raise InvalidConfigError(msg)
    missing = sorted(existing - known.keys())
    if missing and reset is OffsetReset.NONE:
        msg = (
            "partitions have no starting offset and the reset strategy is none, choose earliest or "
            f"latest; partitions={missing}"
        )
        raise InvalidConfigError(msg)
    default = SPARK_EARLIEST if reset is OffsetReset.EARLIEST else SPARK_LATEST
    return {partition: known.get(partition, default) for partition in sorted(existing)}


def decode_offsets(text: str) -> dict[tuple[str, int], int]:
    """Return what Spark's offsets JSON says: (topic, partition) -> next offset to read.

    Raises:
        CorruptStateError: it is no such JSON.
    """
    try:
        by_topic = msgspec.json.decode(text, type=dict[str, dict[int, int]])
    except msgspec.MsgspecError as error:
        msg = f"an offset of a kafka source cannot be read; offset={text[:200]!r}"
        raise CorruptStateError(msg) from error
    return {(topic, n): at for topic, offsets in by_topic.items() for n, at in offsets.items()}


def encode_offsets(offsets: Mapping[tuple[str, int], int]) -> str:
    """Return Spark's offsets JSON: topic -> partition as text -> offset."""
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(partition)] = offset
    return msgspec.json.encode(by_topic).decode()
