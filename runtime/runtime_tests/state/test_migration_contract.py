"""Restored rows of a changed type: rewritten before the first record, in every kind of state."""

import logging
from dataclasses import dataclass

import pytest

from headrace.errors import IncompatibleStateError
from headrace.keygroups import KeyGroupRange
from headrace.serialization.row import Row
from headrace.serialization.types import (
    DOUBLE,
    INT,
    LONG,
    PICKLED,
    STRING,
    ClassType,
    ListType,
    RowType,
)
from headrace.state import migration
from headrace.state.access import StateTraits, TimeToLive
from headrace.state.rows import window_namespace

from .bench_of_state import MAX_PARALLELISM, one_key_per_group

KEYS = one_key_per_group()
EXPIRING = StateTraits(ttl=TimeToLive(1000))
OLD = RowType(("count", "name"), (LONG, STRING))
NEW = RowType(("name", "count", "at"), (STRING, DOUBLE, LONG))
WINDOW = window_namespace(0, 60_000)


@dataclass
class Account:
    owner: str
    cents: int


@dataclass
class AccountWithLimit:
    owner: str
    cents: int
    limit: int = 100


def test_values_get_new_fields_in_every_key_group(make_bench) -> None:
    bench = make_bench()
    accounts = bench.values("account", ClassType(Account))
    for number, key in enumerate(KEYS):
        bench.select(key)
        accounts.update(Account(key, number))
    restored = make_bench(sources=[bench.freeze()])
    state = restored.values("account", ClassType(AccountWithLimit))
    assert {key: AccountWithLimit(key, i, 100) for i, key in enumerate(KEYS)} == restored.read_all(
        state, KEYS
    )


def test_the_next_checkpoint_holds_the_new_type_alone(make_bench) -> None:
    bench = make_bench()
    bench.values("v", OLD)
    bench.select("a")
    bench.values("v", OLD).update(Row(count=1, name="x"))
    second = make_bench(sources=[bench.freeze()])
    second.values("v", NEW)
    source = second.freeze()
    (schema,) = source.schemas
    assert ["name", "count", "at"] == [
        field["name"] for field in schema.serializer["type"]["fields"]
    ]
    third = make_bench(sources=[source])
    third.select("a")
    assert Row(name="x", count=1.0, at=None) == third.values("v", NEW).value()


def test_the_restored_checkpoint_is_only_read(make_bench) -> None:
    """The old program can go back to it."""
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 7))
    source = bench.freeze()
    upgraded = make_bench(sources=[source])
    upgraded.values("count", DOUBLE)
    upgraded.backend.flush()
    assert dict.fromkeys(KEYS, 7) == make_bench(sources=[source]).read(KEYS)


def test_long_lists_are_rewritten_chunk_by_chunk(make_bench) -> None:
    bench = make_bench()
    rows = [Row(count=number, name="n" * 50) for number in range(500)]
    for key in ("a", "b"):
        bench.select(key)
        bench.lists("l", OLD).add_all(rows if key == "a" else rows[:1])
    bench.backend.flush()
    assert len(bench.rows("l")) > 2
    restored = make_bench(sources=[bench.freeze()])
    state = restored.lists("l", NEW)
    expected = [Row(name=row.name, count=float(row.count), at=None) for row in rows]
    restored.select("a")
    assert expected == state.get()
    restored.select("b")
    assert expected[:1] == state.get()
    state.add(expected[1])
    restored.backend.flush()
    assert expected[:2] == state.get()


def test_entries_of_maps_are_rewritten_and_found_under_their_keys(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    bench.maps("m", (INT, LONG)).put_all({1: 10, 2: None, -3: 30})
    restored = make_bench(sources=[bench.freeze()])
    restored.select("a")
    state = restored.maps("m", (LONG, DOUBLE))
    assert [(-3, 30.0), (1, 10.0), (2, None)] == list(state.items())


def test_folded_values_are_rewritten(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    bench.reducing(lambda a, b: a + b, "sum").add(3)
    restored = make_bench(sources=[bench.freeze()])
    restored.select("a")
    state = restored.reducing(lambda a, b: a + b, "sum", DOUBLE)
    state.add(0.5)
    assert 3.5 == state.get()


def test_stamps_of_expiring_state_survive(make_bench) -> None:
    bench = make_bench()
    start = bench.clock.now_ms()
    bench.select("a")
    bench.values("v", LONG, EXPIRING).update(7)
    bench.lists("l", LONG, EXPIRING).add(1)
    bench.maps("m", (STRING, LONG), EXPIRING).put("k", None)
    bench.clock.time_ms = start + 600
    bench.lists("l", LONG, EXPIRING).add(2)
    restored = make_bench(sources=[bench.freeze()])
    restored.clock.time_ms = start + 999
    restored.select("a")
    value = restored.values("v", DOUBLE, EXPIRING)
    items = restored.lists("l", DOUBLE, EXPIRING)
    entries = restored.maps("m", (STRING, DOUBLE), EXPIRING)
    assert (7.0, [1.0, 2.0], True) == (value.value(), items.get(), entries.contains("k"))
    restored.clock.time_ms = start + 1000
    assert (None, [2.0], False) == (value.value(), items.get(), entries.contains("k"))


def test_state_of_windows_is_rewritten(make_bench) -> None:
    traits = StateTraits(namespaced=True)
    bench = make_bench()
    bench.enter("a", WINDOW)
    bench.values("w", LONG, traits).update(7)
    restored = make_bench(sources=[bench.freeze()])
    restored.enter("a", WINDOW)
    assert 7.0 == restored.values("w", DOUBLE, traits).value()


def test_pickled_state_becomes_typed(make_bench) -> None:
    bench = make_bench()
    bench.select("a")
    bench.values("v", PICKLED).update([1, 2])
    bench.lists("l", PICKLED).add_all([1, 2, 3])
    bench.maps("m", (STRING, PICKLED)).put("k", 5)
    restored = make_bench(sources=[bench.freeze()])
    restored.select("a")
    assert [1, 2] == restored.values("v", ListType(LONG)).value()
    assert [1, 2, 3] == restored.lists("l", LONG).get()
    assert {"k": 5} == dict(restored.maps("m", (STRING, LONG)).items())


def test_rows_are_rewritten_in_batches(make_bench, monkeypatch) -> None:
    monkeypatch.setattr(migration, "BATCH_BYTES", 64)
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 7))
    restored = make_bench(sources=[bench.freeze()])
    state = restored.values("count", DOUBLE)
    assert dict.fromkeys(KEYS, 7.0) == restored.read_all(state, KEYS)


def test_halves_of_an_operator_are_migrated_and_merged(make_bench) -> None:
    half = MAX_PARALLELISM // 2
    ranges = [KeyGroupRange(0, half - 1), KeyGroupRange(half, MAX_PARALLELISM - 1)]
    sources = []
    for key_groups in ranges:
        bench = make_bench(key_groups=key_groups)
        bench.put({key: 7 for key in KEYS if bench.owns(key)})
        sources.append(bench.freeze())
    merged = make_bench(sources=sources)
    assert dict.fromkeys(KEYS, 7.0) == merged.read_all(merged.values("count", DOUBLE), KEYS)
    part = make_bench(key_groups=ranges[1], sources=sources)
    owned = [key for key in KEYS if part.owns(key)]
    assert dict.fromkeys(owned, 7.0) == part.read_all(part.values("count", DOUBLE), owned)


def test_a_value_without_counterpart_stops_the_job_and_its_key_is_named(make_bench) -> None:
    bench = make_bench()
    bench.put({"a": 1, "much": 2**53 + 1})
    restored = make_bench(sources=[bench.freeze()])
    with pytest.raises(IncompatibleStateError) as refused:
        restored.values("count", DOUBLE)
    assert "restore the old declaration" in str(refused.value)
    assert "value=9007199254740993" in str(refused.value)
    assert "key='much'" in str(refused.value)


def test_a_migration_is_announced_with_its_changes(make_bench, caplog) -> None:
    bench = make_bench()
    bench.select("a")
    bench.values("v", OLD).update(Row(count=1, name="x"))
    restored = make_bench(sources=[bench.freeze()])
    with caplog.at_level(logging.WARNING):
        restored.values("v", RowType(("name", "at"), (STRING, LONG)))
    (message,) = [record.getMessage() for record in caplog.records]
    assert "operator=counter state=v" in message
    assert message.splitlines()[1:] == [
        "field  stored  declared",
        "name   STRING  STRING",
        "at     -       LONG      new, gets its default",
        "count  LONG    -         dropped",
    ]


def test_a_refusal_prints_every_field(make_bench) -> None:
    bench = make_bench()
    bench.values("v", OLD)
    restored = make_bench(sources=[bench.freeze()])
    with pytest.raises(IncompatibleStateError) as refused:
        restored.values("v", RowType(("count", "name"), (STRING, STRING)))
    assert str(refused.value).splitlines()[1:] == [
        "field  stored  declared",
        "count  LONG    STRING    the types differ; stored=LONG declared=STRING",
        "name   STRING  STRING",
    ]
    assert "or give the new one another name" in str(refused.value)


def test_keys_of_a_map_state_do_not_evolve(make_bench) -> None:
    bench = make_bench()
    bench.maps("m", (LONG, LONG))
    restored = make_bench(sources=[bench.freeze()])
    with pytest.raises(IncompatibleStateError, match="key: key types do not evolve"):
        restored.maps("m", (STRING, LONG))


def test_pickled_state_is_named_once(make_bench, caplog) -> None:
    bench = make_bench()
    with caplog.at_level(logging.WARNING):
        bench.values("typed", ListType(LONG))
        bench.values("blob", PICKLED)
        bench.values("blob", PICKLED)
        bench.lists("blobs", PICKLED, EXPIRING)
    assert [("counter", "blob"), ("counter", "blobs")] == [record.args for record in caplog.records]
