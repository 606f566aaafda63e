"""State of functions themselves: list, union list, hooks, over restarts and rescales (B17, B18)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.common import Types
from headrace.common.typeinfo import TypeInformation
from headrace.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from headrace.errors import IncompatibleStateError, InvalidProgramError, UserCodeError
from runtime_tests.slot.slot_run import SlotRun, collect


class Remember(MapFunction, CheckpointedFunction):
    """Keeps every value that it has seen, on the heap between checkpoints."""

    def __init__(self, *, union: bool = False, element: TypeInformation | None = None) -> None:
        self.union = union
        self.element = element or Types.LONG()

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        get = store.get_union_list_state if self.union else store.get_list_state
        self.state = get(ListStateDescriptor("seen", self.element))
        self.seen = list(self.state.get())
        self.restored = (context.is_restored(), context.get_restored_checkpoint_id())

    def open(self, runtime_context):
        self.opened_after_state = self.seen is not None

    def snapshot_state(self, context):
        self.state.update(self.seen)
        self.snapshots = (*getattr(self, "snapshots", ()), context.get_checkpoint_id())

    def map(self, value):
        self.seen.append(value)
        return value


def program_of(function, *, uid="remember", keyed=False):
    """Return a source with the function right behind it."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([0], Types.LONG())
    if keyed:
        stream = stream.key_by(lambda value: value, Types.LONG())
    collect(stream.map(function, Types.LONG()).uid(uid))
    return env.program.pending()


def functions_of(run, uid="remember"):
    """Return the function object of each slot."""
    found = []
    for slot in run.slots:
        operator = next(o for o in slot.graph.operators() if o.uid == uid)
        found.append(getattr(operator.function, "wrapped", operator.function))
    return found


def seen_by(run):
    return [sorted(function.seen) for function in functions_of(run)]


def test_a_function_behind_a_source_lives_in_a_slot_and_goes_on_where_it_was(tmp_path):
    program = program_of(Remember())
    with SlotRun(tmp_path, program, 2) as first:
        assert [1, 2, 3, 4] == first.epoch([[1, 2], [3, 4]])
        checkpoint = first.checkpoint()
        first.epoch([[5], [6]])
        before = [[1, 2], [3, 4]]
    with SlotRun(tmp_path, program, 2, restore=checkpoint) as second:
        assert before == seen_by(second)
        assert [(True, 1)] * 2 == [function.restored for function in functions_of(second)]


def test_hooks_come_in_order_and_name_the_checkpoint(tmp_path):
    with SlotRun(tmp_path, program_of(Remember()), 1) as run:
        (function,) = functions_of(run)
        assert (True, (False, None)) == (function.opened_after_state, function.restored)
        run.checkpoint()
        run.checkpoint()
        assert (1, 2) == function.snapshots


@settings(max_examples=30, deadline=None)
@given(
    values=st.lists(st.integers(-(2**40), 2**40), max_size=40),
    walk=st.lists(st.integers(1, 6), min_size=2, max_size=4),
)
def test_no_element_is_lost_or_doubled_by_any_walk_of_parallelism(tmp_path_factory, values, walk):
    directory = tmp_path_factory.mktemp("walk")
    program = program_of(Remember())
    with SlotRun(directory, program, walk[0]) as run:
        run.epoch([values[start::3] for start in range(3)])
        checkpoint = run.checkpoint()
    for parallelism in walk[1:]:
        with SlotRun(directory, program, parallelism, restore=checkpoint) as run:
            found = seen_by(run)
            assert sorted(values) == sorted(value for slot in found for value in slot)
            if checkpoint.parallelism != parallelism:
                sizes = [len(slot) for slot in found]
                assert max(sizes) - min(sizes) <= 1
            checkpoint = run.checkpoint()


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_union_gives_everything_to_everybody(tmp_path, parallelism):
    program = program_of(Remember(union=True))
    with SlotRun(tmp_path, program, 2) as first:
        first.epoch([[1, 2], [3, 4]])
        checkpoint = first.checkpoint()
    with SlotRun(tmp_path, program, parallelism, restore=checkpoint) as second:
        assert [[1, 2, 3, 4]] * parallelism == seen_by(second)


def test_a_function_with_keys_may_keep_both_kinds_of_state(tmp_path):
    program = program_of(Remember(), keyed=True)
    with SlotRun(tmp_path, program, 2, backend="rocksdb") as first:
        first.epoch([list(range(20))])
        checkpoint = first.checkpoint()
    with SlotRun(tmp_path, program, 3, restore=checkpoint, backend="rocksdb") as second:
        assert list(range(20)) == sorted(value for slot in seen_by(second) for value in slot)


class KeyedStateAtInit(KeyedProcessFunction, CheckpointedFunction):
    """Obtains keyed state in ``initialize_state``."""

    def initialize_state(self, context):
        store = context.get_keyed_state_store()
        self.count = store.get_state(ValueStateDescriptor("count", Types.LONG()))

    def snapshot_state(self, context):
        pass

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield self.count.value()


def test_keyed_state_may_be_obtained_before_open(tmp_path):
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([0], Types.LONG()).key_by(lambda value: value, Types.LONG())
    collect(keyed.process(KeyedStateAtInit(), Types.LONG()).uid("count"))
    with SlotRun(tmp_path, env.program.pending(), 2) as run:
        assert [1, 1, 2, 3] == run.epoch([[7, 7, 7, 8]])


def test_elements_follow_a_change_of_their_type(tmp_path):
    with SlotRun(tmp_path, program_of(Remember(element=Types.INT())), 2) as first:
        first.epoch([[1, 2], [3]])
        checkpoint = first.checkpoint()
    program = program_of(Remember(element=Types.DOUBLE()))
    with SlotRun(tmp_path, program, 1, restore=checkpoint) as second:
        assert [[1.0, 2.0, 3.0]] == seen_by(second)
        assert all(type(value) is float for value in seen_by(second)[0])


def test_a_type_that_elements_cannot_become_is_refused_with_both_types(tmp_path):
    with SlotRun(tmp_path, program_of(Remember()), 1) as first:
        first.epoch([[1]])
        checkpoint = first.checkpoint()
    with pytest.raises(IncompatibleStateError, match="operator=remember state=seen") as raised:
        SlotRun(tmp_path, program_of(Remember(element=Types.STRING())), 1, restore=checkpoint)
    assert "stored" in str(raised.value)
    assert "declared" in str(raised.value)


def test_another_mode_of_redistribution_is_refused(tmp_path):
    with SlotRun(tmp_path, program_of(Remember()), 1) as first:
        first.epoch([[1]])
        checkpoint = first.checkpoint()
    with pytest.raises(IncompatibleStateError, match="stored=split declared=union"):
        SlotRun(tmp_path, program_of(Remember(union=True)), 1, restore=checkpoint)


def test_state_that_no_function_asks_for_is_refused_by_name_or_dropped_on_request(tmp_path):
    with SlotRun(tmp_path, program_of(Remember()), 1) as first:
        first.epoch([[1]])
        checkpoint = first.checkpoint()
    plain = program_of(lambda value: value)
    with pytest.raises(IncompatibleStateError, match=r"operator=remember states=\['seen'\]"):
        SlotRun(tmp_path, plain, 1, restore=checkpoint)
    with SlotRun(tmp_path, plain, 1, restore=checkpoint, allow_non_restored_state=True) as second:
        assert [5] == second.epoch([[5]])
        assert [] == [
            handle.name
            for slot in second.checkpoint().slots
            for handle in slot.operator
            if handle.operator_uid == "remember"
        ]


class Clash(Remember):
    def initialize_state(self, context):
        super().initialize_state(context)
        descriptor = MapStateDescriptor("seen", Types.LONG(), Types.LONG())
        context.get_operator_state_store().get_broadcast_state(descriptor)


def test_one_name_is_one_state(tmp_path):
    with pytest.raises(InvalidProgramError, match="different kinds have one name"):
        SlotRun(tmp_path, program_of(Clash()), 1)


class Broken(Remember):
    def __init__(self, hook):
        super().__init__()
        self.hook = hook

    def initialize_state(self, context):
        if self.hook == "initialize_state":
            raise RuntimeError("no luck")
        super().initialize_state(context)

    def snapshot_state(self, context):
        raise RuntimeError("no luck")


@pytest.mark.parametrize("hook", ["initialize_state", "snapshot_state"])
def test_a_hook_that_raises_is_named(tmp_path, hook):
    with (
        pytest.raises(UserCodeError, match=f"{hook} failed: RuntimeError: no luck"),
        SlotRun(tmp_path, program_of(Broken(hook)), 1) as run,
    ):
        run.checkpoint()


def test_large_state_is_warned_of_once(tmp_path, caplog):
    with SlotRun(tmp_path, program_of(Remember(element=Types.STRING())), 1) as run:
        run.epoch([["x" * (1 << 20), "y" * 100]])
        run.checkpoint()
        run.checkpoint()
    warnings = [r for r in caplog.records if "operator state is large" in r.getMessage()]
    assert 1 == len(warnings)


def test_stored_elements_carry_the_snapshot_of_their_type(tmp_path):
    with SlotRun(tmp_path, program_of(Remember()), 1) as run:
        run.epoch([[1]])
        (slot,) = run.checkpoint().slots
    (handle,) = [h for h in slot.operator if h.operator_uid == "remember"]
    assert Types.LONG().value_serializer().snapshot() == handle.serializer
    assert ("split", "seen") == (handle.mode, handle.name)
