"""Keyed maps on every backend: entries, order, iteration, clearing (B9, T26, T27)."""

import random

import pytest

from headrace.errors import InternalError, InvalidProgramError, UserCodeError
from headrace.keygroups import KeyGroupRange
from headrace.serialization.registry import key_serializer
from headrace.serialization.row import Row
from headrace.serialization.types import (
    BOOLEAN,
    DOUBLE,
    LONG,
    PICKLED,
    STRING,
    ListType,
    MapType,
    RowType,
    TupleType,
)
from headrace.state.map_state import COMPLETE_MAX, PAGE
from headrace.state.write_back import ROWS_DELETED_SINGLY

TINY_CACHE = {"headrace.state.cache.fraction": "0.001"}


def test_an_unset_map_is_empty(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps()
    bench.select("a")
    assert entries.get("x") is None
    assert not entries.contains("x")
    assert list(entries.items()) == []
    assert entries.is_empty()
    entries.remove("x")
    assert bench.rows("entries") == []


@pytest.mark.parametrize("evicted", [False, True])
def test_entries_are_read_back(make_bench, evicted: bool) -> None:
    bench = make_bench()
    entries = bench.maps()
    bench.select("a")
    entries.put("x", 1)
    entries.put_all({"y": 2, "": 3})
    if evicted:
        bench.evict()
    assert [entries.get(key) for key in ("x", "y", "", "z")] == [1, 2, 3, None]
    assert [entries.contains(key) for key in ("x", "y", "", "z")] == [True, True, True, False]
    assert not entries.is_empty()
    assert list(entries.keys()) == ["", "x", "y"]
    assert list(entries.values()) == [3, 1, 2]
    assert list(entries.items()) == [("", 3), ("x", 1), ("y", 2)]


def test_it_also_reads_like_a_dict(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps()
    bench.select("a")
    entries["x"] = 1
    entries["y"] = 2
    assert entries["x"] == 1
    assert "x" in entries
    del entries["x"]
    assert "x" not in entries
    assert entries["x"] is None
    assert list(entries) == ["y"]


@pytest.mark.parametrize(
    ("declared", "keys"),
    [
        (LONG, [-(2**63), -5, -1, 0, 1, 255, 256, 2**63 - 1]),
        (STRING, ["", "A", "a", "aa", "b", "é", "😀"]),
        (DOUBLE, [-1e300, -1.5, 0.0, 1e-9, 2.0]),
        (BOOLEAN, [False, True]),
    ],
    ids=str,
)
@pytest.mark.parametrize("evicted", [False, True])
def test_entries_iterate_in_the_order_of_their_keys(
    make_bench, declared, keys: list, evicted: bool
) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (declared, LONG))
    bench.select("a")
    shuffled = list(keys)
    random.Random(1).shuffle(shuffled)
    for key in shuffled:
        entries.put(key, 1)
    if evicted:
        bench.evict()
    assert list(entries) == keys


@pytest.mark.parametrize("declared", [TupleType((STRING, LONG)), PICKLED], ids=str)
def test_composite_keys_iterate_in_the_order_of_their_bytes(make_bench, declared) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (declared, LONG))
    bench.select("a")
    keys = [("ab", 1), ("a", 2), ("b", -1), ("", 0)]
    for number, key in enumerate(keys):
        entries.put(key, number)
    expected = sorted(keys, key=key_serializer(declared).serialize)
    assert list(entries) == expected
    bench.evict()
    assert list(entries) == expected
    assert [entries.get(key) for key in keys] == [0, 1, 2, 3]


def test_keys_equal_in_python_but_of_other_types_are_their_own_entries(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (PICKLED, LONG))
    bench.select("a")
    keys = [1, 1.0, True, "1", None, (1,), (1.0,)]
    for number, key in enumerate(keys):
        entries.put(key, number)
    assert [entries.get(key) for key in keys] == list(range(len(keys)))
    bench.evict()
    assert [entries.get(key) for key in keys] == list(range(len(keys)))


def test_none_is_a_value(make_bench) -> None:
    bench = make_bench()
    for name, type_ in (("longs", LONG), ("lists", ListType(LONG)), ("pickled", PICKLED)):
        entries = bench.maps(name, (STRING, type_))
        bench.select("a")
        entries.put("x", None)
        for _ in range(2):
            assert entries.get("x") is None
            assert entries.contains("x")
            assert list(entries.items()) == [("x", None)]
            assert not entries.is_empty()
            bench.evict()


@pytest.mark.parametrize("size", [1, PAGE, PAGE + 1, 3 * PAGE + 7, 2 * COMPLETE_MAX])
def test_maps_of_any_size_iterate_completely(make_bench, size: int) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (LONG, LONG))
    expected = [(number, -number) for number in range(size)]
    for key in ("a", "b"):
        bench.select(key)
        entries.put_all(dict(reversed(expected)))
    assert list(entries.items()) == expected
    bench.evict()
    assert list(entries.items()) == expected
    entries.put(5, 55)
    entries.remove(0)
    entries.put(size, 1)
    changed = dict(expected) | {5: 55, size: 1}
    del changed[0]
    assert dict(entries.items()) == changed
    assert list(entries) == sorted(changed)
    bench.select("a")
    assert list(entries.items()) == expected


@pytest.mark.parametrize("size", [10, 5 * PAGE])
def test_entries_may_change_while_they_are_iterated_over(make_bench, size: int) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (LONG, LONG))
    bench.select("a")
    entries.put_all(dict.fromkeys(range(size), 0))
    bench.evict()
    seen = []
    for key in entries:
        seen.append(key)
        if key % 2:
            entries.remove(key)
        else:
            entries.put(key, 1)
    assert seen == list(range(size))
    assert list(entries.items()) == [(number, 1) for number in range(0, size, 2)]


def test_an_iterator_goes_on_when_the_key_has_moved_on(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (LONG, LONG))
    bench.select("a")
    entries.put_all(dict.fromkeys(range(3 * PAGE), 1))
    bench.evict()
    iterator = entries.keys()
    first = [next(iterator) for _ in range(10)]
    bench.select("b")
    entries.put(-1, 1)
    assert first + list(iterator) == list(range(3 * PAGE))


@pytest.mark.parametrize("size", [1, ROWS_DELETED_SINGLY, ROWS_DELETED_SINGLY + 1, 1000])
@pytest.mark.parametrize("evicted", [False, True])
def test_a_cleared_map_leaves_no_row(make_bench, size: int, evicted: bool) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (LONG, LONG))
    for key in ("a", "b", "c"):
        bench.select(key)
        entries.put_all(dict.fromkeys(range(size), 1))
    if evicted:
        bench.evict()
    for key in ("a", "c"):
        bench.select(key)
        entries.clear()
        assert entries.is_empty()
        assert entries.get(0) is None
        assert list(entries) == []
    bench.select("b")
    assert len(list(entries)) == size
    entries.clear()
    assert bench.rows("entries") == []


def test_entries_put_after_clear_are_the_only_ones(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps()
    bench.select("a")
    entries.put_all({f"{number}": 1 for number in range(500)})
    bench.evict()
    entries.clear()
    entries.put("7", 2)
    entries.put("new", 3)
    assert list(entries.items()) == [("7", 2), ("new", 3)]
    assert entries.get("8") is None
    bench.evict()
    assert list(entries.items()) == [("7", 2), ("new", 3)]


def test_a_map_that_is_filled_right_after_clear_hides_what_is_still_stored(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (LONG, LONG))
    bench.select("a")
    entries.put(-1, 1)
    bench.evict()
    entries.clear()
    entries.put_all(dict.fromkeys(range(COMPLETE_MAX + 10), 2))
    assert entries.get(-1) is None
    assert not entries.contains(-1)
    assert len(list(entries)) == COMPLETE_MAX + 10


def test_one_row_an_entry(make_bench) -> None:
    """B9: changing one entry writes one row."""
    bench = make_bench()
    entries = bench.maps()
    bench.select("a")
    entries.put_all({f"{number}": number for number in range(100)})
    assert len(bench.rows("entries")) == 100
    before = dict(bench.rows("entries"))
    entries.put("7", 0)
    after = dict(bench.rows("entries"))
    assert len([row for row in before if before[row] != after[row]]) == 1


def test_a_small_map_that_was_iterated_over_is_read_no_more(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps()
    bench.select("a")
    entries.put_all({"x": 1, "y": 2})
    bench.evict()
    assert list(entries) == ["x", "y"]
    entries._store = None  # any read would fail
    assert list(entries.items()) == [("x", 1), ("y", 2)]
    assert entries.get("z") is None
    entries.put("z", 3)
    entries.remove("x")
    assert list(entries) == ["y", "z"]
    assert not entries.is_empty()


@pytest.mark.parametrize(
    ("declared", "make", "change"),
    [
        (ListType(LONG), lambda: [1], lambda value: value.append(2)),
        (MapType(STRING, LONG), lambda: {"a": 1}, lambda value: value.update(b=2)),
        (PICKLED, lambda: {"a": [1]}, lambda value: value["a"].append(2)),
    ],
    ids=lambda value: "" if callable(value) else str(value),
)
def test_changing_a_value_in_place_changes_no_entry(make_bench, declared, make, change) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (STRING, declared))
    bench.select("a")
    value = make()
    entries.put("x", value)
    change(value)
    for _ in range(2):
        change(entries.get("x"))
        change(next(entries.values()))
        assert entries.get("x") == make()
        assert list(entries.values()) == [make()]
        bench.evict()


@pytest.mark.parametrize(("key", "value"), [(1, 1), ("x", "y"), (None, 1)])
def test_a_key_or_value_of_another_type_is_refused(make_bench, key, value) -> None:
    bench = make_bench()
    entries = bench.maps()
    bench.select("a")
    with pytest.raises(TypeError, match="declared"):
        entries.put(key, value)
    assert entries.is_empty()


def test_a_value_that_shows_its_fault_only_when_written_names_state_and_key(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (STRING, STRING))
    bench.select("a")
    entries.put("x", "\ud800")
    with pytest.raises(UserCodeError, match=r"key 'x' .* state=entries"):
        bench.backend.flush()


def test_a_value_none_survives_a_migration_of_the_values(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (STRING, RowType(("a", "b"), (LONG, LONG))))
    bench.select("a")
    entries.put_all({"x": Row(a=1, b=2), "y": None})
    restored = make_bench(sources=[bench.freeze()])
    entries = restored.maps("entries", (STRING, RowType(("b",), (LONG,))))
    restored.select("a")
    assert list(entries.items()) == [("x", Row(b=2)), ("y", None)]


def test_a_type_without_canonical_bytes_cannot_be_a_key(make_bench) -> None:
    with pytest.raises(InvalidProgramError, match="cannot be keys"):
        make_bench().maps("entries", (MapType(STRING, LONG), LONG))


@pytest.mark.parametrize("call", ["get", "put", "clear", "items", "is_empty"])
def test_a_key_of_another_slots_key_group_is_refused(make_bench, call: str) -> None:
    bench = make_bench(key_groups=KeyGroupRange(0, 7))
    entries = bench.maps()
    bench.select("a", key_group=8)
    arguments = {"get": ("x",), "put": ("x", 1)}.get(call, ())
    with pytest.raises(InternalError, match=r"key_group=8 owned=0\.\.7"):
        getattr(entries, call)(*arguments)


def test_many_short_lived_maps_leave_nothing(make_bench) -> None:
    """B14: state size stays flat, and so does the cache of a map whose keys come and go."""
    bench = make_bench(options=TINY_CACHE)
    entries = bench.maps()
    for number in range(1000):
        bench.select(f"key-{number}")
        entries.put_all({"x": 1, "y": number})
        entries.clear()
    bench.select("one")
    for number in range(1000):
        entries.put(f"{number}", 1)
        entries.remove(f"{number}")
        if number % 50 == 0:
            assert entries.is_empty()
            bench.backend.flush()
    assert bench.rows("entries") == []


@pytest.mark.parametrize("options", [TINY_CACHE, {}], ids=["tiny", "roomy"])
@pytest.mark.parametrize("declared", [LONG, ListType(LONG)], ids=["objects", "bytes"])
@pytest.mark.parametrize("seed", range(2))
def test_random_calls_agree_with_python_dicts(make_bench, options, declared, seed: int) -> None:
    rng = random.Random(seed)
    bench = make_bench(options=options)
    entries = bench.maps("entries", (LONG, declared))
    make = (lambda number: number) if declared is LONG else (lambda number: [number])
    model: dict[str, dict[int, object]] = {}
    for step in range(4000):
        key = f"key-{rng.randrange(8)}"
        bench.select(key)
        expected = model.setdefault(key, {})
        user_key = rng.randrange(30)
        match rng.randrange(16):
            case 0 if step % 3 == 0:
                entries.clear()
                expected.clear()
            case 1 if step % 5 == 0:
                bench.backend.flush()
            case 2 if step % 5 == 0:
                bench.backend.maintain()
            case 3:
                assert list(entries.items()) == sorted(expected.items())
                assert entries.is_empty() == (not expected)
            case 5 | 6:
                entries.remove(user_key)
                expected.pop(user_key, None)
            case 8 | 9 | 10 | 11:
                entries.put(user_key, make(step))
                expected[user_key] = make(step)
            case _:
                assert entries.get(user_key) == expected.get(user_key)
                assert entries.contains(user_key) == (user_key in expected)
    bench.evict()
    for key, expected in model.items():
        bench.select(key)
        assert dict(entries.items()) == expected


def test_the_size_of_the_cache_is_what_its_entries_add_up_to(make_bench) -> None:
    bench = make_bench()
    entries = bench.maps("entries", (LONG, STRING))
    rng = random.Random(7)
    for _ in range(3000):
        bench.select(f"key-{rng.randrange(20)}")
        match rng.randrange(8):
            case 0:
                entries.clear()
            case 1:
                list(entries.items())
            case 2:
                bench.backend.flush()
            case 3:
                entries.remove(rng.randrange(40))
            case 4:
                entries.get(rng.randrange(40))
            case 5:
                bench.evict()
            case _:
                entries.put(rng.randrange(40), "x" * rng.randrange(500))
        maps = [*entries._young.values(), *entries._old.values()]
        assert entries.estimated_bytes == sum(entry.size_bytes for entry in maps)
        for entry in maps:
            texts = [v for v in entry.known.values() if isinstance(v, str)]
            empty = 900 + 2 * len(entry.prefix)
            assert entry.size_bytes == empty + 300 * len(entry.known) + sum(map(len, texts))
