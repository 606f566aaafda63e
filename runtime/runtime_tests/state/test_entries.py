"""Stored state can be read as data, without the program, from every backend (C10, E9)."""

import dataclasses

import pytest

from headrace.checkpoint.protocol.types import StateSchema
from headrace.errors import CorruptStateError, IncompatibleStateError
from headrace.serialization.types import INT, LONG, STRING, ClassType, RowType
from headrace.state.entries import EntryReader, StoredEntry
from headrace.state.factory import backend_factory
from headrace.state.list_state import TAIL_BYTES_MAX
from headrace.state.rows import rows_of_range

from .bench_of_state import ManualClock, renamed
from .every_kind import NAMES, WINDOW, EveryKind

NOW_MS = ManualClock().time_ms


def read_all(backend_name, source, directory) -> dict[str, list[StoredEntry]]:
    """Every entry of a snapshot, by state."""
    storage = backend_factory(backend_name).read(source, directory)
    try:
        return {
            schema.name: list(
                EntryReader(source.key_serializer, schema).entries(
                    storage.rows(schema.name).scan(*rows_of_range(source.key_group_range))
                )
            )
            for schema in source.schemas
        }
    finally:
        storage.close()


def by_key(entries: list[StoredEntry], *names: str) -> dict[object, list[tuple]]:
    """Some attributes of the entries of each key."""
    found: dict[object, list[tuple]] = {}
    for entry in entries:
        parts = tuple(getattr(entry, name) for name in names)
        found.setdefault(entry.key, []).append(parts)
    return found


@pytest.fixture
def entries(make_bench, backend_name, scratch):
    bench = make_bench()
    EveryKind(bench).fill()
    return read_all(backend_name, bench.freeze(), scratch / "reading")


def test_entries_come_in_the_order_of_key_groups_with_their_keys(entries) -> None:
    order = [(entry.key_group, entry.key) for entry in entries["count"]]
    assert order == sorted(order)
    assert {key for _, key in order} == set(NAMES)
    for state, found in entries.items():
        groups = [entry.key_group for entry in found]
        assert groups == sorted(groups), state


def test_values_and_folded_values_are_entries(entries) -> None:
    numbered = dict(zip(NAMES, range(3), strict=True))
    assert by_key(entries["count"], "value") == {n: [(i - 1,)] for n, i in numbered.items()}
    assert by_key(entries["pair"], "value") == {n: [((n, i / 2),)] for n, i in numbered.items()}
    assert by_key(entries["total"], "value") == {n: [(2 * i,)] for n, i in numbered.items()}
    assert by_key(entries["mean"], "value") == {n: [((2 * i, 2),)] for n, i in numbered.items()}


def test_elements_of_lists_have_their_positions(entries) -> None:
    items = by_key(entries["items"], "position", "value")
    long = "x" * TAIL_BYTES_MAX
    assert items[NAMES[0]] == [(0, NAMES[0]), (1, NAMES[0])]
    assert items[NAMES[1]] == [(0, NAMES[1]), (1, long), (2, NAMES[1]), (3, long)]
    assert [entry[0] for entry in by_key(entries["blobs"], "position")[NAMES[2]]] == [0, 1]


def test_entries_of_maps_have_their_user_keys(entries) -> None:
    by_pair = by_key(entries["by_pair"], "user_key", "value")
    assert by_pair[NAMES[2]] == [(("a", 2), [b"\x00", b""]), (("b", 2), None)]
    assert by_key(entries["by_number"], "user_key")[NAMES[1]] == [(-1,), (300,)]


def test_entries_that_expire_have_the_time_of_their_last_access(entries) -> None:
    assert by_key(entries["seen"], "value", "time_ms")[NAMES[2]] == [(2, NOW_MS)]
    assert by_key(entries["recent"], "position", "value", "time_ms")[NAMES[2]] == [
        (0, 2, NOW_MS),
        (1, 2, NOW_MS),
    ]
    assert by_key(entries["flags"], "user_key", "value", "time_ms")[NAMES[2]] == [
        ("off", None, NOW_MS),
        ("on", 2, NOW_MS),
    ]


def test_state_of_windows_and_timers_have_namespace_and_time(entries) -> None:
    assert by_key(entries["window_items"], "namespace", "value")[NAMES[1]] == [(WINDOW, 1)] * 4
    assert by_key(entries["_event_timers"], "namespace", "time_ms")[NAMES[2]] == [(b"", -2)]
    assert by_key(entries["_window_timers"], "namespace", "time_ms")[NAMES[2]] == [(WINDOW, 2)]


@dataclasses.dataclass
class Account:
    owner: str
    cents: int


def test_classes_and_rows_are_plain_values(make_bench, backend_name, scratch) -> None:
    bench = make_bench(keys=RowType(("bank", "number"), (STRING, INT)))
    bench.select(("x", 7))
    bench.values("account", ClassType(Account)).update(Account("a", 5))
    bench.lists("history", RowType(("at",), (LONG,))).add((9,))
    found = read_all(backend_name, bench.freeze(), scratch / "reading")
    (account,), (change,) = found["account"], found["history"]
    assert list(account.key) == list(change.key) == ["x", 7]
    assert account.value == {"owner": "a", "cents": 5}
    assert list(change.value) == [9]


def test_a_running_backend_can_be_read_too(make_bench) -> None:
    bench = make_bench()
    bench.put({"a": 1, "b": 2})
    schema = StateSchema("count", "value", bench.values()._serializer.snapshot())
    rows = bench.backend.scan("count", bench.config.key_group_range)
    reader = EntryReader(bench.config.key_serializer.snapshot(), schema)
    assert {entry.key: entry.value for entry in reader.entries(rows)} == {"a": 1, "b": 2}


def test_reading_leaves_the_files_as_they_are(make_bench, backend_name, scratch) -> None:
    bench = make_bench()
    bench.put({"a": 1})
    source = bench.freeze()
    before = {path.name: path.read_bytes() for path in source.directory.iterdir()}
    read_all(backend_name, source, scratch / "reading")
    assert {path.name: path.read_bytes() for path in source.directory.iterdir()} == before


def test_missing_files_are_corrupt_state(make_bench, backend_name, scratch) -> None:
    bench = make_bench()
    bench.put({"a": 1})
    lost = StateSchema("lost", "value", bench.values()._serializer.snapshot())
    source = bench.freeze()
    source = renamed(source, schemas=(*source.schemas, lost))
    with pytest.raises(CorruptStateError, match="lost"):
        read_all(backend_name, source, scratch / "reading")


def test_a_kind_of_a_later_release_is_refused(make_bench) -> None:
    keys = make_bench().config.key_serializer.snapshot()
    with pytest.raises(IncompatibleStateError, match="kind=graph"):
        EntryReader(keys, StateSchema("x", "graph", {}))
