"""Key groups cover, stay apart and are balanced (F1, F13)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.keygroups import (
    KeyGroupRange,
    hash_key_bytes,
    key_group_of_hash,
    key_group_range_of_slot,
    slot_of_key_group,
)

pytestmark = pytest.mark.property


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, int]:
    max_parallelism = draw(st.integers(1, 1024))
    return draw(st.integers(1, max_parallelism)), max_parallelism


@given(shapes())
def test_the_ranges_of_all_slots_cover_every_key_group_exactly_once(shape: tuple[int, int]) -> None:
    parallelism, max_parallelism = shape
    ranges = [key_group_range_of_slot(i, parallelism, max_parallelism) for i in range(parallelism)]
    assert list(range(max_parallelism)) == [kg for owned in ranges for kg in owned]


@given(shapes())
def test_ranges_differ_in_size_by_one_at_most(shape: tuple[int, int]) -> None:
    parallelism, max_parallelism = shape
    sizes = {
        len(key_group_range_of_slot(i, parallelism, max_parallelism)) for i in range(parallelism)
    }
    assert max(sizes) - min(sizes) <= 1


@given(shapes(), st.data())
def test_a_key_group_belongs_to_the_slot_whose_range_holds_it(
    shape: tuple[int, int], data: st.DataObject
) -> None:
    parallelism, max_parallelism = shape
    key_group = data.draw(st.integers(0, max_parallelism - 1))
    slot = slot_of_key_group(key_group, parallelism, max_parallelism)
    assert key_group in key_group_range_of_slot(slot, parallelism, max_parallelism)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 32768))
def test_signed_and_unsigned_reading_of_a_hash_give_the_same_key_group(
    signed: int, max_parallelism: int
) -> None:
    unsigned = signed % 2**64
    expected = signed % max_parallelism  # Spark's pmod of a bigint
    assert expected == key_group_of_hash(signed, max_parallelism)
    assert expected == key_group_of_hash(unsigned, max_parallelism)


def test_fifty_slots_of_128_key_groups_have_two_or_three_each() -> None:
    sizes = [len(key_group_range_of_slot(i, 50, 128)) for i in range(50)]
    assert (sizes.count(3), sizes.count(2)) == (28, 22)


def test_doubling_ten_slots_changes_the_owner_index_of_121_of_128_key_groups() -> None:
    moved = sum(
        slot_of_key_group(kg, 10, 128) != slot_of_key_group(kg, 20, 128) for kg in range(128)
    )
    assert moved == 121


@pytest.mark.parametrize("make", [lambda i: i.to_bytes(8, "big"), lambda i: f"user-{i}".encode()])
def test_sequential_keys_spread_evenly_over_key_groups(make) -> None:
    keys, groups = 128_000, 128
    counts = [0] * groups
    for i in range(keys):
        counts[key_group_of_hash(hash_key_bytes(make(i)), groups)] += 1
    # Chi-square of 127 degrees of freedom: 205 is the 99.999 % quantile.
    expected = keys / groups
    assert sum((count - expected) ** 2 / expected for count in counts) < 205


def test_ranges_intersect_inclusively() -> None:
    assert KeyGroupRange(3, 5) == KeyGroupRange(0, 5).intersection(KeyGroupRange(3, 9))
    assert KeyGroupRange(5, 5) == KeyGroupRange(0, 5).intersection(KeyGroupRange(5, 9))
    assert KeyGroupRange(0, 4).intersection(KeyGroupRange(5, 9)) is None


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(0, 1), (2, 1), (1, 0), (1, 32769)])
def test_impossible_parallelism_is_refused(parallelism: int, max_parallelism: int) -> None:
    with pytest.raises(ValueError, match="parallelism"):
        key_group_range_of_slot(0, parallelism, max_parallelism)


def test_random_hashes_reach_every_key_group_of_a_large_maximum() -> None:
    rng = random.Random(7)
    reached = {key_group_of_hash(rng.getrandbits(64), 1000) for _ in range(20_000)}
    assert set(range(1000)) == reached
