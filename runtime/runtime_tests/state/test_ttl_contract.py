"""Expiry on every backend and for every kind of state (B15)."""

import itertools
from types import SimpleNamespace

import pytest

from headrace.errors import CorruptStateError, IncompatibleStateError
from headrace.serialization.registry import value_serializer
from headrace.serialization.types import LONG, STRING, ListType, RowType
from headrace.state.access import StateTraits, TimeToLive
from headrace.state.list_state import TAIL_BYTES_MAX
from headrace.state.purge import ROWS_MAX, ROWS_MIN, ROWS_PER_MS
from headrace.state.ttl import StampedSerializer

from .bench_of_state import ManualClock
from .test_folding_contract import MEAN, Mean, add_numbers

KINDS = ["value", "list", "map", "reducing", "aggregating"]


def state_of(bench, kind: str, **ttl):
    """A state of a kind that expires after a second, with one way to write and read for all."""
    traits = StateTraits(TimeToLive(**({"ttl_ms": 1000} | ttl)))
    if kind == "value":
        state = bench.values("x", traits=traits)
        return SimpleNamespace(state=state, put=state.update, get=state.value, name="x")
    if kind == "list":
        state = bench.lists("x", traits=traits)
        read = lambda: (state.get() or [None])[-1]  # noqa: E731
        return SimpleNamespace(state=state, put=state.add, get=read, name="x")
    if kind == "map":
        state = bench.maps("x", traits=traits)
        put = lambda number: state.put("k", number)  # noqa: E731
        return SimpleNamespace(state=state, put=put, get=lambda: state.get("k"), name="x")
    if kind == "reducing":
        state = bench.reducing(add_numbers, "x", traits=traits)
    else:
        state = bench.aggregating(Mean(), "x", MEAN, traits)
    return SimpleNamespace(state=state, put=state.add, get=state.get, name="x")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("evicted", [False, True])
def test_an_entry_is_there_until_its_time_has_come(make_bench, kind: str, evicted: bool) -> None:
    bench = make_bench()
    x = state_of(bench, kind)
    bench.select("a")
    x.put(5)
    if evicted:
        bench.evict()
    bench.clock.time_ms += 999
    assert x.get() == 5
    bench.clock.time_ms += 1
    assert x.get() is None
    assert bench.rows("x") == []


@pytest.mark.parametrize("kind", KINDS)
def test_reading_does_not_prolong_unless_it_is_asked_to(make_bench, kind: str) -> None:
    for on_read, expected in ((False, None), (True, 5)):
        bench = make_bench()
        x = state_of(bench, kind, on_read=on_read)
        bench.select("a")
        x.put(5)
        for _ in range(3):
            bench.clock.time_ms += 500
            bench.evict()
            found = x.get()
        assert found == expected


@pytest.mark.parametrize("kind", ["value", "map"])
def test_writing_prolongs(make_bench, kind: str) -> None:
    bench = make_bench()
    x = state_of(bench, kind)
    bench.select("a")
    for number in range(4):
        x.put(number)
        bench.clock.time_ms += 600
    assert x.get() == 3


@pytest.mark.parametrize("kind", ["reducing", "aggregating"])
def test_folding_prolongs_and_starts_anew_after_expiry(make_bench, kind: str) -> None:
    bench = make_bench()
    x = state_of(bench, kind)
    bench.select("a")
    x.put(4)
    bench.clock.time_ms += 600
    x.put(4)
    bench.clock.time_ms += 600
    assert x.get() in (8, 4.0)
    bench.clock.time_ms += 1000
    x.put(3)
    assert x.get() == 3


@pytest.mark.parametrize("kind", KINDS)
def test_an_expired_entry_may_be_shown_once(make_bench, kind: str) -> None:
    bench = make_bench()
    x = state_of(bench, kind, return_expired=True)
    bench.select("a")
    x.put(5)
    bench.clock.time_ms += 5000
    assert x.get() == 5
    assert x.get() is None


def test_elements_of_a_list_expire_one_by_one(make_bench) -> None:
    bench = make_bench()
    items = state_of(bench, "list").state
    bench.select("a")
    for number in range(4):
        items.add_all([number, number])
        bench.clock.time_ms += 300
        bench.evict()
    assert items.get() == list(items) == [1, 1, 2, 2, 3, 3]
    bench.clock.time_ms += 300
    assert items.get() == [2, 2, 3, 3]
    items.update([9])
    bench.clock.time_ms += 999
    assert items.get() == [9]
    items.clear()
    assert items.get() == []


def test_entries_of_a_map_expire_one_by_one(make_bench) -> None:
    bench = make_bench()
    entries = state_of(bench, "map").state
    bench.select("a")
    for number in range(4):
        entries[f"{number}"] = number
        bench.clock.time_ms += 300
        bench.evict()
    assert list(entries.items()) == [("1", 1), ("2", 2), ("3", 3)]
    bench.clock.time_ms += 300
    assert [entries.contains(f"{number}") for number in range(4)] == [False, False, True, True]
    assert list(entries.keys()) == list(entries) == ["2", "3"]
    assert list(entries.values()) == [2, 3]
    assert ("1" in entries, entries["3"]) == (False, 3)
    entries.put_all({"4": None})
    assert entries.contains("4")
    assert entries.get("4") is None
    bench.evict()
    assert entries.contains("4")
    del entries["4"]
    bench.clock.time_ms += 2000
    assert entries.is_empty()
    assert bench.rows("x") == []


def test_a_shown_expired_entry_of_a_map_is_removed_while_iterating(make_bench) -> None:
    bench = make_bench()
    entries = state_of(bench, "map", return_expired=True).state
    bench.select("a")
    entries.put("k", 1)
    bench.clock.time_ms += 2000
    assert list(entries.items()) == [("k", 1)]
    assert list(entries.items()) == []


def test_reading_a_map_prolongs_what_is_read(make_bench) -> None:
    bench = make_bench()
    entries = state_of(bench, "map", on_read=True).state
    bench.select("a")
    entries.put_all({"x": 1, "y": 2})
    bench.clock.time_ms += 600
    assert entries.get("x") == 1
    bench.clock.time_ms += 600
    assert list(entries.items()) == [("x", 1)]
    bench.clock.time_ms += 600
    assert list(entries.items()) == [("x", 1)]


@pytest.mark.parametrize("kind", KINDS)
def test_stamps_are_restored_and_time_goes_on_while_a_job_is_down(make_bench, kind: str) -> None:
    bench = make_bench()
    x = state_of(bench, kind)
    for key, after in (("early", 600), ("late", 0)):
        bench.select(key)
        x.put(5)
        bench.clock.time_ms += after
    source = bench.freeze()
    found = {}
    for passed in (0, 399, 400, 999, 1000):
        clock = ManualClock(bench.clock.time_ms + passed)
        restored = make_bench(sources=[source], clock=clock)
        x = state_of(restored, kind)
        for key in ("early", "late"):
            restored.select(key)
            found[passed, key] = x.get()
    assert found == {
        (0, "early"): 5,
        (0, "late"): 5,
        (399, "early"): 5,
        (399, "late"): 5,
        (400, "early"): None,
        (400, "late"): 5,
        (999, "early"): None,
        (999, "late"): 5,
        (1000, "early"): None,
        (1000, "late"): None,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_none_cannot_be_stored_or_clears(make_bench, kind: str) -> None:
    bench = make_bench()
    x = state_of(bench, kind)
    bench.select("a")
    x.put(1)
    if kind in {"value", "list"}:
        with pytest.raises(TypeError, match="None"):
            x.put(None)
        assert x.get() == 1
    else:
        x.put(None)
        assert x.get() is None


def test_a_mutable_value_expires_and_is_copied(make_bench) -> None:
    bench = make_bench()
    state = bench.values("x", ListType(LONG), StateTraits(TimeToLive(1000)))
    bench.select("a")
    value = [1]
    state.update(value)
    value.append(2)
    state.value().append(3)
    assert state.value() == [1]
    bench.clock.time_ms += 1000
    assert state.value() is None


def test_a_value_of_another_type_is_refused(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    for kind in KINDS[:3]:
        x = state_of(make_bench(), kind)
        with pytest.raises(TypeError):
            x.put("text")


# --- clean-up of what nobody accesses ---------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_has_expired_is_purged_between_epochs(make_bench, kind: str) -> None:
    bench = make_bench()
    x = state_of(bench, kind)
    for number in range(50):
        bench.select(f"old-{number}")
        x.put(number)
    bench.clock.time_ms += 500
    for number in range(50):
        bench.select(f"new-{number}")
        x.put(number)
    bench.evict()
    bench.clock.time_ms += 600
    for _ in range(3):
        bench.backend.maintain()
    assert len(bench.rows("x")) == 50
    assert bench.backend.metrics()["stateRowsExpired"] == 50
    bench.select("new-7")
    assert x.get() == 7
    bench.select("old-7")
    assert x.get() is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_purge_does_not_touch_what_was_written_since(make_bench, kind: str) -> None:
    bench = make_bench()
    x = state_of(bench, kind)
    bench.select("a")
    x.put(1)
    bench.backend.flush()
    bench.clock.time_ms += 1000
    x.put(2)
    bench.backend.maintain()
    assert x.get() == 2
    bench.evict()
    assert x.get() == 2


def test_a_purge_takes_a_small_part_of_the_time(make_bench) -> None:
    bench = make_bench()
    x = state_of(bench, "value")
    for number in range(ROWS_MIN * 10):
        bench.select(f"key-{number}")
        x.put(number)
    bench.evict()
    bench.clock.time_ms += 1000
    bench.backend.maintain()  # the clock has moved by a second since the backend was opened
    seen = ROWS_PER_MS * 1000
    assert ROWS_MIN * 10 - min(seen, ROWS_MAX) <= len(bench.rows("x"))
    bench.backend.maintain()
    assert bench.rows("x") == []


def test_a_purge_goes_round(make_bench) -> None:
    bench = make_bench()
    x = state_of(bench, "value")
    sizes = []
    for number in range(ROWS_MIN * 3):
        bench.select(f"key-{number}")
        x.put(number)
    bench.evict()
    bench.backend.maintain()
    bench.clock.time_ms += 1000
    bench.backend._caches._maintained_ms = bench.clock.time_ms  # as if epochs followed at once
    for _ in range(4):
        bench.backend.maintain()
        sizes.append(len(bench.rows("x")))
    assert sizes == [ROWS_MIN * 2, ROWS_MIN, 0, 0]


def test_without_clean_up_only_access_removes(make_bench) -> None:
    bench = make_bench()
    x = state_of(bench, "value", purge_in_background=False)
    bench.select("a")
    x.put(1)
    bench.evict()
    bench.clock.time_ms += 5000
    bench.backend.maintain()
    assert len(bench.rows("x")) == 1
    assert x.get() is None
    assert bench.rows("x") == []


def test_clean_up_by_access_looks_at_so_many_rows_for_each(make_bench) -> None:
    bench = make_bench()
    x = state_of(bench, "value", purge_in_background=False, purge_per_access=3)
    for number in range(100):
        bench.select(f"key-{number}")
        x.put(number)
    bench.evict()
    bench.backend.maintain()
    bench.clock.time_ms += 1000
    bench.backend.maintain()
    assert len(bench.rows("x")) == 100
    bench.select("other")
    for _ in range(10):
        assert x.get() is None
    bench.backend.maintain()
    assert len(bench.rows("x")) == 70


def test_full_snapshots_leave_expired_entries_out(make_bench, backend_name) -> None:
    bench = make_bench()
    x = state_of(bench, "value", purge_in_background=False, purge_at_snapshot=True)
    for number in range(10):
        bench.select(f"key-{number}")
        x.put(number)
        bench.clock.time_ms += 200
    restored = make_bench(sources=[bench.freeze()], clock=ManualClock(0))
    state_of(restored, "value")
    # As in Flink, incremental snapshots hold what the database holds.
    assert len(restored.rows("x")) == (4 if backend_name == "hashmap" else 10)


def test_long_lists_lose_their_expired_chunks(make_bench) -> None:
    bench = make_bench()
    items = bench.lists("x", STRING, StateTraits(TimeToLive(1000)))
    text = "x" * TAIL_BYTES_MAX
    bench.select("a")
    for number in range(8):
        items.add(f"{number} {text}")
        bench.evict()
        bench.clock.time_ms += 200
    assert len(bench.rows("x")) == 9
    bench.backend.maintain()
    assert len(bench.rows("x")) == 5
    assert [element[0] for element in items.get()] == ["4", "5", "6", "7"]
    items.add("8")
    bench.evict()
    assert [element[0] for element in items.get()] == ["4", "5", "6", "7", "8"]
    bench.clock.time_ms += 800
    bench.backend.maintain()
    assert [element[0] for element in items.get()] == ["8"]
    bench.clock.time_ms += 200
    bench.evict()
    bench.backend.maintain()
    assert bench.rows("x") == []


def test_state_that_expires_stays_bounded_although_nobody_looks_back(make_bench) -> None:
    """B14, B15: keys that come once and never again."""
    bench = make_bench(options={"headrace.state.cache.fraction": "0.005"})
    x = state_of(bench, "value")
    sizes = []
    for epoch, number in itertools.product(range(40), range(50)):
        bench.select(f"key-{epoch}-{number}")
        x.put(number)
        if number == 49:
            bench.clock.time_ms += 100
            bench.backend.maintain()
            sizes.append(len(bench.rows("x")))
    assert max(sizes[15:]) <= 50 * 12
    assert sizes[-1] <= sizes[15] * 1.2


# --- stored form ------------------------------------------------------------------------------


def test_a_stamped_value_never_changes() -> None:
    serializer = StampedSerializer(value_serializer(LONG))
    assert serializer.serialize((1_700_000_000_000, 5)).hex() == "8000018bcfe5680005"
    assert serializer.serialize((-1, None)).hex() == "7fffffffffffffff"
    assert serializer.deserialize(bytes.fromhex("7fffffffffffffff")) == (-1, None)
    assert serializer.deserialize(bytes.fromhex("8000018bcfe5680005")) == (1_700_000_000_000, 5)
    for cut in (b"", b"\x80" * 7):
        with pytest.raises(CorruptStateError, match="time stamp"):
            serializer.deserialize(cut)


def lasting(bench, kind: str):
    """The same states as `state_of`, without expiry."""
    if kind == "value":
        state = bench.values("x")
        return SimpleNamespace(put=state.update, get=state.value)
    if kind == "list":
        state = bench.lists("x")
        return SimpleNamespace(put=state.add, get=lambda: state.get()[-1])
    if kind == "map":
        state = bench.maps("x")
        put = lambda number: state.put_all({"k": number, "none": None})  # noqa: E731
        return SimpleNamespace(put=put, get=lambda: state.get("k"))
    if kind == "reducing":
        state = bench.reducing(add_numbers, "x")
    else:
        state = bench.aggregating(Mean(), "x", MEAN)
    return SimpleNamespace(put=state.add, get=state.get)


@pytest.mark.parametrize("kind", KINDS)
def test_when_expiry_is_switched_on_all_that_is_stored_counts_as_just_written(
    make_bench, kind: str
) -> None:
    bench = make_bench()
    bench.select("a")
    lasting(bench, kind).put(5)
    clock = ManualClock(bench.clock.time_ms + 10_000)
    restored = make_bench(sources=[bench.freeze()], clock=clock)
    x = state_of(restored, kind)
    restored.select("a")
    assert x.get() == 5
    if kind == "map":
        assert list(x.state.items()) == [("k", 5), ("none", None)]
    again = make_bench(sources=[restored.freeze()], clock=clock)
    x = state_of(again, kind)
    again.select("a")
    clock.time_ms += 999
    assert x.get() == 5
    clock.time_ms += 1
    assert x.get() is None


@pytest.mark.parametrize("kind", KINDS)
def test_when_expiry_is_switched_off_what_is_stored_stays(make_bench, kind: str) -> None:
    bench = make_bench()
    bench.select("a")
    x = state_of(bench, kind)
    x.put(5)
    if kind == "map":
        x.state.put("none", None)
    restored = make_bench(sources=[bench.freeze()], clock=ManualClock(bench.clock.time_ms + 10_000))
    x = lasting(restored, kind)
    restored.select("a")
    assert x.get() == 5
    if kind == "map":
        assert list(restored.maps("x").items()) == [("k", 5), ("none", None)]


def test_expiry_and_type_may_change_at_once(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    bench.lists("x", RowType(("a", "b"), (LONG, LONG))).add((1, 2))
    restored = make_bench(sources=[bench.freeze()])
    expiring = restored.lists("x", RowType(("b",), (LONG,)), StateTraits(TimeToLive(1000)))
    restored.select("a")
    assert [list(row) for row in expiring.get()] == [[2]]
    last = make_bench(sources=[restored.freeze()])
    last.select("a")
    assert [list(row) for row in last.lists("x", RowType(("b",), (LONG,))).get()] == [[2]]


def test_a_type_that_cannot_be_read_is_refused_whatever_becomes_of_expiry(make_bench) -> None:
    bench = make_bench()
    bench.values("x", STRING)
    bench.values("y", STRING, StateTraits(TimeToLive(1000)))
    restored = make_bench(sources=[bench.freeze()])
    with pytest.raises(IncompatibleStateError, match=r"state=x"):
        state_of(restored, "value")
    with pytest.raises(IncompatibleStateError, match=r"state=y"):
        restored.values("y", ListType(LONG))


def test_the_time_to_live_itself_may_change(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    state_of(bench, "value").put(1)
    restored = make_bench(sources=[bench.freeze()], clock=ManualClock(bench.clock.time_ms + 1500))
    restored.select("a")
    assert state_of(restored, "value", ttl_ms=2000).get() == 1


def test_one_state_has_one_expiry(make_bench) -> None:
    bench = make_bench()
    state_of(bench, "value")
    with pytest.raises(IncompatibleStateError, match="different expiry"):
        state_of(bench, "value", ttl_ms=5)
