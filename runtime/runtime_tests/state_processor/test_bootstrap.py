"""A savepoint that is written from rows holds exactly those rows, for both backends (E9)."""

import contextlib
import dataclasses
import itertools
import shutil
from collections.abc import Iterable
from decimal import Decimal
from types import SimpleNamespace

import cloudpickle
import msgspec
import pyarrow as pa
import pytest

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.protocol.types import KeyedStateHandle
from headrace.checkpoint.restore import RestoreTarget, assign_restore
from headrace.checkpoint.storage import open_store
from headrace.checkpoint.storage.file import FileStore
from headrace.checkpoint.transfer import TransferPool
from headrace.clock import SystemClock
from headrace.common import Time, Types
from headrace.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from headrace.datastream.time_domain import TimeDomain
from headrace.errors import (
    IncompatibleStateError,
    InvalidConfigError,
    InvalidProgramError,
    ObjectExistsError,
    StorageUnavailableError,
)
from headrace.ids import OperatorUid, SlotIndex
from headrace.keygroups import key_group_range_of_slot
from headrace.serialization.row import Row, row_class
from headrace.state_processor.bootstrap import (
    KeyedBootstrap,
    SavepointTarget,
    slot_of,
    write_slot,
)
from headrace.state_processor.declared import converter
from headrace.state_processor.existing import copy_files, read_existing, without_operator
from headrace.state_processor.functions import (
    FillColumns,
    KeyedStateBootstrapFunction,
    StateColumns,
    TimerColumns,
)
from headrace.state_processor.publication import check_free, discard, publish
from headrace.state_processor.reading import StateFiles, read_stored_state
from headrace.state_processor.spark.writer import (
    SavepointWriter,
    _key_group_adder,
    _slot_writer,
)
from headrace.state_processor.text import EntryTexts
from runtime_tests.datastream.test_state_descriptors import Count
from runtime_tests.slot.test_runtime_context import context_of
from runtime_tests.state.bench_of_state import MAX_PARALLELISM, StateBench

from .stored_job import store_checkpoint

UID = OperatorUid("accounts")
LONG, STRING = Types.LONG(), Types.STRING()
KEYS = [f"key-{number}" for number in range(40)]

VALUE = ValueStateDescriptor("balance", LONG)
ITEMS = ListStateDescriptor("items", STRING)
ENTRIES = MapStateDescriptor("entries", STRING, LONG)
TOTAL = ReducingStateDescriptor("total", lambda a, b: a + b, LONG)
COUNT = AggregatingStateDescriptor("count", Count(), LONG)
SEEN = ValueStateDescriptor("seen", LONG)
SEEN.enable_time_to_live(StateTtlConfig.new_builder(Time.days(36_500)).build())


def operator(fill, key_type=STRING) -> KeyedBootstrap:
    function = fill if isinstance(fill, KeyedStateBootstrapFunction) else FillColumns(fill)
    return KeyedBootstrap(UID, key_type.key_serializer(), function)


def write(root, bootstrap: KeyedBootstrap, rows: Iterable[Row], uid=UID, **settings) -> str:
    """Write rows with a column ``key`` as Spark's tasks do, one slot after the other."""
    bootstrap = dataclasses.replace(bootstrap, uid=OperatorUid(uid))
    settings = {"parallelism": 3, "max_parallelism": MAX_PARALLELISM, **settings}
    target = SavepointTarget(f"{root.as_uri()}/savepoint", **settings)
    check_free(target)
    by_slot: dict[int, list[tuple[object, Row]]] = {s: [] for s in range(target.parallelism)}
    for row in sorted(rows, key=lambda row: str(row["key"])):
        group = bootstrap.key_group(row["key"], target.max_parallelism)
        by_slot[slot_of(target, group)].append((row["key"], row))
    handles = [
        write_slot(target, bootstrap, SlotIndex(slot), found, SystemClock())
        for slot, found in by_slot.items()
    ]
    publish(target, {bootstrap.uid: handles}, SystemClock())
    return target.location


def table(names: str, *rows) -> list[Row]:
    make = row_class(tuple(names.split()))
    return [make(row) for row in rows]


def entries(path: str, state: str, *names: str) -> list[tuple]:
    """Some columns of all entries that are stored, sorted."""
    found = read_stored_state(path, {}).table(UID, state)
    texts = EntryTexts(found)
    with StateFiles({}) as files:
        plain = texts.plain(list(texts.columns.entries(files.rows(found))))
    return sorted((tuple(entry[name] for name in names) for entry in plain), key=str)


def restore(path: str, root, backend: str, parallelism: int) -> list[StateBench]:
    """Open the savepoint as the slots of a job do."""

    def open_root(uri):
        return open_store(uri, {})

    metadata = read_checkpoint_at(path, open_root)
    plan = assign_restore(metadata, RestoreTarget(parallelism, MAX_PARALLELISM, {UID}))
    pool = TransferPool(1)
    downloader = SnapshotDownloader(open_root(path), pool, open_elsewhere=open_root)
    number = itertools.count()
    benches = [
        StateBench.open(
            backend,
            root,
            key_groups=key_group_range_of_slot(slot.slot, parallelism, MAX_PARALLELISM),
            sources=[
                downloader.download_keyed(handle, root / f"download-{next(number)}")
                for handle in slot.keyed
            ],
        )
        for slot in plan.slots
    ]
    pool.close()
    return benches


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("restored", ["rocksdb", "hashmap"])
@pytest.mark.parametrize("written", ["rocksdb", "hashmap"])
def test_a_job_s_backend_holds_exactly_the_rows(tmp_path, written, restored, parallelism):
    rows = table("key value", *((key, number) for number, key in enumerate(KEYS)))
    path = write(tmp_path, operator([StateColumns(VALUE)]), rows, backend=written)
    found = {}
    for bench in restore(path, tmp_path, restored, parallelism):
        owned = {
            key: value
            for key in KEYS
            if bench.owns(key)
            for value in [bench.read([key], "balance").get(key)]
        }
        stored = bench.backend.scan("balance", bench.config.key_group_range)
        assert len(list(stored)) == len(owned)
        found |= owned
        bench.backend.close()
    assert {row["key"]: row["value"] for row in rows} == found


def test_every_kind_of_state_and_timers_are_made_of_columns(tmp_path):
    rows = table(
        "key value index map_key value_of total input seen_value accessed timestamp_ms fires_ms",
        *[
            (key, 7 if i == 0 else None, i, f"m{i}", None if i else 5, i + 1, "x",
             3 if i == 0 else None, 1_000_000, -5 if i == 0 else None, 2**62 + i)
            for key in KEYS
            for i in range(3)
        ],
    )  # fmt: skip
    path = write(
        tmp_path,
        operator(
            [
                StateColumns(VALUE),
                StateColumns(ITEMS, value="map_key"),
                StateColumns(ENTRIES, value="value_of"),
                StateColumns(TOTAL, value="total"),
                StateColumns(COUNT, value="input"),
                StateColumns(SEEN, value="seen_value", last_access_ms="accessed"),
                TimerColumns(TimeDomain.EVENT_TIME),
                TimerColumns(TimeDomain.PROCESSING_TIME, "fires_ms"),
            ]
        ),
        rows,
    )
    keys = sorted(KEYS)
    assert entries(path, "balance", "key", "value") == [(key, 7) for key in keys]
    assert entries(path, "items", "key", "index", "value") == [
        (key, i, f"m{i}") for key in keys for i in range(3)
    ]
    assert entries(path, "entries", "key", "map_key") == [
        (key, f"m{i}") for key in keys for i in range(3)
    ]
    assert {v for (v,) in entries(path, "entries", "value") if v is not None} == {5}
    assert entries(path, "total", "key", "value") == [(key, 6) for key in keys]
    assert entries(path, "count", "key", "value") == [(key, 3) for key in keys]
    assert entries(path, "seen", "key", "value", "last_access_ms") == [
        (key, 3, 1_000_000) for key in keys
    ]
    assert entries(path, "_event_timers", "key", "timestamp_ms") == [(key, -5) for key in keys]
    assert entries(path, "_processing_timers", "key", "timestamp_ms") == [
        (key, 2**62 + i) for key in keys for i in range(3)
    ]


def test_the_states_are_those_that_the_job_declares(tmp_path):
    rows = table("key value map_key", *((key, 1, "m") for key in KEYS))
    columns = [StateColumns(VALUE), StateColumns(ENTRIES), StateColumns(TOTAL)]
    path = write(tmp_path, operator(columns), rows)
    (bench,) = restore(path, tmp_path, "rocksdb", 1)
    context = context_of(bench.backend)
    value, entries_ = context.get_state(VALUE), context.get_map_state(ENTRIES)
    total = context.get_reducing_state(TOTAL)
    bench.timers("_event_timers")
    bench.timers("_processing_timers")
    bench.backend.finish_registration()
    for key in KEYS:
        bench.select(key)
        total.add(1)
        assert (value.value(), dict(entries_.items()), total.get()) == (1, {"m": 1}, 2)
    bench.backend.close()


class TwoStates(KeyedStateBootstrapFunction):
    """Flink's way: a function."""

    def open(self, runtime_context):
        self.value = runtime_context.get_state(VALUE)
        self.items = runtime_context.get_list_state(ITEMS)

    def process_element(self, value, ctx):
        self.value.update((self.value.value() or 0) + value["n"])
        self.items.add(ctx.get_current_key())
        ctx.timer_service().register_event_time_timer(value["n"])


def test_a_function_writes_whatever_it_likes(tmp_path):
    rows = table("key n", *((key, n) for key in KEYS[:3] for n in (1, 2)))
    path = write(tmp_path, operator(TwoStates()), rows)
    assert entries(path, "balance", "key", "value") == [(key, 3) for key in KEYS[:3]]
    assert entries(path, "items", "key", "value") == [(k, k) for k in KEYS[:3] for _ in "12"]
    assert entries(path, "_event_timers", "key", "timestamp_ms") == [
        (key, n) for key in KEYS[:3] for n in (1, 2)
    ]


def test_a_savepoint_without_rows_covers_all_key_groups(tmp_path):
    path = write(tmp_path, operator([StateColumns(VALUE)]), [])
    assert entries(path, "balance", "key") == []
    assert len(restore(path, tmp_path, "hashmap", 2)) == 2


def test_a_savepoint_refers_to_its_own_directory_alone(tmp_path):
    path = write(tmp_path, operator([StateColumns(VALUE)]), table("key value", ("a", 1)))
    moved = tmp_path / "elsewhere"
    (tmp_path / "savepoint").rename(moved)
    assert path.endswith("/savepoint")
    assert entries(moved.as_uri(), "balance", "key", "value") == [("a", 1)]


def test_an_existing_savepoint_is_never_replaced(tmp_path):
    bootstrap = operator([StateColumns(VALUE)])
    write(tmp_path, bootstrap, table("key value", ("a", 1)))
    with pytest.raises(InvalidConfigError, match="there is a savepoint already"):
        write(tmp_path, bootstrap, [])
    late = SavepointTarget(f"{tmp_path.as_uri()}/savepoint", 1, MAX_PARALLELISM)
    handle = write_slot(late, bootstrap, SlotIndex(0), (), SystemClock())
    with pytest.raises(InvalidConfigError, match="there is a savepoint already"):
        publish(late, {UID: [handle]}, SystemClock())
    discard(late)
    assert entries(f"{tmp_path.as_uri()}/savepoint", "balance", "value") == [(1,)]
    assert len([*(tmp_path / "savepoint").iterdir()]) <= 3


@pytest.mark.parametrize("lost", [1, 3])
def test_a_savepoint_keeps_its_files_when_answers_are_lost(tmp_path, monkeypatch, lost):
    create, answers = FileStore.create, itertools.count()

    def unanswered(store, path, data):
        with contextlib.suppress(ObjectExistsError):
            create(store, path, data)
        if next(answers) < lost:
            raise StorageUnavailableError("no answer")

    monkeypatch.setattr(FileStore, "create", unanswered)
    with contextlib.suppress(StorageUnavailableError):
        write(tmp_path, operator([StateColumns(VALUE)]), table("key value", ("a", 1)))
    path = f"{tmp_path.as_uri()}/savepoint"
    assert entries(path, "balance", "key", "value") == [("a", 1)]


def test_files_of_a_repeated_task_do_not_stay(tmp_path):
    bootstrap = operator([StateColumns(VALUE)])
    target = SavepointTarget(f"{tmp_path.as_uri()}/savepoint", 1, MAX_PARALLELISM, "hashmap")
    write_slot(target, bootstrap, SlotIndex(0), (), SystemClock())
    handle = write_slot(target, bootstrap, SlotIndex(0), (), SystemClock())
    publish(target, {UID: [handle]}, SystemClock())
    files = {path.name for path in (tmp_path / "savepoint").rglob("g1-c1-*")}
    assert files == {file.path.rpartition("/")[2] for file in handle.files}


@pytest.mark.parametrize(
    ("fill", "rows", "message"),
    [
        ([StateColumns(VALUE)], table("key value", ("a", 1), ("a", 2)), "two rows are one entry"),
        (
            [StateColumns(ENTRIES)],
            table("key map_key value", ("a", "m", 1), ("a", "m", 1)),
            "map_key='m'",
        ),
        ([StateColumns(VALUE)], table("key value", ("a", "text")), r"state=balance key='a'"),
        ([StateColumns(VALUE)], table("key value", (1, 1)), "a key of another type"),
        ([StateColumns(VALUE)], table("key value", (None, 1)), "a row has no key"),
    ],
)
def test_a_row_that_does_not_fit_is_named(tmp_path, fill, rows, message):
    with pytest.raises(InvalidProgramError, match=message):
        write(tmp_path, operator(fill), rows)


@pytest.mark.parametrize(
    "settings", [{"parallelism": 17}, {"max_parallelism": 40_000}, {"backend": "heap"}]
)
def test_settings_that_no_job_can_have_are_refused(tmp_path, settings):
    with pytest.raises(InvalidConfigError):
        write(tmp_path, operator([StateColumns(VALUE)]), [], **settings)


@dataclasses.dataclass
class Place:
    name: str
    at: tuple[int, float]
    by_day: dict[str, list[int]]


PLACE = {"name": "x", "at": {"f0": 1, "f1": 2.5}, "by_day": [("mon", [1])]}


@pytest.mark.parametrize(
    ("declared", "plain", "expected"),
    [
        (Types.BIG_INT(), Decimal(10**22), 10**22),
        (Types.TUPLE([STRING, LONG]), {"f0": "a", "f1": 1}, ("a", 1)),
        (Types.ROW_NAMED(["a"], [Types.TUPLE([LONG])]), {"a": {"f0": 1}}, Row(a=(1,))),
        (Types.MAP(STRING, Types.LIST(LONG)), [("a", [1, None])], {"a": [1, None]}),
        (Types.POJO(Place), PLACE, Place("x", (1, 2.5), {"mon": [1]})),
        (LONG, None, None),
        (Types.LIST(LONG), None, None),
    ],
)
def test_columns_become_values_of_declared_types(declared, plain, expected):
    assert converter(declared.description)(plain) == expected


def shipped(function):
    """A function as a task has it."""
    return cloudpickle.loads(cloudpickle.dumps(function))


def test_tasks_bring_every_row_to_the_slot_of_its_key(tmp_path):
    """What runs in Spark's tasks, without Spark: rows are shuffled as it would."""
    target = SavepointTarget(f"{tmp_path.as_uri()}/savepoint", 3, MAX_PARALLELISM)
    bootstrap = operator([StateColumns(VALUE)])
    to_key = converter(STRING.description)
    batch = pa.RecordBatch.from_pydict({"key": KEYS, "value": range(len(KEYS))})
    add_place = shipped(_key_group_adder(target, bootstrap, "key", to_key))
    (placed,) = add_place(iter([batch]))
    rows = pa.Table.from_batches([placed]).sort_by(
        [("_headrace_slot", "ascending"), ("key", "ascending")]
    )
    write_partition = shipped(_slot_writer(target, bootstrap, "key", to_key))
    written = pa.Table.from_batches(write_partition(iter(rows.to_batches(max_chunksize=7))))
    assert written["slot"].to_pylist() == [0, 1, 2]
    handles = [
        msgspec.json.decode(data, type=KeyedStateHandle) for data in written["handle"].to_pylist()
    ]
    publish(target, {UID: handles}, SystemClock())
    assert entries(target.location, "balance", "key", "value") == sorted(
        (key, number) for number, key in enumerate(KEYS)
    )


def test_another_savepoint_is_taken_over_but_for_what_is_written_anew(tmp_path):
    rows = table("key value", *((key, number) for number, key in enumerate(KEYS)))
    columns = [StateColumns(VALUE)]
    old = write(tmp_path, operator(columns), rows)
    target = SavepointTarget(f"{tmp_path.as_uri()}/both", 3, MAX_PARALLELISM, "hashmap")
    added = dataclasses.replace(operator(columns), uid=OperatorUid("added"))
    handles = [write_slot(target, added, SlotIndex(slot), (), SystemClock()) for slot in range(3)]
    existing = copy_files(read_existing(old, {}), target)
    publish(target, {added.uid: handles}, SystemClock(), existing)
    shutil.rmtree(tmp_path / "savepoint")

    stored = read_stored_state(target.location, {})
    assert [one.uid for one in stored.operators] == [UID, "added"]
    assert [one.backends for one in stored.operators] == [("rocksdb",), ("hashmap",)]
    found = entries(target.location, "balance", "key", "value")
    assert found == sorted((row["key"], row["value"]) for row in rows)


def test_an_operator_can_be_left_out(tmp_path):
    path = write(tmp_path, operator([StateColumns(VALUE)]), table("key value", ("a", 1)))
    existing = read_existing(path, {})
    left = without_operator(existing, UID)
    assert (left.operators, [slot.keyed for slot in left.slots]) == ([], [[], [], []])
    with pytest.raises(InvalidConfigError, match=r"operator='x' operators=\['accounts'\]"):
        without_operator(existing, OperatorUid("x"))


def test_a_checkpoint_cannot_be_taken_over(tmp_path):
    with pytest.raises(IncompatibleStateError, match="kind=checkpoint"):
        read_existing(store_checkpoint(tmp_path, "hashmap"), {})


def frame_of(*columns):
    """As much of a DataFrame as is looked at before anything runs."""
    return SimpleNamespace(columns=list(columns))


def new_writer(**changes) -> SavepointWriter:
    return dataclasses.replace(SavepointWriter(None, MAX_PARALLELISM, 2, "rocksdb", {}), **changes)


def add(writer: SavepointWriter, *columns: str, key_type=STRING) -> SavepointWriter:
    fill = [StateColumns(VALUE)]
    return writer.with_operator(UID, frame_of(*columns), key="key", key_type=key_type, fill=fill)


def test_mistakes_are_found_before_anything_runs(tmp_path):
    with pytest.raises(InvalidProgramError, match=r"missing=\['value'\] columns=\['key'\]"):
        add(new_writer(), "key")
    with pytest.raises(InvalidProgramError, match="written twice"):
        add(add(new_writer(), "key", "value"), "key", "value")
    with pytest.raises(InvalidProgramError):
        add(new_writer(), "key", "value", key_type=Types.MAP(STRING, LONG))
    with pytest.raises(InvalidProgramError, match="holds nothing"):
        new_writer().write(str(tmp_path))
    with pytest.raises(InvalidConfigError, match="no existing savepoint"):
        new_writer().remove_operator(UID)


def test_state_of_an_existing_savepoint_is_written_anew_only_after_its_removal(tmp_path):
    path = write(tmp_path, operator([StateColumns(VALUE)]), [])
    writer = SavepointWriter.from_existing_savepoint(None, path)
    assert (writer.parallelism, writer.max_parallelism) == (3, MAX_PARALLELISM)
    with pytest.raises(InvalidProgramError, match="remove it first"):
        add(writer, "key", "value")
    assert UID in add(writer.remove_operator(UID), "key", "value").operators
