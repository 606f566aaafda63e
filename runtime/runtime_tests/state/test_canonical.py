"""Canonical files, and state that moves from one backend to the other (E13)."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoint.protocol.types import StateSchema
from headrace.errors import CorruptStateError, IncompatibleStateError, InvalidConfigError
from headrace.keygroups import key_group_range_of_slot
from headrace.serialization.types import LONG
from headrace.state import canonical
from headrace.state.canonical import (
    CanonicalRows,
    CanonicalStorage,
    canonical_name,
    write_canonical_file,
)
from headrace.state.hashmap.storage import HashmapRows
from headrace.state.rows import state_row, timer_row
from headrace.state.schemas import TIMERS, VALUE

from .bench_of_state import MAX_PARALLELISM, StateBench, as_canonical, one_key_per_group, renamed
from .every_kind import EveryKind, stored_form

KEYS = one_key_per_group()
KEY_TYPE: dict[str, object] = {"codec": "utf8/1", "type": {"kind": "string"}}
COUNT = StateSchema("count", VALUE, {"codec": "msgpack/1"})
TIMES = StateSchema("_event_timers", TIMERS, {"codec": "timers/1"})
EVERYTHING = (b"\x00\x00", b"\xff\xff")


def opened(name: str, scratch: Path, sources) -> tuple[StateBench, EveryKind]:
    bench = StateBench.open(name, scratch, sources=sources)
    states = EveryKind(bench)
    bench.backend.finish_registration()
    return bench, states


def test_state_of_every_kind_goes_round_over_canonical_files_and_both_backends(scratch) -> None:
    """Native -> canonical -> the other backend -> canonical -> back: the same rows, to the byte."""
    bench = StateBench.open("rocksdb", scratch)
    EveryKind(bench).fill()
    form = stored_form(bench)
    for name in ("hashmap", "rocksdb", "rocksdb", "hashmap"):
        bench, states = opened(name, scratch, [as_canonical(bench.freeze(), scratch)])
        assert form == stored_form(bench)
    states.check()
    bench.backend.close()


@pytest.mark.parametrize(("writer", "reader"), [("rocksdb", "hashmap"), ("hashmap", "rocksdb")])
def test_native_files_of_one_backend_are_restored_by_the_other(scratch, writer, reader) -> None:
    bench = StateBench.open(writer, scratch)
    EveryKind(bench).fill()
    form = stored_form(bench)
    bench, states = opened(reader, scratch, [bench.freeze()])
    assert form == stored_form(bench)
    states.check()
    bench.backend.close()


@pytest.mark.parametrize("form", ["canonical", "other"])
@pytest.mark.parametrize(("before", "after"), [(1, 2), (3, 2), (2, 16), (4, 1)])
def test_every_slot_takes_its_key_groups_and_no_others(
    make_bench, backend_name, scratch, form, before, after
) -> None:
    """One record and one timer for each key group, from files that another kind of slot wrote."""
    writer = (
        backend_name if form == "canonical" else {"rocksdb": "hashmap"}.get(backend_name, "rocksdb")
    )
    sources = []
    for slot in range(before):
        owned = key_group_range_of_slot(slot, before, MAX_PARALLELISM)
        bench = StateBench.open(writer, scratch, key_groups=owned)
        bench.put({KEYS[group]: group for group in owned})
        bench.register([(group, KEYS[group]) for group in owned])
        frozen = bench.freeze()
        sources.append(as_canonical(frozen, scratch) if form == "canonical" else frozen)
    for slot in range(after):
        owned = key_group_range_of_slot(slot, after, MAX_PARALLELISM)
        bench = make_bench(
            key_groups=owned,
            sources=[source for source in sources if source.key_group_range.intersection(owned)],
        )
        bench.values()
        assert {KEYS[group]: group for group in owned} == bench.read([KEYS[g] for g in owned])
        assert len(owned) == len(bench.rows("count"))
        assert [(group, KEYS[group]) for group in owned] == bench.fire(1000)


def test_own_and_canonical_files_may_come_together(make_bench, backend_name, scratch) -> None:
    """Two slots of which one was converted: sources never overlap, so each counts by itself."""
    sources = []
    for slot in range(2):
        owned = key_group_range_of_slot(slot, 2, MAX_PARALLELISM)
        bench = make_bench(key_groups=owned)
        bench.put({KEYS[group]: group for group in owned})
        sources.append(bench.freeze())
    mixed = make_bench(sources=[sources[0], as_canonical(sources[1], scratch)])
    assert {key: group for group, key in enumerate(KEYS)} == mixed.read(KEYS)


def test_what_is_restored_from_canonical_files_is_checkpointed_as_native_files(
    make_bench, scratch
) -> None:
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 1))
    bench = make_bench(sources=[as_canonical(bench.freeze(), scratch)])
    bench.values()
    bench.select(KEYS[0])
    bench.values().update(2)
    restored = make_bench(sources=[bench.freeze()])
    assert dict.fromkeys(KEYS, 1) | {KEYS[0]: 2} == restored.read(KEYS)


# --- the file


def written(scratch: Path, schema: StateSchema, rows) -> CanonicalRows:
    path = scratch / "file.parquet"
    path.unlink(missing_ok=True)
    assert len(rows) == write_canonical_file(path, KEY_TYPE, schema, rows)
    return CanonicalRows(path, schema)


parts = st.binary(max_size=20)
groups = st.integers(0, 2**15 - 1)


@pytest.mark.property
@settings(max_examples=60)
@given(
    found=st.dictionaries(st.tuples(groups, parts, parts, parts), parts, max_size=30),
    times=st.sets(st.tuples(groups, st.integers(-(2**63), 2**63 - 1), parts, parts), max_size=30),
    at=groups,
)
def test_any_row_is_read_as_it_was_written(tmp_path_factory, found, times, at) -> None:
    scratch = tmp_path_factory.getbasetemp()
    rows = sorted(
        (state_row(group, key, namespace) + user_key, value)
        for (group, key, namespace, user_key), value in found.items()
    )
    assert rows == list(written(scratch, COUNT, rows).scan(*EVERYTHING))
    start = state_row(at, b"")[:2]
    of_range = [row for row in rows if row[0] >= start]
    assert of_range == list(written(scratch, COUNT, rows).scan(start, b"\xff\xff"))
    timers = sorted((timer_row(*timer), b"") for timer in times)
    assert timers == list(written(scratch, TIMES, timers).scan(*EVERYTHING))


def test_a_file_can_be_read_with_any_parquet_reader(scratch) -> None:
    rows = [(state_row(7, b"acc-1", b"ns") + b"u", b"\x2a")]
    written(scratch, COUNT, rows)
    table = pq.read_table(scratch / "file.parquet")
    assert [
        {"key_group": 7, "key": b"acc-1", "namespace": b"ns", "user_key": b"u", "value": b"\x2a"}
    ] == table.to_pylist()
    assert {
        "format": "canonical/1",
        "name": "count",
        "kind": "value",
        "key": KEY_TYPE,
        "type": {"codec": "msgpack/1"},
    } == json.loads(table.schema.metadata[b"headrace.state"])


def test_a_slot_reads_the_row_groups_of_its_key_groups_alone(scratch, monkeypatch) -> None:
    monkeypatch.setattr(canonical, "ROW_GROUP_ROWS", 10)
    rows = [(state_row(group, b"%d" % n), b"v") for group in range(16) for n in range(10)]
    stored = written(scratch, COUNT, sorted(rows))
    path = scratch / "file.parquet"
    data = bytearray(path.read_bytes())
    spoilt = pq.ParquetFile(path).metadata.row_group(3).column(4).data_page_offset
    data[spoilt : spoilt + 8] = b"\xff" * 8
    path.write_bytes(data)
    assert 40 == len(list(stored.scan(state_row(8, b"")[:2], state_row(12, b"")[:2])))
    with pytest.raises(CorruptStateError, match="cannot be read, restore another checkpoint"):
        list(stored.scan(*EVERYTHING))


def test_large_values_bound_the_row_groups(scratch, monkeypatch) -> None:
    monkeypatch.setattr(canonical, "ROW_GROUP_BYTES", 1000)
    rows = [(state_row(0, b"%03d" % n), b"x" * 300) for n in range(20)]
    assert rows == list(written(scratch, COUNT, rows).scan(*EVERYTHING))
    assert 5 == pq.ParquetFile(scratch / "file.parquet").num_row_groups


@pytest.mark.parametrize("damage", [b"", b"PAR1", "half"])
def test_a_damaged_file_is_refused_by_name(scratch, damage) -> None:
    path = scratch / "file.parquet"
    write_canonical_file(path, KEY_TYPE, COUNT, [(state_row(0, b"k"), b"v")])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] if damage == "half" else damage)
    with pytest.raises(CorruptStateError, match=r"file=.*file\.parquet"):
        CanonicalRows(path, COUNT)


def test_a_file_of_another_state_is_refused(scratch) -> None:
    path = scratch / "file.parquet"
    write_canonical_file(path, KEY_TYPE, COUNT, [])
    with pytest.raises(CorruptStateError, match="another state than its savepoint says"):
        CanonicalRows(path, StateSchema("other", COUNT.kind, COUNT.serializer))


def test_a_newer_format_of_files_is_refused_by_its_version(scratch, monkeypatch) -> None:
    path = scratch / "file.parquet"
    monkeypatch.setattr(canonical, "FORMAT", "canonical/2")
    write_canonical_file(path, KEY_TYPE, COUNT, [])
    monkeypatch.undo()
    with pytest.raises(IncompatibleStateError, match=r"use the release .* format='canonical/2'"):
        CanonicalRows(path, COUNT)


def test_files_of_an_unknown_format_are_refused_by_name(make_bench) -> None:
    source = renamed(make_bench().freeze(), backend="forst")
    with pytest.raises(IncompatibleStateError, match="format='forst'"):
        make_bench(sources=[source])


def test_a_missing_file_is_refused_before_a_row_is_read(make_bench, scratch) -> None:
    bench = make_bench()
    bench.put({KEYS[0]: 1})
    source = as_canonical(bench.freeze(), scratch)
    (source.directory / canonical_name(0)).unlink()
    with pytest.raises(CorruptStateError, match=r"0000\.parquet"):
        CanonicalStorage(source)
    with pytest.raises(CorruptStateError, match=r"0000\.parquet"):
        make_bench(sources=[source])


def test_writing_is_given_up_when_the_caller_says_so(scratch) -> None:
    def check() -> None:
        raise InvalidConfigError("enough")

    with pytest.raises(InvalidConfigError, match="enough"):
        write_canonical_file(scratch / "f", KEY_TYPE, COUNT, [(state_row(0, b"k"), b"v")], check)


def test_state_that_does_not_fit_into_memory_is_refused_on_the_way(scratch, monkeypatch) -> None:
    """Not when all of it is there: the system would have ended the process before."""
    bench = StateBench.open("rocksdb", scratch)
    rows = [(state_row(0, b"key-%06d" % number), b"x" * 50) for number in range(50_000)]
    bench.values()
    bench.backend._storage.rows("count").write(rows)
    written = []
    write = HashmapRows.write
    monkeypatch.setattr(
        HashmapRows, "write", lambda self, batch: written.append(len(batch)) or write(self, batch)
    )
    with pytest.raises(InvalidConfigError, match=r"outgrown .* operator=counter"):
        StateBench.open("hashmap", scratch, sources=[bench.freeze()], memory_bytes=5_000_000)
    assert sum(written) < len(rows)


def test_another_key_type_is_refused_whatever_the_format(make_bench, scratch) -> None:
    bench = make_bench()
    bench.put({KEYS[0]: 1})
    source = as_canonical(bench.freeze(), scratch)
    with pytest.raises(IncompatibleStateError, match="the key type changed"):
        make_bench(sources=[source], keys=LONG)
