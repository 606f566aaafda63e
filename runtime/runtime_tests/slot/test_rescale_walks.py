"""Walks of parallelism over all kinds of state, with one record for every key group (F1-F5)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from headrace.common import Types
from headrace.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from headrace.keygroups import key_group_of_hash, slot_of_key_group
from runtime_tests.kill.ledger import MAX_PARALLELISM, one_key_a_group
from runtime_tests.slot.slot_run import SlotRun, collect

WALKS = [(1, 2, 3, 2, 1), (2, 4, 8, 3)]


class Everything(KeyedProcessFunction, CheckpointedFunction):
    """Counts records of a key in every kind of state and tells where it lives."""

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.mine = store.get_list_state(ListStateDescriptor("mine", Types.STRING()))

    def snapshot_state(self, context):
        pass

    def open(self, runtime_context):
        self.slot = runtime_context.get_index_of_this_subtask()
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
        self.map = runtime_context.get_map_state(
            MapStateDescriptor("map", Types.LONG(), Types.STRING())
        )

    def process_element(self, value, ctx):
        count = (self.value.value() or 0) + 1
        self.value.update(count)
        self.list.add(count)
        self.map.put(count, value)
        if count == 1:
            self.mine.add(value)
        # Due one epoch later: another slot may fire it.
        ctx.timer_service().register_processing_time_timer(
            ctx.timer_service().current_processing_time() + 1
        )

    def on_timer(self, timestamp, ctx):
        count = self.value.value()
        yield (
            ctx.get_current_key(),
            self.slot,
            count,
            list(self.list.get()) == list(range(1, count + 1)),
            dict(self.map.items()) == dict.fromkeys(range(1, count + 1), ctx.get_current_key()),
        )


def program():
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([""], Types.STRING()).key_by(lambda key: key, Types.STRING())
    collect(keyed.process(Everything()).uid("everything"))
    return env.program.pending()


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
@pytest.mark.parametrize("walk", WALKS, ids=str)
def test_every_key_group_goes_on_in_its_new_slot_and_nowhere_else(tmp_path, backend, walk):
    keys = one_key_a_group()
    hash64 = Types.STRING().key_serializer().hash64
    groups = [key_group_of_hash(hash64(key), MAX_PARALLELISM) for key in keys]
    assert list(range(MAX_PARALLELISM)) == groups

    graph = program()
    with SlotRun(tmp_path, graph, walk[0], backend=backend) as run:
        assert [] == run.epoch([list(keys)])
        checkpoint = run.checkpoint()
    for step, (_, parallelism) in enumerate(pairwise(walk), start=1):
        with SlotRun(tmp_path, graph, parallelism, restore=checkpoint, backend=backend) as run:
            found = run.epoch([[]])
            assert sorted(
                (key, slot_of_key_group(group, parallelism, MAX_PARALLELISM), step, True, True)
                for key, group in zip(keys, groups, strict=True)
            ) == sorted(found)
            kept = [
                element
                for slot in run.slots
                for operator in slot.graph.operators()
                if operator.uid == "everything"
                for element in operator.function.mine.get()
            ]
            assert sorted(keys) == sorted(kept)
            assert [] == run.epoch([list(keys)])
            checkpoint = run.checkpoint()
