"""Which ints stand for slots: Spark's hash, computed without Spark."""

from __future__ import annotations

import pytest

from headrace.engine.exchange import find_representatives, hash_int

SPARK_HASHES = {0: 933211791, 1: -559580957, 2: 1765031574, 42: 29417773}
"""``SELECT hash(...)``; `test_exchange` asks Spark for more."""


@pytest.mark.parametrize(("value", "expected"), SPARK_HASHES.items())
def test_hashes_are_those_of_spark(value, expected):
    assert expected == hash_int(value)


@pytest.mark.parametrize("parallelism", [1, 2, 3, 128, 4096])
def test_every_slot_has_the_smallest_int_of_its_partition(parallelism):
    representatives = find_representatives(parallelism)

    smallest: dict[int, int] = {}
    for value in range(max(representatives) + 1):
        smallest.setdefault(hash_int(value) % parallelism, value)
    assert [smallest[slot] for slot in range(parallelism)] == representatives
