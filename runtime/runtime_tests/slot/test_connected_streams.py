"""Two streams in one function: connected, and one of them broadcast (B19, B28, T28)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.datastream import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from headrace.errors import IncompatibleStateError, InvalidProgramError, UserCodeError
from runtime_tests.slot.slot_run import SlotRun, collect

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


def environment():
    return StreamExecutionEnvironment.get_execution_environment()


def two_sources(env, first=None, second=None):
    return (
        env.from_collection([0], first or Types.LONG()),
        env.from_collection([0], second or Types.LONG()),
    )


class Enrich(KeyedCoProcessFunction):
    """Remembers the latest of the second stream for records of the first."""

    def open(self, runtime_context):
        self.latest = runtime_context.get_state(ValueStateDescriptor("latest", Types.LONG()))

    def process_element1(self, value, ctx):
        yield (ctx.get_current_key(), value, self.latest.value())

    def process_element2(self, value, ctx):
        self.latest.update(value)
        ctx.timer_service().register_processing_time_timer(0)

    def on_timer(self, timestamp, ctx):
        yield ("timer", ctx.get_current_key())


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_both_inputs_of_a_key_meet_in_one_state_and_keep_it_over_a_rescale(tmp_path, backend):
    env = environment()
    first, second = two_sources(env)
    connected = first.connect(second).key_by(
        lambda value: value % 10, lambda value: value % 10, Types.LONG()
    )
    collect(connected.process(Enrich()).uid("enrich"))
    program = env.program.pending()
    with SlotRun(tmp_path, program, 2, backend=backend) as run:
        assert [("timer", key) for key in range(10)] == run.epoch([[]], [list(range(100, 110))])
        checkpoint = run.checkpoint()
    with SlotRun(tmp_path, program, 3, restore=checkpoint, backend=backend) as run:
        assert [(3, 3, 103), (9, 59, 109)] == run.epoch([[3], [59]], [[]])


class Side(CoMapFunction):
    def map1(self, value):
        return ("one", value)

    def map2(self, value):
        return ("two", value)


class Sides(CoFlatMapFunction):
    def flat_map1(self, value):
        return [("one", value)] * value

    def flat_map2(self, value):
        return None


class Sum(CoProcessFunction):
    """One object for both inputs: what one changes, the other sees."""

    def open(self, runtime_context):
        self.total = 0

    def process_element1(self, value, ctx):
        self.total += value

    def process_element2(self, value, ctx):
        yield (self.total, ctx.timer_service().current_processing_time(), ctx.timestamp())


def test_functions_without_keys_tell_their_inputs_apart(tmp_path):
    env = environment()
    first, second = two_sources(env)
    connected = first.connect(second)
    collect(connected.map(Side()))
    collect(connected.flat_map(Sides()))
    with SlotRun(tmp_path, env.program.pending(), 1) as run:
        assert [("one", 2), ("one", 2), ("one", 2), ("two", 5)] == run.epoch([[2]], [[5]])


def test_both_inputs_share_one_function_object(tmp_path):
    env = environment()
    first, second = two_sources(env)
    collect(first.connect(second).process(Sum()))
    with SlotRun(tmp_path, env.program.pending(), 1) as run:
        assert [] == run.epoch([[1, 2]], [[]])
        assert [(3, 1000, None)] == run.epoch([[]], [[0]])


def test_a_stream_may_be_connected_with_itself(tmp_path):
    env = environment()
    stream = env.from_collection([0], Types.LONG())
    collect(stream.connect(stream).map(Side()))
    with SlotRun(tmp_path, env.program.pending(), 2) as run:
        assert [("one", 1), ("two", 1)] == run.epoch([[1]])


def test_inputs_of_different_depth_meet(tmp_path):
    env = environment()
    first, second = two_sources(env)
    deep = first.key_by(lambda value: value, Types.LONG()).reduce(lambda a, b: a + b)
    connected = deep.connect(second).key_by(lambda _: 0, lambda _: 0, Types.LONG())
    collect(connected.map(Side()))
    with SlotRun(tmp_path, env.program.pending(), 2) as run:
        assert [("one", 1), ("one", 2), ("two", 7)] == run.epoch([[1, 1]], [[7]])


class Apply(KeyedBroadcastProcessFunction):
    """Counts what is above the limit of its rule; rules come by broadcast."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_broadcast_element(self, value, ctx):
        name, limit = value
        rules = ctx.get_broadcast_state(RULES)
        if limit is None:
            rules.remove(name)
        else:
            rules.put(name, limit)
        yield ("rules", dict(rules.items()))

    def process_element(self, value, ctx):
        for name, limit in ctx.get_broadcast_state(RULES).items():
            if value > limit:
                self.count.update((self.count.value() or 0) + 1)
                yield (name, ctx.get_current_key(), self.count.value())
        ctx.timer_service().register_processing_time_timer(10_000_000)


def rules_program(function=None, descriptors=(RULES,)):
    env = environment()
    values, rules = two_sources(env, second=Types.PICKLED_BYTE_ARRAY())
    keyed = values.key_by(lambda value: value % 4, Types.LONG())
    connected = keyed.connect(rules.broadcast(*descriptors))
    collect(connected.process(function or Apply()).uid("apply"))
    return env.program.pending()


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_a_rule_that_comes_while_the_job_runs_holds_in_every_slot_and_survives(tmp_path, backend):
    program = rules_program()
    with SlotRun(tmp_path, program, 2, backend=backend) as run:
        assert [] == run.epoch([[1, 2, 3, 4]], [[]])
        told = run.epoch([[1, 2, 3, 4]], [[("big", 2)]])
        assert [("big", 0, 1), ("big", 3, 1)] == told[:2]
        assert [("rules", {"big": 2})] * 2 == told[2:], "every slot was told"
        checkpoint = run.checkpoint()
    for parallelism in (1, 4):
        with SlotRun(tmp_path, program, parallelism, restore=checkpoint, backend=backend) as run:
            assert [("big", 0, 2)] == run.epoch([[4]], [[]])
            assert [("rules", {})] * parallelism == run.epoch([[9]], [[("big", None)]])


def test_broadcast_state_is_stored_once(tmp_path):
    with SlotRun(tmp_path, rules_program(), 4) as run:
        run.epoch([[]], [[("a", 1), ("b", 2)]])
        stored = [
            (handle.slot, handle.mode, len(handle.items))
            for slot in run.checkpoint().slots
            for handle in slot.operator
            if handle.operator_uid == "apply"
        ]
    assert [(0, "broadcast", 2)] == stored


class Journal(BroadcastProcessFunction):
    """Emits the sequence of what it was told, for every value."""

    def open(self, runtime_context):
        self.told = []

    def process_broadcast_element(self, value, ctx):
        self.told.append(value)

    def process_element(self, value, ctx):
        yield tuple(self.told)


@settings(max_examples=40, deadline=None)
@given(
    tasks=st.lists(st.lists(st.integers(0, 99), max_size=5), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_all_slots_are_told_the_same_in_the_same_order_before_the_epochs_other_records(
    tmp_path_factory, tasks, seed
):
    env = environment()
    values, told = two_sources(env)
    stream = values.rebalance().connect(told.broadcast(RULES))
    collect(stream.process(Journal()))
    slots = 3
    with SlotRun(tmp_path_factory.mktemp("j"), env.program.pending(), slots, seed=seed) as run:
        # One source task a slot: a rebalanced task begins its round in the slot of its number.
        seen = run.epoch([[0], [0], [0]], tasks)
    assert slots == len(seen)
    assert 1 == len(set(seen))
    assert tuple(value for task in tasks for value in task) == seen[0]


def test_a_sender_with_many_chunks_keeps_its_order(tmp_path):
    env = environment()
    values, told = two_sources(env)
    collect(values.rebalance().connect(told.broadcast(RULES)).process(Journal()))
    many = list(range(10_000))
    with SlotRun(tmp_path, env.program.pending(), 2, seed=5) as run:
        assert [tuple(many)] * 2 == run.epoch([[0], [0]], [many])


class Writes(Apply):
    def process_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put("mine", 1)


class Unknown(Apply):
    def process_element(self, value, ctx):
        ctx.get_broadcast_state(MapStateDescriptor("other", Types.LONG(), Types.LONG()))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (Writes, "changed in process_broadcast_element only.*state='rules'"),
        (Unknown, r"state='other' known=\['rules'\]"),
    ],
)
def test_misuse_of_broadcast_state_is_named(tmp_path, function, words):
    with (
        SlotRun(tmp_path, rules_program(function()), 1) as run,
        pytest.raises(UserCodeError, match=words),
    ):
        run.epoch([[1]], [[]])


class KeyedOnBroadcastSide(Apply):
    """Uses state of whatever key was current before."""

    def __init__(self, use):
        self.use = use

    def open(self, runtime_context):
        super().open(runtime_context)
        self.list = runtime_context.get_list_state(ListStateDescriptor("l", Types.LONG()))
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("m", Types.LONG(), Types.LONG())
        )

    def process_element(self, value, ctx):
        self.count.update(1)
        self.list.add(1)
        self.map.put(1, 1)

    def process_broadcast_element(self, value, ctx):
        self.use(self)


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
@pytest.mark.parametrize(
    "use",
    [
        lambda f: f.count.value(),
        lambda f: f.count.update(5),
        lambda f: f.count.clear(),
        lambda f: list(f.list.get()),
        lambda f: f.list.add(2),
        lambda f: f.list.clear(),
        lambda f: f.map.get(1),
        lambda f: f.map.put(1, 2),
        lambda f: list(f.map.items()),
        lambda f: f.map.clear(),
    ],
)
def test_the_broadcast_side_cannot_reach_the_state_of_any_key(tmp_path, backend, use):
    with SlotRun(tmp_path, rules_program(KeyedOnBroadcastSide(use)), 1, backend=backend) as run:
        run.epoch([[1]], [[]])
        with pytest.raises(UserCodeError, match="a broadcast record has no key"):
            run.epoch([[]], [[0]])


def test_changed_types_of_rules_are_refused_and_dropped_rules_are_named(tmp_path):
    with SlotRun(tmp_path, rules_program(), 1) as run:
        run.epoch([[]], [[("a", 1)]])
        checkpoint = run.checkpoint()
    other = MapStateDescriptor("rules", Types.STRING(), Types.STRING())
    with pytest.raises(IncompatibleStateError, match="operator=apply state=rules"):
        SlotRun(tmp_path, rules_program(descriptors=(other,)), 1, restore=checkpoint)
    renamed = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
    with pytest.raises(IncompatibleStateError, match=r"states=\['rules'\] declared=\['limits'\]"):
        SlotRun(tmp_path, rules_program(descriptors=(renamed,)), 1, restore=checkpoint)


class Plain(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda a, b: a.connect(b).process(Enrich()), "expected a CoProcessFunction"),
        (
            lambda a, b: a.key_by(lambda v: v).connect(b.key_by(lambda v: v)).process(Sum()),
            "expected a KeyedCoProcessFunction",
        ),
        (
            lambda a, b: a.connect(b.broadcast(RULES)).process(Apply()),
            "expected a BroadcastProcessFunction",
        ),
        (
            lambda a, b: a.key_by(lambda v: v).connect(b.broadcast(RULES)).process(Journal()),
            "expected a KeyedBroadcastProcessFunction",
        ),
        (lambda a, b: a.key_by(lambda v: v).broadcast(RULES), "before key_by"),
        (lambda a, b: b.broadcast(RULES, RULES), "two broadcast states have one name"),
        (lambda a, b: a.connect(environment().from_collection([1])), "two environments"),
    ],
)
def test_a_function_of_the_wrong_kind_is_refused_where_it_is_given(build, words):
    env = environment()
    with pytest.raises(InvalidProgramError, match=words):
        build(*two_sources(env))


class SetsTimer(ProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)


def test_a_timer_without_a_key_is_refused(tmp_path):
    env = environment()
    collect(env.from_collection([0], Types.LONG()).rebalance().process(SetsTimer()))
    with (
        SlotRun(tmp_path, env.program.pending(), 1) as run,
        pytest.raises(UserCodeError, match="timers belong to keys"),
    ):
        run.epoch([[1]])
