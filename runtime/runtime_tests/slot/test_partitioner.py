"""The partitioner: every row reaches the slot that owns its key's group, in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.graph.job_graph import ExchangeEdge
from headrace.graph.stream_graph import Forward, HashByKey, Rebalance
from headrace.ids import EdgeTag
from headrace.keygroups import key_group_of_hash, key_group_range_of_slot
from headrace.serialization import types
from headrace.serialization.registry import key_serializer, value_serializer
from headrace.slot.chunk import NO_TIMESTAMP, decode
from headrace.slot.partitioner import CHUNK_ROWS_MAX, ObjectPartitioner

MAX_PARALLELISM = 100  # not a power of two: signed and unsigned hashes would differ


def spread(partitioning, rows, parallelism, sender=0):
    """Run rows of (value, timestamp) through a partitioner; returns slot -> decoded chunks."""
    edge = ExchangeEdge(EdgeTag(2), partitioning, value_serializer(types.PICKLED), (1,), None)
    chunks = {}
    partitioner = ObjectPartitioner(
        edge,
        parallelism,
        MAX_PARALLELISM,
        lambda slot, chunk: chunks.setdefault(slot, []).append(decode(chunk)),
    )
    partitioner.begin(sender)
    for value, timestamp in rows:
        partitioner.add(value, timestamp)
    partitioner.flush()
    return chunks


BY_FIRST = HashByKey(lambda value: value[0], key_serializer(types.STRING))


@pytest.mark.property
@given(
    st.lists(st.tuples(st.text(max_size=5), st.integers()), max_size=60),
    st.integers(min_value=1, max_value=MAX_PARALLELISM),
)
def test_keyed_rows_reach_the_owner_of_their_key_group_in_order(rows, parallelism):
    chunks = spread(BY_FIRST, [(row, 7) for row in rows], parallelism)
    arrived = []
    for slot, received in chunks.items():
        own = key_group_range_of_slot(slot, parallelism, MAX_PARALLELISM)
        for chunk in received:
            for value, key, group in zip(
                chunk.values, chunk.keys, chunk.key_groups.tolist(), strict=True
            ):
                assert key == value[0]
                hashed = BY_FIRST.serializer.hash64(key)
                assert group == key_group_of_hash(hashed, MAX_PARALLELISM)
                assert group in own
                arrived.append((slot, value))
    for key in {row[0] for row in rows}:
        assert [row for row in rows if row[0] == key] == [v for _, v in arrived if v[0] == key]
    assert len(rows) == len(arrived)


def test_a_full_bucket_is_sent_before_the_end():
    rows = [(("k", i), 0) for i in range(CHUNK_ROWS_MAX + 1)]
    (received,) = spread(BY_FIRST, rows, 1).values()
    assert [CHUNK_ROWS_MAX, 1] == [len(chunk.values) for chunk in received]


def test_rebalanced_rows_are_spread_whole_chunks_at_a_time():
    rows = [(i, NO_TIMESTAMP) for i in range(2 * CHUNK_ROWS_MAX)]
    chunks = spread(Rebalance(), rows, 2)
    assert {0: CHUNK_ROWS_MAX, 1: CHUNK_ROWS_MAX} == {
        slot: sum(len(chunk.values) for chunk in received) for slot, received in chunks.items()
    }


def test_forwarded_rows_of_one_sender_go_to_one_slot():
    rows = [(i, NO_TIMESTAMP) for i in range(CHUNK_ROWS_MAX + 5)]
    chunks = spread(Forward(), rows, 3, sender=5)
    assert [2] == list(chunks)
    assert [i for i, _ in rows] == [v for chunk in chunks[2] for v in chunk.values]


def test_rows_without_timestamps_carry_none():
    (received,) = spread(BY_FIRST, [(("k", 1), NO_TIMESTAMP)], 1).values()
    assert received[0].timestamps is None
