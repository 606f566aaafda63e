"""Levels, chains and exchanges of a planned job (A10, A11)."""

from __future__ import annotations

import dataclasses
import threading

import cloudpickle
import pytest

from headrace.common.typeinfo import Types
from headrace.errors import InvalidProgramError
from headrace.graph.endpoints import FromDataFrame
from headrace.graph.job_graph import InputPort
from headrace.graph.stream_graph import (
    Broadcast,
    Forward,
    HashByKey,
    OperatorKind,
    StreamEdge,
)
from runtime_tests.graph.programs import (
    FORWARD,
    REBALANCE,
    GraphBuilder,
    arrivals,
    by_key,
    level_of,
    operator_of,
    ports,
)


def test_stateless_operators_run_chained_with_their_source_and_state_after_one_exchange():
    build = GraphBuilder()
    source = build.source()
    mapped = build.map(source)
    keyed = build.keyed(mapped)
    after = build.map(keyed)
    sink = build.sink(after)

    plan = build.plan()

    assert level_of(plan) == {source: 0, mapped: 0, keyed: 1, after: 1, sink: 1}
    assert operator_of(plan, source).chained == ports(mapped)
    assert operator_of(plan, mapped).chained == ()
    assert operator_of(plan, keyed).chained == ports(after)
    assert operator_of(plan, after).chained == ports(sink)
    assert [(e.tag, e.targets, e.relay_to) for e in plan.job_graph.levels[1].inputs] == [
        (0, ports(keyed), None)
    ]
    assert operator_of(plan, mapped).exits == (0,)


def test_a_new_key_costs_an_exchange_and_a_forward_edge_none():
    build = GraphBuilder()
    first = build.keyed(build.source())
    forwarded = build.map(first)
    second = build.keyed(forwarded)
    build.sink(second)

    plan = build.plan()

    assert (level_of(plan)[first], level_of(plan)[forwarded], level_of(plan)[second]) == (1, 1, 2)
    assert len(plan.job_graph.levels) == 3


def test_a_sink_after_a_source_gets_an_exchange_that_keeps_the_order():
    build = GraphBuilder()
    mapped = build.map(build.source())
    sink = build.sink(mapped)

    plan = build.plan()

    assert level_of(plan)[sink] == 1
    (edge,) = plan.job_graph.levels[1].inputs
    assert isinstance(edge.partitioning, Forward)
    assert edge.targets == ports(sink)


def test_an_explicit_rebalance_is_one_exchange():
    build = GraphBuilder()
    source = build.source()
    mapped = build.map((source, REBALANCE))
    build.sink(mapped)

    plan = build.plan()

    assert level_of(plan)[mapped] == 1
    assert [e.partitioning for e in plan.job_graph.levels[1].inputs] == [REBALANCE]


def test_an_edge_that_skips_a_level_is_relayed_with_the_same_partitioning():
    build = GraphBuilder()
    source = build.source()
    first = build.keyed(source)
    key = by_key()
    second = build.keyed(source, first, partitioning=key)
    build.sink(second)

    plan = build.plan()
    job_graph = plan.job_graph

    assert level_of(plan)[second] == 2
    relay = next(e for e in job_graph.levels[1].inputs if not e.targets)
    assert job_graph.levels[2].inputs[relay.relay_to].targets == ports(second)
    assert relay.partitioning is job_graph.levels[2].inputs[relay.relay_to].partitioning is key
    assert sorted(arrivals(job_graph, operator_of(plan, source))) == [(first, 1), (second, 2)]


def test_a_union_of_levels_brings_the_lower_stream_up():
    build = GraphBuilder()
    source = build.source()
    keyed = build.keyed(source)
    united = build.map(source, keyed)
    build.sink(united)

    plan = build.plan()

    assert level_of(plan)[united] == 1
    assert operator_of(plan, keyed).chained == ports(united)
    forwarded = next(e for e in plan.job_graph.levels[1].inputs if e.targets == ports(united))
    assert forwarded.partitioning == FORWARD


def test_one_stream_with_two_consumers_is_read_once():
    build = GraphBuilder()
    source = build.source()
    one, two = build.keyed(source), build.keyed(source)
    build.sink(one)
    build.sink(two)

    plan = build.plan()

    assert [o.id for o in plan.job_graph.sources()] == [source]
    assert operator_of(plan, source).exits == (0, 1)
    assert [e.targets for e in plan.job_graph.levels[1].inputs] == [ports(one), ports(two)]


def test_rows_that_several_operators_take_by_one_key_cross_the_exchange_once():
    build = GraphBuilder()
    source, key = build.source(), by_key()
    one, two = build.keyed(source, partitioning=key), build.keyed(source, partitioning=key)
    build.sink(one)
    build.sink(two)

    plan = build.plan()

    assert operator_of(plan, source).exits == (0,)
    assert [e.targets for e in plan.job_graph.levels[1].inputs] == [ports(one, two)]


def test_operators_of_two_levels_take_the_same_rows_on_their_way():
    build = GraphBuilder()
    source, key = build.source(), by_key()
    near = build.keyed(source, partitioning=key)
    far = build.keyed(source, near, partitioning=key)
    build.sink(far)

    job_graph = build.plan().job_graph

    (shared,) = job_graph.levels[1].inputs
    assert (shared.targets, shared.relay_to) == (ports(near), 0)
    assert [e.targets for e in job_graph.levels[2].inputs] == [ports(far), ports(far)]


def test_dataframes_come_after_the_sources_whose_offsets_are_known():
    build = GraphBuilder()
    frame = build.source(function=FromDataFrame(None))
    known = build.source()
    build.sink(build.keyed(frame, known))

    assert [o.id for o in build.plan().job_graph.sources()] == [known, frame]


def test_a_stream_united_with_itself_brings_every_row_twice():
    build = GraphBuilder()
    source, key = build.source(), by_key()
    twice = build.keyed(source, source, partitioning=key)
    build.sink(twice)

    (edge,) = build.plan().job_graph.levels[1].inputs

    assert edge.targets == ports(twice, twice)


def test_several_sources_share_level_0_and_one_exchange():
    build = GraphBuilder()
    left, right = build.source(), build.source()
    keyed = build.keyed(left, right)
    build.sink(keyed)

    plan = build.plan()

    assert [o.id for o in plan.job_graph.sources()] == [left, right]
    assert [e.targets for e in plan.job_graph.levels[1].inputs] == [ports(keyed), ports(keyed)]
    assert (operator_of(plan, left).exits, operator_of(plan, right).exits) == ((0,), (1,))


def test_operators_of_a_level_come_in_topological_order():
    build = GraphBuilder()
    source = build.source()
    keyed = build.keyed(source)
    tail = build.map(keyed)
    build.sink(build.map(tail), tail)

    plan = build.plan()

    for level in plan.job_graph.levels:
        ids = [operator.id for operator in level.operators]
        for operator in level.operators:
            assert all(
                ids.index(port.operator) > ids.index(operator.id) for port in operator.chained
            )


def test_keyed_operators_get_the_key_type_of_their_edge():
    build = GraphBuilder()
    keyed = build.keyed(build.source(), partitioning=by_key(Types.STRING()))
    build.sink(keyed)

    operator = operator_of(build.plan(), keyed)

    assert operator.key_serializer.snapshot() == Types.STRING().key_serializer().snapshot()


def test_records_that_nobody_takes_are_dropped_but_the_operator_runs():
    build = GraphBuilder()
    source = build.source()
    build.sink(source)
    lonely = build.map(source)

    plan = build.plan()

    assert (operator_of(plan, lonely).chained, operator_of(plan, lonely).exits) == ((), ())


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda b: b.source(), "the program has no sink, end it with sink_to(...) or print()"),
        (
            lambda b: b.sink(b.map()),
            "the program has no source, begin with env.from_source or env.from_collection",
        ),
        (
            lambda b: b.sink(b.add(OperatorKind.KEYED_PROCESS, b.source(), name="Count")),
            "a keyed function needs a keyed stream, call key_by before it; operator='Count'",
        ),
        (
            lambda b: b.sink(b.source(parallelism=7, name="Slow")),
            (
                "sources are read by as many tasks as they have partitions, remove "
                "set_parallelism; operator='Slow' parallelism=7 job=2"
            ),
        ),
        (
            lambda b: b.sink(b.map(b.source(), max_parallelism=7, name="Slow")),
            (
                "operators with a max parallelism of their own are not supported yet, use "
                "the job's; "
                "operator='Slow' max_parallelism=7 job=128"
            ),
        ),
        (
            lambda b: b.map(b.sink(b.source(), name="Out")),
            "a sink cannot have outputs; operator='Out'",
        ),
        (
            lambda b: b.sink(b.map(), b.source()),
            "operator has no input; operator='map-1'",
        ),
    ],
)
def test_an_impossible_program_is_refused_with_the_operator_and_the_cure(make, reason):
    build = GraphBuilder()
    make(build)

    with pytest.raises(InvalidProgramError) as caught:
        build.plan()

    assert str(caught.value) == reason


def test_inputs_of_a_keyed_operator_must_agree_about_the_key():
    build = GraphBuilder()
    left, right = build.source(), build.source()
    edges = [(left, by_key(Types.LONG())), (right, by_key(Types.STRING()))]
    build.sink(build.add(OperatorKind.KEYED_PROCESS, *edges, name="Join"))

    with pytest.raises(InvalidProgramError, match="need the same key type; operator='Join'"):
        build.plan()


def test_a_cycle_is_refused():
    build = GraphBuilder()
    first = build.map(build.source())
    second = build.map(first)
    build.graph.edges.append(StreamEdge(second, first, FORWARD))
    build.sink(second)

    with pytest.raises(InvalidProgramError, match="operators form a cycle"):
        build.plan()


def test_more_slots_than_key_groups_are_refused():
    build = GraphBuilder()
    build.sink(build.source())

    with pytest.raises(InvalidProgramError, match="parallelism=129 max_parallelism=128"):
        build.plan(parallelism=129)


def test_more_edges_than_tags_are_refused():
    build = GraphBuilder()
    source = build.source()
    for _ in range(256):
        build.sink(build.keyed(source))

    with pytest.raises(InvalidProgramError, match="level=1 edges=256 max=255"):
        build.plan()


def test_the_edge_of_an_exchange_carries_the_type_of_its_sender():
    build = GraphBuilder()
    source = build.source()
    build.sink(build.keyed(source))

    (edge,) = build.plan().job_graph.levels[1].inputs

    assert edge.value_serializer is build.graph.nodes[source].output_serializer
    assert isinstance(edge.partitioning, HashByKey)


def test_what_lives_from_epoch_to_epoch_lives_in_a_slot():
    build = GraphBuilder()
    source = build.source()
    remembering = build.map(source, keeps_operator_state=True)
    after = build.map(remembering)
    build.sink(after)
    plan = build.plan()
    assert {source: 0, remembering: 1, after: 1} == {
        i: level for i, level in level_of(plan).items() if i in {source, remembering, after}
    }
    (edge,) = plan.job_graph.levels[1].inputs
    assert (Forward(), ports(remembering)) == (edge.partitioning, edge.targets)


def two_inputs(build, kind, first, second):
    node = build.add(kind, first)
    source, partitioning = second
    build.graph.edges.append(StreamEdge(source, node, partitioning, 1))
    return node


def test_the_inputs_of_an_operator_stay_apart_also_when_one_stream_feeds_both():
    build = GraphBuilder()
    source = build.source()
    both = two_inputs(build, OperatorKind.CO_PROCESS, source, (source, FORWARD))
    build.sink(both)
    (edge,) = build.plan().job_graph.levels[1].inputs
    assert (InputPort(both, 0), InputPort(both, 1)) == edge.targets


def test_a_broadcast_stream_crosses_an_exchange_and_the_other_one_keeps_its_order():
    build = GraphBuilder()
    data, rules = build.source(), build.source()
    apply = two_inputs(build, OperatorKind.BROADCAST_PROCESS, data, (rules, Broadcast()))
    build.sink(apply)
    plan = build.plan()
    assert 1 == level_of(plan)[apply]
    assert {Forward(): (InputPort(apply, 0),), Broadcast(): (InputPort(apply, 1),)} == {
        edge.partitioning: edge.targets for edge in plan.job_graph.levels[1].inputs
    }


@pytest.mark.parametrize(
    ("first", "second"), [(FORWARD, FORWARD), (Broadcast(), Broadcast()), (Broadcast(), FORWARD)]
)
def test_one_input_of_a_broadcast_function_is_broadcast(first, second):
    build = GraphBuilder()
    data, rules = build.source(), build.source()
    kind = OperatorKind.BROADCAST_PROCESS
    build.sink(two_inputs(build, kind, (data, first), (rules, second)))
    with pytest.raises(InvalidProgramError, match="one stream of the two must be broadcast"):
        build.plan()


def test_operator_state_behind_a_broadcast_would_multiply():
    build = GraphBuilder()
    build.sink(build.map((build.source(), Broadcast()), keeps_operator_state=True, name="M"))
    with pytest.raises(InvalidProgramError, match=r"would multiply.*operator='M'"):
        build.plan()


def test_other_parallelism_is_an_exchange_also_when_it_is_the_jobs_today():
    build = GraphBuilder()
    keyed = build.keyed(build.source())
    few = build.map(keyed, parallelism=2)
    after = build.map(few, parallelism=2)
    all_ = build.map(after)
    build.sink(all_)
    plan = build.plan(parallelism=2)
    assert {keyed: 1, few: 2, after: 2, all_: 3} == {
        i: level for i, level in level_of(plan).items() if i in {keyed, few, after, all_}
    }
    inputs = [plan.job_graph.levels[level].inputs[0] for level in (1, 2, 3)]
    assert [None, 2, None] == [edge.parallelism for edge in inputs]
    assert [REBALANCE, REBALANCE] == [edge.partitioning for edge in inputs[1:]]


def test_one_stream_goes_apart_to_operators_of_different_parallelism():
    build = GraphBuilder()
    source, key = build.source(), by_key()
    one = build.keyed(source, partitioning=key)
    two = build.keyed(source, partitioning=key, parallelism=2)
    build.sink(one, two)
    assert [(None, ports(one)), (2, ports(two))] == [
        (edge.parallelism, edge.targets)
        for edge in build.plan(parallelism=4).job_graph.levels[1].inputs
    ]


def test_an_operator_with_fewer_slots_never_runs_in_more_than_the_job_has():
    build = GraphBuilder()
    few = build.keyed(build.source(), parallelism=3)
    build.sink(few)
    graph = build.plan(parallelism=4).job_graph
    operator = next(o for o in graph.operators() if o.id == few)
    assert [3, 2, 3] == [
        dataclasses.replace(graph, parallelism=slots).parallelism_of(operator)
        for slots in (4, 2, 8)
    ]
    assert [True, True, True, False] == [operator in graph.operators_in(slot) for slot in range(4)]


@pytest.mark.parametrize("parallelism", [0, -1])
def test_a_parallelism_below_one_is_refused(parallelism):
    build = GraphBuilder()
    build.sink(build.map(build.source(), parallelism=parallelism, name="M"))
    with pytest.raises(InvalidProgramError, match=r"at least 1; operator='M'"):
        build.plan()


def test_a_graph_without_sources_can_leave_a_driver_whose_sources_cannot():
    build = GraphBuilder()
    source = build.source(function=FromDataFrame(threading.Lock()))
    keyed = build.keyed(source)
    build.sink(keyed)
    graph = build.plan().job_graph
    with pytest.raises(TypeError, match="pickle"):
        cloudpickle.dumps(graph)
    read = cloudpickle.loads(cloudpickle.dumps(graph.without_sources()))
    assert [o.uid for o in graph.operators()] == [o.uid for o in read.operators()]
    assert [None] == [o.function for o in read.sources()]
    (operator,) = (o for o in read.operators() if o.id == keyed)
    assert graph.levels[1].operators[0].key_serializer.snapshot() == (
        operator.key_serializer.snapshot()
    )
