"""Timers on every backend: time order, no doubles, deletion, bounded heads (B16, T8)."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import InternalError
from headrace.keygroups import KeyGroupRange
from headrace.serialization.types import LONG
from headrace.state import timers as timers_module

from .bench_of_state import StateBench, as_source


@pytest.fixture
def small_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads of two timers and a small overlay: every test reads on in the rows."""
    monkeypatch.setattr(timers_module, "HEADS_MAX", 0)
    monkeypatch.setattr(timers_module, "HEAD_MIN", 2)
    monkeypatch.setattr(timers_module, "PENDING_MAX", 5)


def in_order(bench: StateBench, timers: set[tuple[int, object]]) -> list[tuple[int, object]]:
    """The order that the contract promises: time, key group, key bytes."""
    serialize = bench.config.key_serializer.serialize
    return sorted(
        timers,
        key=lambda timer: (
            timer[0],
            bench.key_group(timer[1]),
            len(serialize(timer[1])),
            serialize(timer[1]),
        ),
    )


def test_timers_fire_in_time_order_over_all_key_groups(make_bench) -> None:
    bench = make_bench()
    rng = random.Random(3)
    registered = {(rng.randrange(1000), f"key-{rng.randrange(500)}") for _ in range(3000)}
    bench.register(registered)
    assert bench.fire(499) == in_order(bench, {t for t in registered if t[0] <= 499})
    assert bench.fire(499) == []
    assert bench.fire(10_000) == in_order(bench, {t for t in registered if t[0] > 499})


def test_equal_timers_are_one(make_bench) -> None:
    bench = make_bench()
    bench.register([(5, "a"), (5, "a")])
    bench.backend.flush()
    bench.register([(5, "a"), (6, "a")])
    assert bench.fire(10) == [(5, "a"), (6, "a")]


def test_a_timer_is_due_at_its_time_and_not_before(make_bench) -> None:
    bench = make_bench()
    bench.register([(5, "a")])
    assert bench.fire(4) == []
    assert bench.fire(5) == [(5, "a")]


def test_a_timer_in_the_past_fires_at_the_next_occasion(make_bench) -> None:
    bench = make_bench()
    bench.fire(100)
    bench.register([(-7, "a"), (50, "b")])
    assert bench.fire(100) == [(-7, "a"), (50, "b")]


@pytest.mark.parametrize("flushed", [False, True])
def test_a_deleted_timer_does_not_fire(make_bench, flushed: bool) -> None:
    bench = make_bench()
    bench.register([(5, "a"), (5, "b"), (7, "a")])
    if flushed:
        bench.backend.flush()
    bench.select("a")
    bench.timers().delete(5)
    bench.timers().delete(6)
    assert bench.fire(10) == [(5, "b"), (7, "a")]


@pytest.mark.parametrize("flushed", [False, True])
def test_a_timer_deleted_and_registered_again_fires_once(make_bench, flushed: bool) -> None:
    bench = make_bench()
    bench.register([(5, "a")])
    bench.backend.flush()
    bench.select("a")
    bench.timers().delete(5)
    bench.timers().register(5)
    bench.timers().delete(5)
    bench.timers().register(5)
    if flushed:
        bench.backend.flush()
    assert bench.fire(10) == [(5, "a")]
    assert bench.fire(10) == []
    assert make_bench(sources=[bench.freeze()]).fire(10) == []


def test_a_fired_timer_does_not_come_back_with_a_restore(make_bench) -> None:
    bench = make_bench()
    bench.register([(5, "a"), (9, "a")])
    bench.backend.flush()
    assert bench.fire(5) == [(5, "a")]
    restored = make_bench(sources=[bench.freeze()])
    assert restored.fire(100) == [(9, "a")]


def test_timers_registered_while_firing_fire_in_their_place(make_bench) -> None:
    bench = make_bench()
    bench.register([(1, "a"), (10, "b")])
    fired = []
    for timer in bench.timers().due(20):
        fired.append((timer.timestamp_ms, timer.key))
        if timer.timestamp_ms == 1:
            bench.register([(5, "c"), (0, "d"), (30, "e")])
            bench.select("b")
            bench.timers().delete(10)
            bench.timers().register(11)
    assert fired == [(1, "a"), (0, "d"), (5, "c"), (11, "b")]
    assert bench.fire(30) == [(30, "e")]


def test_breaking_off_keeps_the_timers_that_were_not_handed_out(make_bench) -> None:
    bench = make_bench()
    bench.register([(1, "a"), (2, "b"), (3, "c")])
    for timer in bench.timers().due(10):
        if timer.timestamp_ms == 1:
            break
    assert bench.fire(10) == [(2, "b"), (3, "c")]


def test_time_domains_do_not_mix(make_bench) -> None:
    bench = make_bench()
    bench.register([(5, "a")], "_event_timers")
    bench.register([(5, "b")], "_processing_timers")
    assert bench.fire(10, "_processing_timers") == [(5, "b")]
    assert bench.fire(10, "_event_timers") == [(5, "a")]


def test_the_yielded_timer_carries_its_key_and_key_group(make_bench) -> None:
    bench = make_bench(keys=LONG)
    bench.register([(5, 42)])
    (timer,) = bench.timers().due(5)
    assert timer == (5, 42, bench.key_group(42), b"")


@pytest.mark.parametrize("method", ["register", "delete"])
def test_a_timer_of_another_slots_key_group_is_refused(make_bench, method: str) -> None:
    bench = make_bench(key_groups=KeyGroupRange(0, 7))
    queue = bench.timers()
    bench.select("a", key_group=8)
    with pytest.raises(InternalError, match="key_group=8"):
        getattr(queue, method)(5)


@pytest.mark.parametrize("timestamp_ms", [-(2**63), 2**63 - 1])
def test_the_ends_of_time_are_times(make_bench, timestamp_ms: int) -> None:
    bench = make_bench()
    bench.register([(timestamp_ms, "a")])
    bench.backend.flush()
    assert bench.fire(2**63 - 1) == [(timestamp_ms, "a")]


@pytest.mark.parametrize("timestamp_ms", [-(2**63) - 1, 2**63])
def test_a_time_beyond_64_bits_is_refused(make_bench, timestamp_ms: int) -> None:
    bench = make_bench()
    bench.select("a")
    with pytest.raises(ValueError, match="64 bits"):
        bench.timers().register(timestamp_ms)


@pytest.mark.usefixtures("small_heads")
def test_a_million_timers_at_one_time_do_not_fill_the_heads(make_bench) -> None:
    bench = make_bench()
    registered = {(60_000, f"key-{number}") for number in range(2000)}
    bench.register(registered)
    queue = bench.timers()
    assert sum(len(head.rows) for head in queue._heads.values()) <= 2 * len(queue._heads)
    assert len(queue._pending) <= 5
    assert bench.fire(60_000) == in_order(bench, registered)


def test_timers_that_are_deleted_before_they_fire_take_no_memory(make_bench) -> None:
    bench = make_bench()
    queue = bench.timers()
    for number in range(5000):
        bench.select(f"key-{number}")
        queue.register(number)
        queue.delete(number)
    assert len(queue._queue) <= queue._queue_max
    assert queue._pending == {}
    assert list(queue.due(10_000)) == []


@pytest.mark.usefixtures("small_heads")
def test_an_idle_look_reads_no_rows(make_bench) -> None:
    bench = make_bench()
    bench.register([(1000 + number, f"key-{number}") for number in range(200)])
    bench.backend.flush()
    queue = bench.timers()
    queue._rows = None  # any read would fail
    assert list(queue.due(999)) == []


def test_registering_and_firing_between_two_flushes_writes_no_row(make_bench) -> None:
    bench = make_bench()
    queue = bench.timers()
    bench.register([(5, "a"), (6, "b")])
    bench.select("b")
    queue.delete(6)
    assert bench.fire(5) == [(5, "a")]
    assert queue._pending == {}


times = st.integers(-5, 30)
keys = st.sampled_from([f"key-{number}" for number in range(25)])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("register"), times, keys),
        st.tuples(st.just("register"), times, keys),
        st.tuples(st.just("delete"), times, keys),
        st.tuples(st.just("due"), times, keys),
        st.tuples(st.just("flush"), times, keys),
        st.tuples(st.just("restore"), times, keys),
    ),
    max_size=80,
)


@pytest.mark.property
@pytest.mark.usefixtures("small_heads")
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=steps)
def test_any_sequence_of_calls_agrees_with_a_set_of_timers(make_bench, steps) -> None:
    bench = make_bench()
    model: set[tuple[int, object]] = set()
    for call, time, key in steps:
        bench.select(key)
        match call:
            case "register":
                bench.timers().register(time)
                model.add((time, key))
            case "delete":
                bench.timers().delete(time)
                model.discard((time, key))
            case "flush":
                bench.backend.flush()
            case "restore":
                source = as_source(bench.snapshot())
                bench.backend.close()
                bench = make_bench(sources=[source])
            case "due":
                due = {timer for timer in model if timer[0] <= time}
                assert bench.fire(time) == in_order(bench, due)
                model -= due
    assert bench.fire(100) == in_order(bench, model)
    bench.backend.close()
