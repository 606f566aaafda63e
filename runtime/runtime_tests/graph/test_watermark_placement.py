"""Assigners of timestamps come to their source (B5, G6)."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidProgramError
from headrace.graph.stream_graph import NO_WATERMARKS, OperatorKind, WatermarkSpec
from runtime_tests.graph.programs import REBALANCE, GraphBuilder, operator_of, ports


def assign(value, _recorded):
    return value


SPEC = WatermarkSpec(
    kind="bounded", out_of_orderness_ms=5_000, idleness_ms=30_000, timestamp_assigner=assign
)


def assigner(build, *inputs, **fields):
    return build.add(OperatorKind.TIMESTAMPS, *inputs, watermarks=SPEC, **fields)


def test_directly_after_its_source_an_assigner_becomes_part_of_it():
    build = GraphBuilder()
    source = build.source()
    keyed = build.keyed(assigner(build, source))
    build.sink(keyed)

    plan = build.plan()

    assert operator_of(plan, source).watermarks == SPEC
    assert [o.kind for o in plan.job_graph.levels[0].operators] == [OperatorKind.SOURCE]
    assert operator_of(plan, source).exits == (0,)


def test_after_other_operators_it_stays_and_the_source_knows_who_sets_timestamps():
    build = GraphBuilder()
    source = build.source()
    parsed = build.map(source)
    timed = assigner(build, parsed)
    build.sink(build.keyed(timed))

    plan = build.plan()

    marks = operator_of(plan, source).watermarks
    assert (marks.kind, marks.out_of_orderness_ms, marks.idleness_ms) == ("bounded", 5_000, 30_000)
    assert (marks.timestamp_assigner, marks.assigned_by) == (None, timed)
    assert operator_of(plan, timed).watermarks == SPEC
    assert operator_of(plan, parsed).chained == ports(timed)


def test_an_assigner_replaces_what_the_source_said():
    build = GraphBuilder()
    source = build.source(watermarks=WatermarkSpec(kind="monotonous"))
    build.sink(build.keyed(assigner(build, source)))

    assert operator_of(build.plan(), source).watermarks == SPEC


def test_a_branch_beside_the_assigner_keeps_it_an_operator():
    build = GraphBuilder()
    source = build.source()
    timed = assigner(build, source)
    build.sink(build.keyed(timed))
    build.sink(source)

    assert operator_of(build.plan(), source).watermarks.assigned_by == timed


@pytest.mark.parametrize("partitioning", [REBALANCE])
def test_after_an_exchange_it_is_too_late(partitioning):
    build = GraphBuilder()
    build.sink(assigner(build, (build.source(), partitioning), name="Late"))

    with pytest.raises(InvalidProgramError, match=r"before key_by, rebalance, union.*'Late'"):
        build.plan()


def test_after_a_union_it_is_too_late():
    build = GraphBuilder()
    build.sink(assigner(build, build.source(), build.source()))

    with pytest.raises(InvalidProgramError, match="must be assigned before"):
        build.plan()


def test_one_source_has_one_assigner():
    build = GraphBuilder()
    source = build.source(name="Numbers")
    build.sink(assigner(build, source, name="A"), assigner(build, source, name="B"))

    with pytest.raises(InvalidProgramError, match="source='Numbers' operators='A','B'"):
        build.plan()


def test_planning_does_not_change_the_program():
    build = GraphBuilder()
    source = build.source()
    build.sink(assigner(build, source))

    build.plan()

    assert build.graph.nodes[source].watermarks == NO_WATERMARKS
    assert len(build.graph.nodes) == 3
