"""State of windows on every backend: one entry for each (key, namespace) (C5, C7, C17, G10)."""

import pytest

from headrace.errors import IncompatibleStateError
from headrace.keygroups import key_group_range_of_slot
from headrace.serialization.types import LONG, ListType, TupleType
from headrace.state.access import StateTraits, TimeToLive
from headrace.state.rows import parse_state_row, parse_window_namespace, window_namespace

from .bench_of_state import MAX_PARALLELISM, one_key_per_group
from .test_folding_contract import MEAN, Mean, add_numbers

WINDOWS = StateTraits(namespaced=True)
ONE, TWO, THREE = (window_namespace(start, start + 60_000) for start in (-60_000, 0, 60_000))


def states(bench, traits=WINDOWS):
    """Every kind of state, each with a way to add a number and to read what there is."""
    total = bench.reducing(add_numbers, traits=traits)
    mean = bench.aggregating(Mean(), type_=MEAN, traits=traits)
    items, entries = bench.lists(traits=traits), bench.maps(traits=traits)
    value = bench.values(traits=traits)
    return {
        "value": (value, value.update, value.value),
        "list": (items, items.add, lambda: sum(items.get()) if items.get() else None),
        "map": (entries, lambda number: entries.put("x", number), lambda: entries.get("x")),
        "reducing": (total, total.add, total.get),
        "aggregating": (mean, mean.add, mean.get),
    }


KINDS = ["value", "list", "map", "reducing", "aggregating"]


@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_a_key_are_apart(make_bench, kind: str) -> None:
    bench = make_bench()
    state, add, read = states(bench)[kind]
    for number, (key, window) in enumerate([("a", ONE), ("a", TWO), ("b", ONE)], 1):
        bench.enter(key, window)
        add(number)
    for _ in range(2):
        found = []
        for key, window in [("a", ONE), ("a", TWO), ("b", ONE), ("b", TWO)]:
            bench.enter(key, window)
            found.append(read())
        assert found == [1, 2, 3, None]
        bench.evict()
    bench.enter("a", ONE)
    state.clear()
    assert read() is None
    bench.enter("a", TWO)
    assert read() == 2


def test_state_of_keys_and_of_windows_is_used_side_by_side(make_bench) -> None:
    bench = make_bench()
    plain, windows = bench.values("plain"), bench.values("windows", traits=WINDOWS)
    bench.enter("a", ONE)
    plain.update(1)
    windows.update(2)
    bench.backend.namespace_context.enter(bench.backend.context, TWO)
    assert (plain.value(), windows.value()) == (1, None)
    bench.backend.namespace_context.enter(bench.backend.namespace_context, ONE)
    assert (plain.value(), windows.value()) == (1, 2)


def test_rows_of_a_key_sort_by_window(make_bench) -> None:
    bench = make_bench()
    state = bench.values(traits=WINDOWS)
    times = [(0, 10), (-10, 0), (5, 7), (-(2**63), 0), (2**62, 2**63 - 1)]
    for number, window in enumerate(times):
        bench.enter("a", window_namespace(*window))
        state.update(number)
    namespaces = [parse_state_row(row)[2] for row, _ in bench.rows("count")]
    assert [parse_window_namespace(namespace) for namespace in namespaces] == sorted(times)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fired_window_leaves_no_row(make_bench, kind: str) -> None:
    """C17, T26."""
    bench = make_bench()
    state, add, _ = states(bench)[kind]
    for window in (ONE, TWO):
        bench.enter("a", window)
        add(1)
    bench.evict()
    for window in (ONE, TWO):
        bench.enter("a", window)
        state.clear()
    name = {"value": "count", "list": "items", "map": "entries"}.get(kind)
    name = name or {"reducing": "total", "aggregating": "mean"}[kind]
    assert bench.rows(name) == []


@pytest.mark.parametrize("ttl", [None, TimeToLive(1000)], ids=["forever", "expiring"])
@pytest.mark.parametrize(
    ("kind", "expected"), [("list", [1, 2, 4, 8]), ("reducing", 15), ("aggregating", 3.75)]
)
def test_merging_windows_moves_what_they_hold(make_bench, kind: str, expected, ttl) -> None:
    bench = make_bench()
    state, add, _ = states(bench, StateTraits(ttl, namespaced=True))[kind]
    for window, numbers in ((ONE, (1,)), (TWO, (2, 4)), (THREE, (8,))):
        bench.enter("a", window)
        for number in numbers:
            add(number)
        bench.evict()
    bench.enter("b", TWO)
    add(100)
    bench.enter("a", TWO)
    state.merge_namespaces(ONE, [TWO, THREE])
    assert state.get() == expected
    bench.evict()
    bench.enter("a", ONE)
    assert state.get() == expected
    for window in (TWO, THREE):
        bench.enter("a", window)
        assert not state.get()
    bench.enter("b", TWO)
    assert state.get() in (100, [100])


def test_merging_into_a_window_without_state_moves_it(make_bench) -> None:
    bench = make_bench()
    total = bench.reducing(add_numbers, traits=WINDOWS)
    bench.enter("a", TWO)
    total.add(5)
    total.merge_namespaces(ONE, [TWO, THREE])
    assert total.get() == 5
    assert len(bench.rows("total")) == 1


@pytest.mark.parametrize("parallelism", [1, 3])
def test_windows_survive_a_rescale(make_bench, parallelism: int) -> None:
    keys = one_key_per_group()
    bench = make_bench()
    items, timers = bench.lists(traits=WINDOWS), bench.timers(namespaced=True)
    for number, key in enumerate(keys):
        for window in (ONE, TWO):
            bench.enter(key, window)
            items.add(number)
            timers.register(number)
    source = bench.freeze()
    fired = []
    for slot in range(parallelism):
        owned = key_group_range_of_slot(slot, parallelism, MAX_PARALLELISM)
        restored = make_bench(key_groups=owned, sources=[source])
        items = restored.lists(traits=WINDOWS)
        for timer in restored.timers(namespaced=True).due(100):
            restored.enter(timer.key, timer.namespace)
            assert items.get() == [timer.timestamp_ms]
            fired.append((timer.timestamp_ms, timer.key, timer.namespace))
    expected = [(n, key, window) for n, key in enumerate(keys) for window in (ONE, TWO)]
    assert sorted(fired) == sorted(expected)


def test_timers_of_one_key_and_time_differ_by_window(make_bench) -> None:
    """B16: equal timers are one timer; those of two windows are two."""
    bench = make_bench()
    timers = bench.timers(namespaced=True)
    for window in (TWO, ONE, TWO):
        bench.enter("a", window)
        timers.register(5)
    bench.enter("b", ONE)
    timers.register(5)
    timers.delete(5)
    fired = [(timer.key, timer.namespace) for timer in timers.due(5)]
    assert fired == [("a", ONE), ("a", TWO)]


def test_a_state_of_keys_does_not_become_one_of_windows(make_bench) -> None:
    bench = make_bench()
    bench.values("x")
    with pytest.raises(IncompatibleStateError, match="became one of windows"):
        bench.values("x", traits=WINDOWS)
    restored = make_bench(sources=[bench.freeze()])
    with pytest.raises(IncompatibleStateError, match="became one of windows"):
        restored.values("x", traits=WINDOWS)


def test_values_of_a_mutable_type_are_apart_too(make_bench) -> None:
    bench = make_bench(options={"headrace.state.cache.fraction": "0.001"})
    for type_, make in ((ListType(LONG), lambda n: [n]), (TupleType((LONG,)), lambda n: (n,))):
        state = bench.values(str(type_), type_, WINDOWS)
        for number in range(300):
            bench.enter(f"key-{number % 20}", window_namespace(number, number))
            state.update(make(number))
        for number in range(300):
            bench.enter(f"key-{number % 20}", window_namespace(number, number))
            assert state.value() == make(number)
