"""A job's keyed state against plain Python, over crashes, restores and changes of parallelism.

Hypothesis drives every kind of state, timers, expiry, windows, checkpoints, crashes and rescales on
both backends at once (`job_state`); restores read native files, those of the other backend, and
canonical ones. ``HEADRACE_MODEL_EXAMPLES`` sets how many runs the long test makes (500),
``--hypothesis-seed`` repeats a run.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from .job_state import KEYS, TTL_MS, WINDOWS, JobState

EXAMPLES = int(os.environ.get("HEADRACE_MODEL_EXAMPLES", "500"))
RESTORES_MAX = (1, 1, 2)
"""In one run, one of these: opening databases is most of the time."""

keys = st.sampled_from(KEYS)
windows = st.sampled_from(WINDOWS)
numbers = st.integers(-(2**63), 2**63 - 1)
small = st.integers(0, 12)
times = st.integers(0, 20)
parallelisms = st.sampled_from([1, 1, 1, 1, 2, 3])
forms = st.sampled_from(["native", "native", "native", "other", "canonical"])
texts = st.lists(st.sampled_from(["", "a", "x" * 300, "y" * 1500]), max_size=4)


class StateMachine(RuleBasedStateMachine):
    """What may happen to a job's state."""

    @initialize(
        parallelism=parallelisms,
        cache_fraction=st.sampled_from([0.0, 0.0005, 0.1]),
        restores=st.sampled_from(RESTORES_MAX),
    )
    def start(self, parallelism: int, cache_fraction: float, restores: int) -> None:
        self.job = JobState(parallelism, cache_fraction)
        self.restores_left = restores

    # --- state

    @rule(key=keys, number=numbers)
    def update(self, key, number) -> None:
        self.job.call("count", key, lambda s: s.update(number))
        self.job.model.count[key] = number

    @rule(key=keys, number=small)
    def change_a_copy(self, key, number) -> None:
        def append(state):
            value = [*(state.value() or []), number]
            state.update(value)
            value.append("never handed in")

        self.job.call("pair", key, append)
        self.job.model.pair.setdefault(key, []).append(number)

    @rule(key=keys, state=st.sampled_from(["count", "pair", "items", "entries", "total", "seen"]))
    def clear(self, key, state) -> None:
        self.job.every_backend(lambda bench: bench.backend.flush())
        self.job.call(state, key, lambda s: s.clear())
        getattr(self.job.model, state).pop(key, None)

    @rule(key=keys, elements=texts)
    def add_all(self, key, elements) -> None:
        self.job.call("items", key, lambda s: s.add_all(elements))
        self.job.model.items.setdefault(key, []).extend(elements)

    @rule(key=keys, elements=texts, refill=st.booleans())
    def replace_list(self, key, elements, refill) -> None:
        """Stored chunks, cleared and perhaps filled again before they are removed."""
        self.job.every_backend(lambda bench: bench.backend.flush())
        self.job.call("items", key, lambda s: s.clear())
        if refill:
            self.job.call("items", key, lambda s: s.update(elements))
        self.job.model.items[key] = list(elements) if refill else []

    @rule(key=keys, user_key=small, value=st.none() | numbers)
    def put(self, key, user_key, value) -> None:
        self.job.call("entries", key, lambda s: s.put(user_key, value))
        self.job.model.entries.setdefault(key, {})[user_key] = value

    @rule(key=keys, first=numbers, count=st.sampled_from([70, 300]))
    def put_many(self, key, first, count) -> None:
        entries = {number % 2**62: first for number in range(first, first + count)}
        self.job.call("entries", key, lambda s: s.put_all(entries))
        self.job.model.entries.setdefault(key, {}).update(entries)

    @rule(key=keys, user_key=small)
    def get_and_remove(self, key, user_key) -> None:
        entries = self.job.model.entries.get(key, {})
        assert self.job.call("entries", key, lambda s: s.get(user_key)) == entries.get(user_key)
        assert self.job.call("entries", key, lambda s: s.contains(user_key)) == (
            user_key in entries
        )
        self.job.call("entries", key, lambda s: s.remove(user_key))
        entries.pop(user_key, None)

    @rule(key=keys, number=small)
    def fold(self, key, number) -> None:
        self.job.call("total", key, lambda s: s.add(number))
        self.job.model.total[key] = self.job.model.total.get(key, 0) + number

    @rule(key=keys, number=small)
    def touch_expiring(self, key, number) -> None:
        model, now = self.job.model, self.job.clock.time_ms
        self.job.call("seen", key, lambda s: s.update(number))
        self.job.call("flags", key, lambda s: s.put(number, number))
        self.job.call("recent", key, lambda s: s.add(number))
        model.seen[key] = (now, number)
        model.flags.setdefault(key, {})[number] = (now, number)
        model.recent.setdefault(key, []).append((now, number))

    @rule(passed=st.sampled_from([1, TTL_MS // 2, TTL_MS]))
    def time_passes(self, passed) -> None:
        self.job.clock.time_ms += passed

    @rule(key=keys, number=small, looks=st.integers(1, 3))
    def look_at_what_expires(self, key, number, looks) -> None:
        self.touch_expiring(key, number)
        for _ in range(looks):
            self.job.clock.time_ms += TTL_MS // 2
            self.job.check(key)

    # --- windows and timers

    @rule(key=keys, window=windows, number=small)
    def add_to_window(self, key, window, number) -> None:
        self.job.call("panes", key, lambda s: s.add(number), window)
        self.job.model.panes.setdefault((key, window), []).append(number)

    @rule(key=keys, window=windows)
    def fire_window(self, key, window) -> None:
        expected = self.job.model.panes.pop((key, window), [])
        assert self.job.call("panes", key, lambda s: s.get(), window) == expected
        self.job.call("panes", key, lambda s: s.clear(), window)

    @rule(key=keys, into=windows, source=windows)
    def merge_windows(self, key, into, source) -> None:
        if into != source:
            self.job.call("panes", key, lambda s: s.merge_namespaces(into, [source]))
            moved = self.job.model.panes.pop((key, source), [])
            self.job.model.panes.setdefault((key, into), []).extend(moved)

    @rule(key=keys, time=times)
    def register(self, key, time) -> None:
        self.job.call("timers", key, lambda queue: queue.register(time))
        self.job.model.timers.add((time, key))

    @rule(key=keys, time=times)
    def delete(self, key, time) -> None:
        self.job.call("timers", key, lambda queue: queue.delete(time))
        self.job.model.timers.discard((time, key))

    @rule(time=times)
    def fire(self, time) -> None:
        self.job.fire(time)

    # --- the life of a job

    @rule()
    def epoch_ends(self) -> None:
        self.job.every_backend(lambda bench: bench.backend.maintain())

    @rule(forget=st.booleans())
    def flush(self, forget) -> None:
        self.job.every_backend(lambda bench: bench.evict() if forget else bench.backend.flush())

    @rule()
    def checkpoint(self) -> None:
        self.job.checkpoint()

    @precondition(lambda self: self.restores_left > 0)
    @rule(parallelism=parallelisms, form=forms)
    def crash(self, parallelism, form) -> None:
        self.restores_left -= 1
        self.job.restore(parallelism, form)

    @precondition(lambda self: self.restores_left > 0)
    @rule(parallelism=parallelisms, form=forms)
    def rescale(self, parallelism, form) -> None:
        self.restores_left -= 1
        self.job.checkpoint()
        self.job.restore(parallelism, form)

    @rule(key=keys, from_storage=st.booleans())
    def compare(self, key, from_storage) -> None:
        if from_storage:
            self.job.every_backend(lambda bench: bench.evict())
        self.job.check(key)

    def teardown(self) -> None:
        if hasattr(self, "job"):
            try:
                for key in KEYS:
                    self.job.check(key)
            finally:
                self.job.close()


def machine(max_examples: int, *markers: pytest.MarkDecorator, steps: int = 30):
    case = type(StateMachine.__name__, (StateMachine,), {}).TestCase
    case.settings = settings(
        max_examples=max_examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    )
    for marker in markers:
        case = marker(case)
    return case


TestAFewRuns = machine(25, pytest.mark.property)
TestManyRuns = machine(EXAMPLES, pytest.mark.property, pytest.mark.slow)
