"""Keyed lists on every backend: order, appending without rewriting, clearing (B8, T26, T27)."""

import random

import pytest

from headrace.errors import InternalError, UserCodeError
from headrace.keygroups import KeyGroupRange
from headrace.serialization.types import LONG, PICKLED, STRING, ListType, RowType, TupleType
from headrace.state.list_state import CHUNK_BYTES_MAX, JOINED_AT, TAIL_BYTES_MAX

from .bench_of_state import one_key_per_group

TINY_CACHE = {"headrace.state.cache.fraction": "0.001"}


def test_an_unset_list_is_empty(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    assert bench.lists().get() == []


def test_elements_come_back_in_the_order_in_which_they_were_added(make_bench) -> None:
    bench = make_bench()
    items = bench.lists()
    bench.select("a")
    items.add(3)
    items.add_all([1, 2])
    items.add(3)
    assert items.get() == [3, 1, 2, 3]
    assert list(items) == [3, 1, 2, 3]
    bench.evict()
    items.add(0)
    assert items.get() == [3, 1, 2, 3, 0]
    bench.evict()
    assert items.get() == [3, 1, 2, 3, 0]


def test_update_replaces_and_an_update_with_nothing_clears(make_bench) -> None:
    bench = make_bench()
    items = bench.lists()
    bench.select("a")
    items.add_all(range(1000))
    bench.evict()
    items.update([7, 8])
    assert items.get() == [7, 8]
    bench.evict()
    assert items.get() == [7, 8]
    items.update([])
    assert items.get() == []
    assert bench.rows("items") == []


@pytest.mark.parametrize("size", [1, 20, 5000])
@pytest.mark.parametrize("stored", [False, True])
def test_a_cleared_list_leaves_no_row(make_bench, size: int, stored: bool) -> None:
    bench = make_bench()
    items = bench.lists()
    for key in ("a", "b", "c"):
        bench.select(key)
        items.add_all(range(size))
    if stored:
        bench.evict()
    for key in ("a", "c"):
        bench.select(key)
        items.clear()
        assert items.get() == []
    bench.select("b")
    assert items.get() == list(range(size))
    items.clear()
    assert bench.rows("items") == []


def test_a_list_can_be_filled_again_after_clear(make_bench) -> None:
    bench = make_bench()
    items = bench.lists()
    bench.select("a")
    items.add_all(range(5000))
    bench.evict()
    items.clear()
    items.add_all([1, 2])
    assert items.get() == [1, 2]
    bench.evict()
    assert items.get() == [1, 2]


def test_adding_never_rewrites_what_a_long_list_holds(make_bench) -> None:
    """B8: a flush writes what was added and at most the tail."""
    bench = make_bench()
    items = bench.lists("items", STRING)
    bench.select("a")
    items.add_all(f"element-{number}" for number in range(20_000))
    before = dict(bench.rows("items"))
    written = []
    store = bench.backend._storage.rows("items")
    write = store.write
    store.write = lambda changes: write(written.extend(changes) or changes)
    for number in range(50):
        items.add(f"one more {number}")
        bench.backend.flush()
    assert max(len(value) for _, value in written) < 2 * TAIL_BYTES_MAX
    after = dict(bench.rows("items"))
    sealed = [row for row in before if len(before[row]) > TAIL_BYTES_MAX]
    assert len(sealed) > 10
    assert {row: after[row] for row in sealed} == {row: before[row] for row in sealed}
    assert items.get()[20_000:] == [f"one more {number}" for number in range(50)]


def test_one_large_addition_is_stored_in_rows_of_bounded_size(make_bench) -> None:
    bench = make_bench()
    items = bench.lists("items", STRING)
    bench.select("a")
    elements = [f"element {number}" * 5 for number in range(3000)]
    items.add_all(elements)
    largest = max(len(value) for _, value in bench.rows("items"))
    assert largest < CHUNK_BYTES_MAX + JOINED_AT * len(elements[-1]) * 2
    assert items.get() == elements


def test_chunks_keep_their_order_beyond_256(make_bench) -> None:
    bench = make_bench()
    items = bench.lists("items", STRING)
    bench.select("a")
    text = "x" * (TAIL_BYTES_MAX + 1)
    for number in range(300):
        items.add(f"{number} {text}")
        bench.backend.flush()
    assert [element.split()[0] for element in items.get()] == [str(n) for n in range(300)]
    bench.evict()
    assert [element.split()[0] for element in items.get()] == [str(n) for n in range(300)]


def test_lists_of_one_key_are_not_another_keys(make_bench) -> None:
    bench = make_bench(keys=TupleType((STRING, STRING)))
    keys = [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", "")]
    items = bench.lists("items", STRING)
    for key in keys:
        bench.select(key)
        items.add_all(["x" * 2000, str(key)])
        bench.backend.flush()
        items.add(str(key))
    for key in keys:
        bench.select(key)
        assert items.get() == ["x" * 2000, str(key), str(key)]
    bench.select(keys[1])
    items.clear()
    bench.evict()
    lengths = []
    for key in keys:
        bench.select(key)
        lengths.append(len(items.get()))
    assert lengths == [3, 0, 3, 3]


@pytest.mark.parametrize(
    ("declared", "make", "change"),
    [
        (ListType(LONG), lambda: [1], lambda value: value.append(2)),
        (PICKLED, lambda: {"a": [1]}, lambda value: value["a"].append(2)),
        (RowType(("a",), (LONG,)), lambda: (1,), lambda value: value),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_changing_an_element_in_place_changes_no_list(make_bench, declared, make, change) -> None:
    bench = make_bench()
    items = bench.lists("items", declared)
    bench.select("a")
    element = make()
    items.add(element)
    change(element)
    for _ in range(2):
        got = items.get()
        assert len(got) == 1
        change(got[0])
        got.append("not state")
        assert items.get() == items.get()
        assert [tuple(e) if isinstance(e, tuple) else e for e in items.get()] != got
        bench.evict()


def test_elements_of_undeclared_type_are_kept(make_bench) -> None:
    bench = make_bench()
    items = bench.lists("items", PICKLED)
    bench.select("a")
    elements = [1, "a", {"b": {1, 2}}, (None, 2.5)]
    items.add_all(elements)
    assert items.get() == elements
    bench.evict()
    assert items.get() == elements


@pytest.mark.parametrize("add", ["add", "add_all", "update"])
@pytest.mark.parametrize("bad", [None, "text"])
def test_a_refused_element_changes_nothing(make_bench, add: str, bad) -> None:
    bench = make_bench()
    items = bench.lists()
    bench.select("a")
    items.add(1)
    with pytest.raises(TypeError):
        getattr(items, add)(bad if add == "add" else [2, bad, 3])
    assert items.get() == [1]
    bench.evict()
    assert items.get() == [1]


def test_an_element_with_a_fault_is_refused_at_once(make_bench) -> None:
    bench = make_bench()
    items = bench.lists("items", STRING)
    bench.select("a")
    with pytest.raises((TypeError, UserCodeError)):
        items.add("\ud800")
    bench.backend.flush()


@pytest.mark.parametrize("call", ["get", "clear", "add"])
def test_a_key_of_another_slots_key_group_is_refused(make_bench, call: str) -> None:
    bench = make_bench(key_groups=KeyGroupRange(0, 7))
    items = bench.lists()
    bench.select("a", key_group=8)
    with pytest.raises(InternalError, match=r"key_group=8 owned=0\.\.7"):
        items.add(1) if call == "add" else getattr(items, call)()


def test_many_short_lived_lists_leave_nothing(make_bench) -> None:
    """B14: state size stays flat."""
    bench = make_bench(options=TINY_CACHE)
    items = bench.lists()
    for number in range(2000):
        bench.select(f"key-{number}")
        items.add_all([number, number])
        assert items.get() == [number, number]
        items.clear()
    assert bench.rows("items") == []


def test_lists_survive_a_restore_and_go_on(make_bench) -> None:
    keys = one_key_per_group()
    bench = make_bench()
    items = bench.lists("items", STRING)
    for key in keys:
        bench.select(key)
        items.add_all([key] * 300)
    for sources in ([bench.freeze()],):
        restored = make_bench(sources=sources)
        items = restored.lists("items", STRING)
        for key in keys:
            restored.select(key)
            items.add("new")
            assert items.get() == [key] * 300 + ["new"]


@pytest.mark.parametrize("options", [TINY_CACHE, {}], ids=["tiny", "roomy"])
@pytest.mark.parametrize("seed", range(3))
def test_random_calls_agree_with_python_lists(make_bench, options, seed: int) -> None:
    rng = random.Random(seed)
    bench = make_bench(options=options)
    items = bench.lists("items", STRING)
    model: dict[str, list[str]] = {}
    for step in range(3000):
        key = f"key-{rng.randrange(60)}"
        bench.select(key)
        expected = model.setdefault(key, [])
        match rng.randrange(12):
            case 0:
                items.clear()
                expected.clear()
            case 1:
                expected[:] = ["u" * rng.randrange(200) for _ in range(rng.randrange(4))]
                items.update(expected)
            case 2 if step % 5 == 0:
                bench.backend.flush()
            case 3 if step % 5 == 0:
                bench.backend.maintain()
            case 4 | 5:
                more = [f"{step}" * rng.randrange(1, 80) for _ in range(rng.randrange(5))]
                items.add_all(more)
                expected += more
            case 6 | 7 | 8 | 9:
                items.add(f"{step}")
                expected.append(f"{step}")
            case _:
                assert items.get() == expected
        metrics = bench.backend.metrics()
        assert metrics["stateCacheBytes"] <= metrics["stateCacheBudgetBytes"]
    bench.evict()
    for key, expected in model.items():
        bench.select(key)
        assert items.get() == expected


def test_the_size_of_the_cache_is_what_its_entries_add_up_to(make_bench) -> None:
    bench = make_bench()
    items = bench.lists("items", STRING)
    rng = random.Random(7)
    for _ in range(2000):
        bench.select(f"key-{rng.randrange(50)}")
        match rng.randrange(5):
            case 0:
                items.clear()
            case 1:
                items.get()
            case 2:
                bench.backend.flush()
            case _:
                items.add_all(["x" * rng.randrange(500) for _ in range(rng.randrange(300))])
        entries = [*items._young.values(), *items._old.values()]
        assert items.estimated_bytes == sum(entry.size_bytes for entry in entries)
