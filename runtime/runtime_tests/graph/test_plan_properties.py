"""Properties of every plan, over random programs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.graph.stream_graph import Forward, OperatorKind
from runtime_tests.graph.programs import (
    FORWARD,
    REBALANCE,
    GraphBuilder,
    arrivals,
    by_key,
    level_of,
)

KINDS = (OperatorKind.MAP, OperatorKind.FILTER, OperatorKind.KEYED_PROCESS, OperatorKind.SINK)


@st.composite
def programs(draw):
    """A random DAG: every operator reads from one to three earlier ones."""
    build = GraphBuilder()
    producers = [build.source() for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(1, 12))):
        kind = draw(st.sampled_from(KINDS))
        sources = draw(st.lists(st.sampled_from(producers), min_size=1, max_size=3))
        if kind is OperatorKind.KEYED_PROCESS:
            producers.append(build.keyed(*sources))
        elif kind is OperatorKind.SINK:
            build.sink(*sources)
        else:
            choice = st.sampled_from([FORWARD, FORWARD, REBALANCE, by_key()])
            producers.append(build.add(kind, *((i, draw(choice)) for i in sources)))
    build.sink(producers[-1])
    return build


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(programs())
def test_levels_never_go_down_and_every_exchange_goes_up(build):
    levels = level_of(build.plan())

    for edge in build.graph.edges:
        least = 0 if isinstance(edge.partitioning, Forward) else 1
        assert levels[edge.target] - levels[edge.source] >= least


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(programs())
def test_every_edge_crosses_exactly_the_exchanges_between_its_levels(build):
    plan = build.plan()
    levels = level_of(plan)
    planned = []
    for operator in plan.job_graph.operators():
        planned += [(operator.id, port.operator, 0) for port in operator.chained]
        planned += [(operator.id, *arrival) for arrival in arrivals(plan.job_graph, operator)]

    said = [(e.source, e.target, levels[e.target] - levels[e.source]) for e in build.graph.edges]
    assert sorted(planned) == sorted(said)


@pytest.mark.property
@settings(max_examples=150, deadline=None)
@given(programs())
def test_tags_number_the_edges_of_an_exchange_and_each_is_entered_once(build):
    job_graph = build.plan().job_graph

    for index, level in enumerate(job_graph.levels):
        assert [edge.tag for edge in level.inputs] == list(range(len(level.inputs)))
        if index == 0:
            assert level.inputs == ()
            continue
        below = job_graph.levels[index - 1]
        entered = [tag for operator in below.operators for tag in operator.exits]
        entered += [edge.relay_to for edge in below.inputs if edge.relay_to is not None]
        assert sorted(entered) == list(range(len(level.inputs)))


@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(programs())
def test_keyed_operators_and_sinks_live_in_slots_and_sources_do_not(build):
    plan = build.plan()

    for level in plan.job_graph.levels:
        for operator in level.operators:
            in_slot = operator.kind.is_keyed or operator.kind is OperatorKind.SINK
            assert level.level >= (1 if in_slot else 0)
            assert (operator.kind is OperatorKind.SOURCE) <= (level.level == 0)


@pytest.mark.property
@settings(max_examples=50, deadline=None)
@given(programs())
def test_planning_twice_gives_the_same_plan(build):
    first, second = build.plan(), build.plan()

    assert first == second
