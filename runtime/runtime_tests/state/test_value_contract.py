"""Keyed values on every backend: reading, writing, isolation, cache (B7, B13, B14, C12, T27)."""

import dataclasses
import random
import sys

import pytest

from headrace.errors import InternalError, UserCodeError
from headrace.keygroups import KeyGroupRange
from headrace.serialization.row import Row
from headrace.serialization.types import (
    BYTES,
    INT,
    LONG,
    PICKLED,
    STRING,
    ClassType,
    ListType,
    MapType,
    RowType,
    TupleType,
)

from .bench_of_state import MAX_PARALLELISM

TINY_CACHE = {"headrace.state.cache.fraction": "0.001"}
"""16 KiB, room for some forty entries: most accesses miss."""

SMALL_CACHE = {"headrace.state.cache.fraction": "0.02"}


def test_an_unset_value_is_none(make_bench) -> None:
    bench = make_bench()
    state = bench.values()
    bench.select("a")
    assert state.value() is None


def test_a_value_is_read_back_before_and_after_a_flush(make_bench) -> None:
    bench = make_bench()
    bench.put({"a": 1, "b": 2})
    assert bench.read("abc") == {"a": 1, "b": 2}
    bench.backend.flush()
    bench.put({"a": 3})
    assert bench.read("abc") == {"a": 3, "b": 2}


def test_a_cleared_value_is_none_and_its_row_is_gone(make_bench) -> None:
    bench = make_bench()
    bench.put({"a": 1, "b": 2})
    assert len(bench.rows("count")) == 2
    for key in "ab":
        bench.select(key)
        bench.values().clear()
    assert bench.read("ab") == {}
    assert bench.rows("count") == []


def test_many_short_lived_keys_leave_no_row_behind(make_bench) -> None:
    bench = make_bench(options=TINY_CACHE)
    state = bench.values()
    for number in range(2000):
        bench.select(f"key-{number}")
        state.update(number)
        state.clear()
    assert bench.rows("count") == []


def test_states_of_one_operator_do_not_mix(make_bench) -> None:
    bench = make_bench()
    bench.put({"a": 1}, "one")
    bench.put({"a": 2}, "two")
    bench.put({"a": 3}, "default")
    assert [bench.read("a", name)["a"] for name in ("one", "two", "default")] == [1, 2, 3]
    assert bench.read("a", "three") == {}


def test_one_key_never_sees_anothers_value(make_bench) -> None:
    bench = make_bench(keys=TupleType((STRING, STRING)))
    keys = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("ab", "c\x00")]
    bench.put({key: number for number, key in enumerate(keys)})
    bench.backend.flush()
    assert bench.read(keys) == {key: number for number, key in enumerate(keys)}
    bench.select(keys[0])
    bench.values().clear()
    assert bench.read(keys) == {key: number for number, key in enumerate(keys) if number}


def test_keys_equal_in_python_but_of_other_types_have_their_own_state(make_bench) -> None:
    bench = make_bench(keys=PICKLED)
    state = bench.values()
    keys = [1, 1.0, True, "1", None, (1,), (1.0,)]
    for number, key in enumerate(keys):
        bench.select(key)
        state.update(number)
    bench.backend.flush()
    found = []
    for key in keys:
        bench.select(key)
        found.append(state.value())
    assert found == list(range(len(keys)))


@pytest.mark.parametrize("options", [TINY_CACHE, {}], ids=["tiny", "roomy"])
@pytest.mark.parametrize("seed", range(3))
def test_random_reads_writes_and_clears_agree_with_a_dict(
    make_bench, options: dict[str, str], seed: int
) -> None:
    rng = random.Random(seed)
    bench = make_bench(options=options)
    state = bench.values()
    model: dict[str, int] = {}
    for step in range(6000):
        key = f"key-{rng.randrange(300)}"
        bench.select(key)
        match rng.randrange(10):
            case 0:
                state.clear()
                model.pop(key, None)
            case 1 if step % 7 == 0:
                bench.backend.flush()
            case 2 if step % 7 == 0:
                bench.backend.maintain()
            case 3 | 4 | 5:
                state.update(step)
                model[key] = step
            case _:
                assert state.value() == model.get(key)
    assert bench.read(f"key-{number}" for number in range(300)) == model


def test_a_tiny_cache_stays_tiny(make_bench) -> None:
    bench = make_bench(options=SMALL_CACHE)
    bench.put({f"key-{number}": number for number in range(5000)})
    metrics = bench.backend.metrics()
    assert metrics["stateCacheBytes"] <= metrics["stateCacheBudgetBytes"]
    assert bench.read([f"key-{number}" for number in range(5000)]) == {
        f"key-{number}": number for number in range(5000)
    }


@pytest.mark.parametrize(
    ("type_", "value"),
    [(BYTES, b"x" * 1000), (STRING, "x" * 1000), (STRING, "\U0001f600" * 250)],
    ids=["bytes", "text", "wide text"],
)
def test_large_texts_and_bytes_fill_the_cache_and_no_more_than_it(make_bench, type_, value) -> None:
    bench = make_bench(options=SMALL_CACHE)
    state = bench.values("text", type_)
    keys = [f"key-{number}" for number in range(2000)]
    for number, key in enumerate(keys):
        bench.select(key)
        state.update(value)
        if number % 500 == 0:
            bench.backend.flush()
    metrics = bench.backend.metrics()
    budget = metrics["stateCacheBudgetBytes"]
    held = metrics["stateCacheEntries"] * sys.getsizeof(value)
    assert budget / 4 < held < budget


def test_values_that_grow_under_their_keys_do_not_outgrow_the_cache(make_bench) -> None:
    bench = make_bench(options=SMALL_CACHE)
    state = bench.values("items", ListType(STRING))
    for step in range(40):
        for key in range(20):
            bench.select(f"key-{key}")
            state.update(["x" * 1000] * step)
    bench.backend.maintain()
    metrics = bench.backend.metrics()
    assert metrics["stateCacheBytes"] <= metrics["stateCacheBudgetBytes"]
    bench.select("key-7")
    assert len(state.value()) == 39


@dataclasses.dataclass
class Basket:
    items: list[str]


@pytest.mark.parametrize(
    ("declared", "make", "change"),
    [
        (ListType(STRING), lambda: ["a"], lambda value: value.append("b")),
        (MapType(STRING, LONG), lambda: {"a": 1}, lambda value: value.update(b=2)),
        (RowType(("a",), (LONG,)), lambda: Row(a=1), lambda value: value.__setitem__("a", 2)),
        (ClassType(Basket), lambda: Basket(["a"]), lambda value: value.items.append("b")),
        (PICKLED, lambda: {"a": [1]}, lambda value: value["a"].append(2)),
        (
            TupleType((ListType(LONG),)),
            lambda: ([1],),
            lambda value: value[0].append(2),
        ),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
@pytest.mark.parametrize("flushed", [False, True])
def test_changing_an_object_in_place_changes_no_state(
    make_bench, declared, make, change, flushed: bool
) -> None:
    """T27: the same on every backend, in the cache or out of it."""
    bench = make_bench()
    state = bench.values("mutable", declared)
    bench.select("a")
    handed_in = make()
    state.update(handed_in)
    if flushed:
        bench.backend.flush()
    change(handed_in)
    assert state.value() == make()
    change(state.value())
    assert state.value() == make()
    bench.backend.flush()
    assert state.value() == make()
    changed = state.value()
    change(changed)
    state.update(changed)
    assert state.value() == changed


def test_none_is_refused_as_a_value(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    for state in (bench.values(), bench.values("pickled", PICKLED)):
        with pytest.raises(TypeError, match="call clear\\(\\)"):
            state.update(None)
        assert state.value() is None


@pytest.mark.parametrize(
    ("declared", "value"),
    [(LONG, "x"), (INT, 2**31), (ListType(LONG), ["x"]), (TupleType((LONG,)), ("x",))],
)
def test_a_value_of_another_type_is_refused_by_update(make_bench, declared, value) -> None:
    bench = make_bench()
    bench.select("a")
    state = bench.values("typed", declared)
    with pytest.raises(TypeError, match="declared"):
        state.update(value)
    assert state.value() is None


def test_a_value_that_shows_its_fault_only_when_written_names_state_and_key(make_bench) -> None:
    bench = make_bench()
    state = bench.values("name", STRING)
    bench.select("a")
    state.update("\ud800")
    with pytest.raises(UserCodeError, match="state=name key='a'"):
        bench.backend.flush()


@pytest.mark.parametrize("access", ["value", "update", "clear"])
def test_a_key_of_another_slots_key_group_is_refused(make_bench, access: str) -> None:
    """T11: wherever rows go astray, state says so."""
    bench = make_bench(key_groups=KeyGroupRange(0, 7))
    state = bench.values()
    bench.select("a", key_group=8)
    with pytest.raises(InternalError, match=r"key_group=8 owned=0\.\.7"):
        state.update(1) if access == "update" else getattr(state, access)()


def test_a_registered_state_is_the_same_object_every_time(make_bench) -> None:
    bench = make_bench()
    assert bench.values() is bench.values()
    assert bench.timers() is bench.timers()


def test_every_key_group_can_hold_state(make_bench) -> None:
    bench = make_bench()
    state = bench.values()
    for group in range(MAX_PARALLELISM):
        bench.select("same", key_group=group)
        bench.backend.context.cache_key = ("same", group)
        state.update(group)
    assert [row[:2] for row, _ in bench.rows("count")] == [
        group.to_bytes(2, "big") for group in range(MAX_PARALLELISM)
    ]


def test_a_closed_backend_can_be_closed_again(make_bench) -> None:
    bench = make_bench()
    bench.put({"a": 1})
    bench.backend.close()
    bench.backend.close()
