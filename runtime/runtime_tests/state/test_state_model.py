"""A job's keyed state against plain dictionaries, over crashes and changes of parallelism.

Hypothesis drives slots through writes, timers, checkpoints, crashes and rescales; the model is a
dictionary and a set that are copied at a checkpoint. ``--hypothesis-seed`` repeats a run.
"""

import tempfile
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headrace.keygroups import key_group_range_of_slot
from headrace.serialization.types import LONG, STRING, ListType
from headrace.state.contract import RestoreSource

from .bench_of_state import MAX_PARALLELISM, StateBench, as_source, one_key_per_group

KEYS = one_key_per_group()
keys = st.sampled_from(KEYS)
numbers = st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, 20)
parallelisms = st.sampled_from([1, 2, 3, 5, 16])


class JobState(RuleBasedStateMachine):
    """All slots of one keyed operator."""

    backend_name: ClassVar[str]

    @initialize(parallelism=parallelisms)
    def start(self, parallelism: int) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.sources: list[RestoreSource] = []
        self.values: dict[str, int] = {}
        self.items: dict[str, list[str]] = {}
        self.timers: set[tuple[int, str]] = set()
        self.saved = ({}, {}, set())
        self.open(parallelism)

    def open(self, parallelism: int) -> None:
        self.slots = [
            StateBench.open(
                self.backend_name,
                Path(self.directory.name),
                key_groups=key_group_range_of_slot(slot, parallelism, MAX_PARALLELISM),
                sources=self.sources,
                options={"headrace.state.cache.fraction": "0.0005"},
            )
            for slot in range(parallelism)
        ]
        for slot in self.slots:
            slot.values("value", LONG)
            slot.values("items", ListType(STRING))
            slot.timers()
            slot.backend.finish_registration()

    def at(self, key: str) -> StateBench:
        (slot,) = [slot for slot in self.slots if slot.owns(key)]
        slot.select(key)
        return slot

    @rule(key=keys, number=numbers)
    def update(self, key: str, number: int) -> None:
        self.at(key).values("value", LONG).update(number)
        self.values[key] = number

    @rule(key=keys)
    def clear(self, key: str) -> None:
        self.at(key).values("value", LONG).clear()
        self.values.pop(key, None)

    @rule(key=keys)
    def append(self, key: str) -> None:
        state = self.at(key).values("items", ListType(STRING))
        items = state.value() or []
        items.append(f"item-{len(items)}")
        state.update(items)
        items.append("never handed in")
        self.items[key] = [f"item-{index}" for index in range(len(items) - 1)]

    @rule(key=keys, time=times)
    def register(self, key: str, time: int) -> None:
        self.at(key).timers().register(time)
        self.timers.add((time, key))

    @rule(key=keys, time=times)
    def delete(self, key: str, time: int) -> None:
        self.at(key).timers().delete(time)
        self.timers.discard((time, key))

    @rule(time=times)
    def fire(self, time: int) -> None:
        fired = [timer for slot in self.slots for timer in slot.fire(time)]
        due = {timer for timer in self.timers if timer[0] <= time}
        assert sorted(fired) == sorted(due)
        self.timers -= due

    @rule()
    def checkpoint(self) -> None:
        self.sources = [as_source(slot.snapshot()) for slot in self.slots]
        self.saved = (
            dict(self.values),
            {key: list(items) for key, items in self.items.items()},
            set(self.timers),
        )

    @rule(parallelism=parallelisms)
    def crash(self, parallelism: int) -> None:
        """Fail over, perhaps to another number of slots: back to the last checkpoint."""
        for slot in self.slots:
            slot.backend.close()
        self.values, self.items, self.timers = (
            dict(self.saved[0]),
            {key: list(items) for key, items in self.saved[1].items()},
            set(self.saved[2]),
        )
        self.open(parallelism)

    @invariant()
    def every_key_reads_as_the_model_says(self) -> None:
        for key in KEYS[::5]:
            slot = self.at(key)
            assert slot.values("value", LONG).value() == self.values.get(key)
            assert slot.values("items", ListType(STRING)).value() == self.items.get(key)

    def teardown(self) -> None:
        if hasattr(self, "slots"):
            for slot in self.slots:
                slot.backend.close()
            self.directory.cleanup()


class RocksDBJobState(JobState):
    backend_name = "rocksdb"


class HashmapJobState(JobState):
    backend_name = "hashmap"


def machine(state: type[JobState], max_examples: int):
    case = state.TestCase
    case.settings = settings(
        max_examples=max_examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    return pytest.mark.property(case)


TestRocksDBAgainstTheModel = machine(RocksDBJobState, 12)
TestHashmapAgainstTheModel = machine(HashmapJobState, 40)
