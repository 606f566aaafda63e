"""Operators that do not run in all slots of the job, over restarts and rescales."""

from __future__ import annotations

import pytest

from headrace.common import Types
from headrace.datastream import (
    CheckpointedFunction,
    KeyedProcessFunction,
    MapFunction,
    StreamExecutionEnvironment,
)
from headrace.datastream.state import ListStateDescriptor, ValueStateDescriptor
from runtime_tests.slot.slot_run import SlotRun, collect


class Count(KeyedProcessFunction):
    """Tells in which slot a key lives, and how often it has been seen."""

    def open(self, runtime_context):
        self.slot = runtime_context.get_index_of_this_subtask()
        self.slots = runtime_context.get_number_of_parallel_subtasks()
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield (value, self.slot, self.slots, self.count.value())


class Total(MapFunction, CheckpointedFunction):
    """Adds up whatever comes, in one place."""

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("total", Types.LONG()))
        self.total = sum(self.state.get())

    def snapshot_state(self, context):
        self.state.update([self.total])

    def map(self, value):
        self.total += 1
        return ("total", self.total)


def program(keyed_parallelism, total_parallelism=1):
    env = StreamExecutionEnvironment.get_execution_environment()
    stream = env.from_collection([0], Types.LONG()).key_by(lambda value: value, Types.LONG())
    counted = stream.process(Count()).uid("count").set_parallelism(keyed_parallelism)
    collect(counted, "counts")
    collect(counted.map(Total()).uid("total").set_parallelism(total_parallelism), "totals")
    return env.program.pending()


def split(output):
    counts = [row for row in output if row[0] != "total"]
    return counts, [row[1] for row in output if row[0] == "total"]


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
@pytest.mark.parametrize(
    "walk",
    [
        [(4, 2), (4, 3), (4, 1)],  # the operator's parallelism changes, the job's does not
        [(4, 2), (1, 2), (8, 2)],  # the other way round; 2 is more than the job has in between
        [(2, 2), (3, 3), (3, 9)],
    ],
    ids=str,
)
def test_state_follows_the_operators_own_parallelism(tmp_path, backend, walk):
    keys = list(range(60))
    checkpoint = None
    for step, (slots, own) in enumerate(walk, start=1):
        effective = min(slots, own)
        with SlotRun(tmp_path, program(own), slots, restore=checkpoint, backend=backend) as run:
            counts, totals = split(run.epoch([keys[:30], keys[30:]]))
            assert [(effective, step)] * 60 == [row[2:] for row in counts]
            assert set(range(effective)) == {row[1] for row in counts}
            assert list(range(60 * (step - 1) + 1, 60 * step + 1)) == sorted(totals)
            checkpoint = run.checkpoint()
            owners = {
                handle.slot for slot in checkpoint.slots for handle in slot.keyed if handle.files
            }
            assert owners <= set(range(effective))


def test_functions_are_opened_in_their_slots_alone(tmp_path):
    with SlotRun(tmp_path, program(2), 4) as run:
        opened = [
            [o.uid for o in slot.graph.operators() if hasattr(o.function, "slot")]
            for slot in run.slots
        ]
    assert [["count"], ["count"], [], []] == opened


def test_operator_state_stays_in_its_slots_while_its_own_parallelism_stays(tmp_path):
    with SlotRun(tmp_path, program(3, total_parallelism=2), 4) as run:
        run.epoch([list(range(50))])
        checkpoint = run.checkpoint()
    with SlotRun(tmp_path, program(3, total_parallelism=2), 5, restore=checkpoint) as run:
        totals = [
            operator.function.total
            for slot in run.slots
            for operator in slot.graph.operators()
            if operator.uid == "total" and hasattr(operator.function, "total")
        ]
    stored = [
        handle.slot
        for slot in checkpoint.slots
        for handle in slot.operator
        if handle.operator_uid == "total"
    ]
    assert ([0, 1], 2, 50) == (stored, len(totals), sum(totals))
