"""Key groups: the unit in which keyed state is stored, checkpointed and moved.

A key belongs to exactly one key group for ever; a key group belongs to exactly one slot at a time.
Everything that routes rows or opens state asks this module and nothing else, so that routing and
ownership cannot disagree (F1, T11).

The assignment of key groups to slots is Flink's ``KeyGroupRangeAssignment``; the hash is not:
Flink mixes Java's ``hashCode`` with murmur3, Headrace uses Spark's ``xxhash64`` (XXH64, seed 42),
which gives the same number in SQL, in the JVM and in Python (T10). See docs/adr/0003.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import xxhash

from headrace.ids import KeyGroup, SlotIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_PARALLELISM_DEFAULT: Final = 128
"""Flink's ``KeyGroupRangeAssignment.DEFAULT_LOWER_BOUND_MAX_PARALLELISM``."""

MAX_PARALLELISM_LIMIT: Final = 32768
"""A key group is stored in two bytes; Flink's bound (``Short.MAX_VALUE + 1``)."""

KEY_HASH_SEED: Final = 42
"""Seed of Spark SQL's ``xxhash64`` expression."""


@dataclass(frozen=True, slots=True)
class KeyGroupRange:
    """A contiguous range of key groups, **inclusive at both ends** as in Flink.

    Attributes:
        start: first key group, >= 0.
        end: last key group, >= start.
    """

    start: KeyGroup
    end: KeyGroup

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end < MAX_PARALLELISM_LIMIT:
            msg = f"not a key-group range; start={self.start} end={self.end}"
            raise ValueError(msg)

    def __contains__(self, key_group: object) -> bool:
        return isinstance(key_group, int) and self.start <= key_group <= self.end

    def __iter__(self) -> Iterator[KeyGroup]:
        return (KeyGroup(kg) for kg in range(self.start, self.end + 1))

    def __len__(self) -> int:
        return self.end - self.start + 1

    def intersection(self, other: KeyGroupRange) -> KeyGroupRange | None:
        """Return the key groups in both ranges, or None when there are none."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return KeyGroupRange(KeyGroup(start), KeyGroup(end)) if start <= end else None


def check_parallelism(parallelism: int, max_parallelism: int) -> None:
    """Assert that ``parallelism`` slots can share ``max_parallelism`` key groups.

    Raises:
        ValueError: 1 <= parallelism <= max_parallelism <= 32768 does not hold.
    """
    if not 1 <= max_parallelism <= MAX_PARALLELISM_LIMIT:
        msg = f"max parallelism must lie in 1..{MAX_PARALLELISM_LIMIT}; got={max_parallelism}"
        raise ValueError(msg)
    if not 1 <= parallelism <= max_parallelism:
        msg = (
            "parallelism must lie in 1..max parallelism; "
            f"parallelism={parallelism} max_parallelism={max_parallelism}"
        )
        raise ValueError(msg)


def key_group_of_hash(key_hash: int, max_parallelism: int) -> KeyGroup:
    """Return ``pmod(key_hash, max_parallelism)`` of a **signed or unsigned** 64-bit hash.

    Spark's ``pmod`` of a negative bigint and Python's ``%`` agree, but the unsigned and the signed
    reading of the same 64 bits do not (unless max parallelism is a power of two), so the hash is
    brought to Spark's signed reading first.
    """
    signed = key_hash - (1 << 64) if key_hash >= 1 << 63 else key_hash
    return KeyGroup(signed % max_parallelism)


def hash_key_bytes(data: bytes) -> int:
    """Return XXH64 with seed 42 of ``data``, unsigned: Spark's ``xxhash64`` of the same bytes."""
    return xxhash.xxh64_intdigest(data, KEY_HASH_SEED)


def slot_of_key_group(key_group: int, parallelism: int, max_parallelism: int) -> SlotIndex:
    """Return the slot that owns ``key_group``: ``key_group * parallelism // max_parallelism``."""
    return SlotIndex(key_group * parallelism // max_parallelism)


def key_group_range_of_slot(slot: int, parallelism: int, max_parallelism: int) -> KeyGroupRange:
    """Return the key groups that ``slot`` owns (Flink's ``computeKeyGroupRangeForOperatorIndex``).

    Raises:
        ValueError: the slot does not exist at this parallelism.
    """
    check_parallelism(parallelism, max_parallelism)
    if not 0 <= slot < parallelism:
        msg = f"no such slot; slot={slot} parallelism={parallelism}"
        raise ValueError(msg)
    start = (slot * max_parallelism + parallelism - 1) // parallelism
    end = ((slot + 1) * max_parallelism - 1) // parallelism
    return KeyGroupRange(KeyGroup(start), KeyGroup(end))
