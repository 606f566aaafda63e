"""``headrace state ls|show|get|diff`` on checkpoints of both backends (C10)."""

import base64
import json
import pickle
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.main import build_app
from headrace.cli.state import show
from headrace.errors import CorruptStateError, InvalidConfigError, NoRestorableStateError
from headrace.serialization.types import INT, LONG, STRING, TupleType
from headrace.state.rows import parse_window_namespace
from runtime_tests.state.bench_of_state import ManualClock, StateBench
from runtime_tests.state.every_kind import NAMES, WINDOW

from .stored_job import UID, store_checkpoint

NOW_MS = ManualClock().time_ms
START_MS, END_MS = parse_window_namespace(WINDOW)


def invoke(*arguments):
    words = ["state", *map(str, arguments)]
    result = CliRunner().invoke(build_app(words, (), {}), words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def json_lines(*arguments):
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def by_text(rows):
    """Rows that have no order of their own, sorted."""
    return sorted(rows, key=str)


def entries(path, state, *names, key=None):
    """Some columns of the entries of a state, sorted."""
    found = json_lines("show", path, "--operator", UID, "--state", state, "--limit", 0)
    chosen = [line for line in found if key in {None, line["key"]}]
    return by_text(tuple(line[name] for name in names) for line in chosen)


@pytest.fixture(scope="module", params=["rocksdb", "hashmap"])
def path(request, tmp_path_factory):
    """A checkpoint of two slots, read by every test and changed by none."""
    return store_checkpoint(tmp_path_factory.mktemp("job"), request.param, parallelism=2)


def test_a_listing_says_what_is_stored_and_by_whom(path):
    (found,) = json_lines("ls", path)
    states = {row["state"]: row for row in found["states"]}

    assert (found["kind"], found["checkpoint"], found["max_parallelism"]) == ("checkpoint", 1, 16)
    assert {row["operator"] for row in found["states"]} == {UID, "source", "rules"}
    assert {name: (row["kind"], row["key"], row["type"]) for name, row in states.items()} == {
        "count": ("value", "STRING", "LONG"),
        "pair": ("value", "STRING", "TUPLE<STRING, DOUBLE>"),
        "items": ("list", "STRING", "STRING"),
        "blobs": ("list", "STRING", "PICKLED"),
        "by_number": ("map", "STRING", "INT -> LONG"),
        "by_pair": ("map", "STRING", "TUPLE<STRING, LONG> -> LIST<BYTES>"),
        "total": ("reducing", "STRING", "LONG"),
        "mean": ("aggregating", "STRING", "TUPLE<LONG, LONG>"),
        "seen": ("value", "STRING", "LONG"),
        "recent": ("list", "STRING", "LONG"),
        "flags": ("map", "STRING", "STRING -> LONG"),
        "window_items": ("list", "STRING", "LONG"),
        "_event_timers": ("timers", "STRING", ""),
        "_window_timers": ("timers", "STRING", ""),
        "_own": ("operator, split", "", ""),
        "offsets": ("operator, union", "", "LONG"),
        "rules": ("operator, broadcast", "", "STRING -> TUPLE<STRING, LONG>"),
    }
    assert {name: row["notes"] for name, row in states.items() if row["notes"]} == {
        "blobs": "pickled",
        "seen": "time to live",
        "recent": "time to live",
        "flags": "time to live",
        "window_items": "windows",
        "_window_timers": "windows",
        "_own": "2 items",
        "offsets": "4 items",
        "rules": "1 items",
    }
    assert states["count"]["key_groups"] == "0-7 8-15"
    assert states["count"]["operator_bytes"] > 0


def test_values_and_folded_values_are_shown_by_key(path):
    numbered = list(enumerate(NAMES))
    assert entries(path, "count", "key", "value") == by_text((n, i - 1) for i, n in numbered)
    assert entries(path, "total", "key", "value") == by_text((n, 2 * i) for i, n in numbered)
    assert entries(path, "mean", "key", "value") == by_text(
        (n, {"f0": 2 * i, "f1": 2}) for i, n in numbered
    )


def test_lists_and_maps_are_shown_by_element_and_entry(path):
    name = NAMES[2]
    assert entries(path, "items", "index", "value", key=name) == [(0, name), (1, name)]
    assert entries(path, "by_number", "map_key", "value", key=NAMES[0]) == [
        (-1, 0),
        (0, 0),
        (300, 0),
    ]
    both = [base64.b64encode(value).decode() for value in (b"\x00", b"")]
    assert entries(path, "by_pair", "map_key", "value", key=name) == [
        ({"f0": "a", "f1": 2}, both),
        ({"f0": "b", "f1": 2}, None),
    ]


def test_pickles_are_bytes(path):
    shown = entries(path, "blobs", "value", key=NAMES[2])
    assert [pickle.loads(base64.b64decode(value)) for (value,) in shown] == [{"n": 2}] * 2


def test_expiry_windows_and_timers_have_their_times(path):
    name = NAMES[2]
    assert entries(path, "seen", "value", "last_access_ms", key=name) == [(2, NOW_MS)]
    assert entries(path, "window_items", "window_start_ms", "window_end_ms", "index", key=name) == [
        (START_MS, END_MS, index) for index in range(4)
    ]
    assert entries(path, "_event_timers", "key", "timestamp_ms") == by_text(
        (n, -i) for i, n in enumerate(NAMES)
    )
    assert entries(path, "_window_timers", "window_end_ms", "timestamp_ms", key=name) == [
        (END_MS, 2)
    ]


def test_state_without_keys_is_shown_by_slot_and_entry(path):
    assert json_lines("show", path, "--operator", "source", "--state", "offsets") == [
        {"operator": "source", "state": "offsets", "slot": slot, "index": index, "value": value}
        for slot, index, value in [(0, 0, 0), (0, 1, 10), (1, 0, 1), (1, 1, 11)]
    ]
    (rule,) = json_lines("show", path, "--operator", "rules")
    assert rule == {
        "operator": "rules",
        "state": "rules",
        "slot": 0,
        "map_key": "rule",
        "value": {"f0": "x", "f1": 1},
    }


def test_items_of_headrace_s_own_are_bytes(path):
    found = json_lines("show", path, "--operator", "source", "--state", "_own")
    assert [(line["slot"], line["index"], line["value"]) for line in found] == [
        (0, 0, "AQI="),
        (1, 0, "AQI="),
    ]


def test_a_limit_holds_for_every_state(path):
    found = json_lines("show", path, "--operator", UID, "--limit", 1)
    assert sorted(line["state"] for line in found) == sorted({line["state"] for line in found})
    assert len(found) == 14


def test_away_from_a_terminal_lines_are_separated_by_tabs(path):
    result = invoke("show", path, "--operator", UID, "--state", "count")
    title, head, *rows = result.stdout.splitlines()
    assert (title, head) == (f"# {UID} count (value)", "key\tvalue")
    assert sorted(rows) == sorted(f"{name}\t{i - 1}" for i, name in enumerate(NAMES))


@pytest.mark.parametrize("state", ["count", "items", "by_number", "_event_timers", "window_items"])
def test_one_key_is_found_in_every_kind_of_state(path, state):
    for name in NAMES:
        found = json_lines("get", path, "--operator", UID, "--state", state, "--key", name)
        shown = json_lines("show", path, "-o", UID, "-s", state, "--limit", 0)
        assert found == [line for line in shown if line["key"] == name]
        assert found


def test_a_key_without_entry_is_an_error(path):
    result = invoke("get", path, "-o", UID, "-s", "count", "--key", "nobody")
    assert result.exit_code == 1
    assert "the key has no entry; operator=every-kind state=count key='nobody'" in result.stderr


def test_what_is_not_there_is_named_with_what_is(path, tmp_path):
    with pytest.raises(InvalidConfigError, match=r"operator='x' operators_with_state=.*every-kind"):
        invoke("show", path, "--operator", "x")
    with pytest.raises(InvalidConfigError, match=r"state='x' states=.*'count'"):
        invoke("get", path, "--operator", UID, "--state", "x", "--key", "a")
    assert "state='x'" in invoke("show", path, "--state", "x").stderr
    with pytest.raises(NoRestorableStateError, match="no complete checkpoint"):
        invoke("ls", tmp_path)
    job = path.rpartition("/")[0]
    with pytest.raises(NoRestorableStateError, match=r"directory of a job.*chk-1"):
        invoke("ls", job)


@pytest.mark.parametrize(
    ("keys", "key", "text"),
    [
        (INT, 7, "7"),
        (TupleType((STRING, LONG)), ("a", -1), '["a", -1]'),
    ],
)
def test_keys_are_typed_by_the_key_type(tmp_path, keys, key, text):
    def fill(bench):
        bench.put({key: 5})

    path = store_checkpoint(tmp_path, "hashmap", fill=fill, keys=keys)
    (found,) = json_lines("get", path, "-o", UID, "-s", "count", "--key", text)
    assert found["value"] == 5
    with pytest.raises(InvalidConfigError, match="not a key of"):
        invoke("get", path, "-o", UID, "-s", "count", "--key", "{}")


def test_a_path_may_be_one_of_this_machine(path):
    local = Path(path.removeprefix("file://"))
    assert (
        json_lines("ls", local) == json_lines("ls", path) == json_lines("ls", f"{path}/_metadata")
    )


def test_the_same_state_in_other_slots_or_another_backend_has_no_differences(path, tmp_path):
    for backend in ("rocksdb", "hashmap"):
        other = store_checkpoint(tmp_path / backend, backend, parallelism=3)
        for line in json_lines("diff", path, other):
            assert (line["added"], line["removed"], line["changed"]) == (0, 0, 0), line


def test_differences_are_added_removed_and_changed_entries(tmp_path):
    def before(bench):
        bench.put({"a": 1, "b": 2, "c": 3})
        bench.select("a")
        bench.lists().update([1, 2, 3])
        bench.maps().put_all({"x": 1})

    def after(bench):
        bench.put({"b": 2, "c": 4, "d": 5})
        bench.select("a")
        bench.lists().update([1, 5])
        bench.maps("new").put_all({"x": 1})

    paths = [
        store_checkpoint(tmp_path / name, "hashmap", fill=fill)
        for name, fill in {"before": before, "after": after}.items()
    ]
    lines = json_lines("diff", *paths)
    found = [
        (line["state"], line["change"], line["before"], line["after"])
        for line in lines
        if "change" in line
    ]
    assert sorted(found, key=str) == sorted(
        [
            ("count", "removed", {"key": "a", "value": 1}, None),
            ("count", "changed", {"key": "c", "value": 3}, {"key": "c", "value": 4}),
            ("count", "added", None, {"key": "d", "value": 5}),
            *[
                ("items", change, old, new)
                for change, old, new in [
                    (
                        "changed",
                        {"key": "a", "index": 1, "value": 2},
                        {"key": "a", "index": 1, "value": 5},
                    ),
                    ("removed", {"key": "a", "index": 2, "value": 3}, None),
                ]
            ],
            ("entries", "removed", {"key": "a", "map_key": "x", "value": 1}, None),
            ("new", "added", None, {"key": "a", "map_key": "x", "value": 1}),
        ],
        key=str,
    )
    totals = {line["state"]: line for line in lines if "change" not in line}
    assert {name: total["note"] for name, total in totals.items()} == {
        "count": "",
        "items": "",
        "entries": "only before",
        "new": "only after",
    }


def test_a_changed_type_is_said_and_equal_values_are_no_difference(tmp_path):
    paths = []
    for number, kind in enumerate((INT, LONG)):

        def fill(bench, kind=kind):
            bench.select("a")
            bench.values("count", kind).update(5)

        paths.append(store_checkpoint(tmp_path / str(number), "hashmap", fill=fill))
    (total,) = json_lines("diff", *paths)
    assert total["note"] == "type changed from INT to LONG"
    assert (total["added"], total["removed"], total["changed"]) == (0, 0, 0)


def test_a_changed_file_is_found_out(tmp_path):
    path = store_checkpoint(tmp_path, "hashmap")
    (file, *_) = sorted(Path(path.removeprefix("file://")).glob("*.rows"))
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptStateError, match="not what was stored"):
        invoke("show", path)
    shutil.rmtree(file.parent)


def test_on_a_terminal_entries_are_a_table(path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show(path, operator=UID, state="count")
    shown = capsys.readouterr().out
    assert f"{UID} count (value)" in shown
    assert [name for name in NAMES if f"│ {name} " in shown] == list(NAMES)


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_what_a_slot_has_on_its_disk_is_read_with_the_types_of_a_checkpoint(tmp_path, backend):
    types = store_checkpoint(tmp_path, backend, fill=lambda bench: bench.put({"a": 1}))
    bench = StateBench.open(backend, tmp_path)
    bench.put({"a": 7, "b": 8})
    frozen = bench.snapshot().directory
    places = [frozen, bench.config.directory] if backend == "rocksdb" else [frozen]
    for directory in places:
        found = json_lines("local", directory, "--types", types, "--operator", UID)
        assert by_text((line["key"], line["value"]) for line in found) == [("a", 7), ("b", 8)]
    bench.backend.close()
    with pytest.raises(InvalidConfigError, match="has no keyed state"):
        invoke("local", frozen, "--types", types, "--operator", "source")
    with pytest.raises(CorruptStateError):
        invoke("local", tmp_path / "nothing", "--types", types, "--operator", UID)
