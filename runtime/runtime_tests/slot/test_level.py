"""One level in one slot: what a chunk does in it."""

from __future__ import annotations

import pytest

from headrace.errors import InternalError
from headrace.ids import SlotIndex
from headrace.slot.chunk import NO_TIMESTAMP, decode, encode_objects
from headrace.slot.level import LevelParts, SlotLevel
from headrace.slot.partitioner import ObjectPartitioner
from runtime_tests.graph.programs import REBALANCE, GraphBuilder


class Collected:
    """A sink."""

    def __init__(self):
        self.values = []

    def write(self, value, timestamp_ms):
        self.values.append(value)


class Append:
    """Changes the very value that it gets, as a user's function may."""

    def __init__(self, item):
        self._item = item

    def map(self, value):
        value.append(self._item)
        return value


@pytest.fixture
def two_consumers():
    """A rebalanced stream that two maps take, each with a sink of its own."""
    build = GraphBuilder()
    source = build.source()
    maps = [build.map((source, REBALANCE), function=Append(item)) for item in ("one", "two")]
    sinks = {build.sink(map_): Collected() for map_ in maps}
    graph = build.plan(parallelism=1).job_graph
    parts = LevelParts(graph, graph.levels[1], SlotIndex(0), {}, sinks, {}, (None, None))
    level = SlotLevel(parts)
    level.begin_epoch(0, lambda slot, chunk: pytest.fail("nothing follows"))
    return graph, level, list(sinks.values())


def chunk_of(graph, *values):
    (edge,) = graph.levels[1].inputs
    sent = []
    partitioner = ObjectPartitioner(edge, 1, 128, lambda slot, chunk: sent.append(chunk))
    partitioner.begin(0)
    for value in values:
        partitioner.add(value, NO_TIMESTAMP)
    partitioner.flush()
    (chunk,) = sent
    return chunk


def test_rows_that_crossed_once_reach_every_target_as_values_of_its_own(two_consumers):
    graph, level, (one, two) = two_consumers
    assert [] == level.take(chunk_of(graph, ["a"], ["b"]))
    assert [["a", "one"], ["b", "one"]] == one.values
    assert [["a", "two"], ["b", "two"]] == two.values
    assert 1 == level.counters.chunks_in


def test_a_chunk_of_no_edge_is_refused(two_consumers):
    _, level, _ = two_consumers
    chunk = encode_objects(9, [], None, None, ["x"])
    assert 9 == decode(chunk).tag
    with pytest.raises(InternalError, match=r"unknown edge.*tag=9"):
        level.take(chunk)
