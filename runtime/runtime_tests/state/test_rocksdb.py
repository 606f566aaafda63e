"""What only RocksDB has: its files, its options, its errors (C5, C9, C11, J2-J4, T5, T21, T25)."""

import gc
import os
from pathlib import Path

import pytest
from rocksdict import Rdict

from headrace.clock import SystemClock
from headrace.config.job_configuration import parse_options
from headrace.errors import CorruptStateError, InternalError, InvalidConfigError, LocalStorageError
from headrace.keygroups import KeyGroupRange
from headrace.serialization.types import BYTES
from headrace.state.memory import SlotMemories, SlotMemory
from headrace.state.rocksdb.errors import reading_stored_files, translate
from headrace.state.rocksdb.factory import RocksDBBackendFactory
from headrace.state.rocksdb.settings import parse_settings

from .bench_of_state import MAX_PARALLELISM, ManualClock, StateBench, as_source, one_key_per_group

KEYS = one_key_per_group()
MB = 1 << 20


def storage_of(bench: StateBench):
    return bench.backend._storage._storage  # below the one that notes changes


def test_one_column_family_a_state_with_rows_in_the_documented_layout(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put({"k": 5}, "click_count")
    bench.register([(1, "k")])
    directory = bench.freeze().directory
    raw = Rdict(str(directory))
    assert sorted(Rdict.list_cf(str(directory))) == ["_event_timers", "click_count", "default"]
    group = bench.key_group("k").to_bytes(2, "big")
    assert list(raw.get_column_family("click_count").items()) == [
        (group + b"\x00\x00\x00\x01k\x00\x00", b"\x05")
    ]
    assert list(raw.get_column_family("_event_timers").items()) == [
        (group + b"\x80\x00\x00\x00\x00\x00\x00\x01" + b"\x00\x00\x00\x01k\x00\x00", b"")
    ]


def test_the_working_directory_looks_like_a_rocksdb(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put({"a": 1})
    bench.snapshot()
    files = [path.name for path in (bench.config.directory / "db").iterdir()]
    for needed in ("CURRENT", "IDENTITY", "LOCK", "LOG"):
        assert needed in files
    for prefix, suffix in (("MANIFEST-", ""), ("OPTIONS-", ""), ("", ".sst"), ("0", ".log")):
        assert [name for name in files if name.startswith(prefix) and name.endswith(suffix)]


def test_the_options_file_shows_what_was_configured(make_rocksdb) -> None:
    bench = make_rocksdb(options={"state.backend.rocksdb.writebuffer.size": "32mb"})
    bench.put({"a": 1})
    text = max((bench.config.directory / "db").glob("OPTIONS-*")).read_text()
    for line in (
        f"write_buffer_size={32 * MB}",
        "filter_policy=bloomfilter",
        "cache_index_and_filter_blocks=true",
        "compression=kLZ4Compression",
    ):
        assert line in text


def test_the_write_ahead_log_stays_empty(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put({f"key-{number}": number for number in range(1000)})
    bench.backend.flush()
    logs = list((bench.config.directory / "db").glob("*.log"))
    assert [path.stat().st_size for path in logs] == [0]
    assert [f for f in bench.snapshot().files if f.name.endswith(".log")] == []


def test_unchanged_tables_keep_their_names_over_snapshots(make_rocksdb) -> None:
    """So an incremental checkpoint uploads only what is new (D9)."""
    bench = make_rocksdb()
    bench.put(dict.fromkeys(KEYS, 1))
    first = bench.snapshot()
    bench.put({KEYS[0]: 2})
    second = bench.snapshot()
    old = {f.name: f.path.stat().st_ino for f in first.files if f.shareable}
    new = {f.name: f.path.stat().st_ino for f in second.files if f.shareable}
    assert len(new) == len(old) + 1
    assert {name: new[name] for name in old} == old
    third = bench.snapshot()
    assert {f.name for f in third.files if f.shareable} == set(new)


def test_the_manifest_does_not_grow_with_the_number_of_checkpoints(
    make_rocksdb, monkeypatch
) -> None:
    """It is uploaded with each of them."""
    monkeypatch.setattr("headrace.state.rocksdb.options.MANIFEST_BYTES_MAX", 2000)
    bench = make_rocksdb()
    sizes = []
    for number in range(60):
        bench.put({"a": number})
        files = bench.snapshot().files
        sizes.append(sum(f.size_bytes for f in files if f.name.startswith("MANIFEST")))
    assert max(sizes) < 3000


def test_a_restored_database_links_the_tables_and_copies_the_rest(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put(dict.fromkeys(KEYS, 1))
    source = bench.freeze()
    restored = make_rocksdb(sources=[source])
    for path in source.directory.iterdir():
        twin = restored.config.directory / "db" / path.name
        if path.suffix == ".sst":
            assert twin.stat().st_ino == path.stat().st_ino
        elif twin.exists():
            assert twin.stat().st_ino != path.stat().st_ino


def test_rows_of_other_key_groups_are_gone_after_compaction(make_rocksdb) -> None:
    bench = make_rocksdb()
    state = bench.values("blob", BYTES)
    for key in KEYS:
        bench.select(key)
        state.update(os.urandom(50_000))
    bench.register([(number, key) for number, key in enumerate(KEYS)])
    half = make_rocksdb(
        key_groups=KeyGroupRange(0, MAX_PARALLELISM // 2 - 1), sources=[bench.freeze()]
    )
    storage = storage_of(half)
    assert len(list(storage.rows("blob").scan(b"", b"\xff\xff"))) == MAX_PARALLELISM // 2
    half.backend.flush()
    before = half.backend.metrics()["rocksdb.total-sst-files-size"]
    for name in ("blob", "_event_timers"):
        storage.rows(name).compact()
    after = half.backend.metrics()["rocksdb.total-sst-files-size"]
    assert after < before * 0.6
    assert len(list(storage.rows("blob").scan(b"", b"\xff\xff"))) == MAX_PARALLELISM // 2
    assert [key for _, key in half.fire(100)] == KEYS[: MAX_PARALLELISM // 2]


def test_a_closed_database_lets_go_of_its_lock_although_states_live_on(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put({"a": 1})
    bench.register([(1, "a")])
    states = (bench.values(), bench.timers())
    bench.backend.close()
    gc.collect()
    path = str(bench.config.directory / "db")
    reopened = Rdict(path)
    reopened.close()
    assert len(states) == 2


def test_a_database_in_use_is_not_opened_twice(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put({"a": 1})
    with pytest.raises(InternalError, match="empty directory"):
        RocksDBBackendFactory().open(bench.config, [])


def test_a_corrupt_block_is_reported_when_it_is_read(make_rocksdb) -> None:
    bench = make_rocksdb()
    state = bench.values("blob", BYTES)
    for number in range(200):
        bench.select(f"key-{number}")
        state.update(os.urandom(1000))
    source = bench.freeze()
    (table,) = source.directory.glob("*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.write_bytes(data)
    restored = make_rocksdb(sources=[source])
    with pytest.raises(CorruptStateError, match="database="):
        list(storage_of(restored).rows("blob").scan(b"", b"\xff\xff"))
    blobs = restored.values("blob", BYTES)
    with pytest.raises(CorruptStateError, match="database="):
        restored.read_all(blobs, [f"key-{number}" for number in range(200)])


def test_a_corrupt_block_stops_a_merge(make_rocksdb) -> None:
    """A merge that ended early at a bad block would lose rows without a word."""
    halves = [KeyGroupRange(0, 7), KeyGroupRange(8, 15)]
    sources = []
    for owned, keys in zip(halves, (KEYS[:8], KEYS[8:]), strict=True):
        bench = make_rocksdb(key_groups=owned)
        state = bench.values("blob", BYTES)
        for key in keys:
            bench.select(key)
            state.update(os.urandom(20_000 if owned.start else 30_000))
        sources.append(bench.freeze())
    (table,) = sources[1].directory.glob("*.sst")
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.write_bytes(data)
    with pytest.raises(CorruptStateError):
        make_rocksdb(sources=sources)


def test_memory_is_bounded_by_the_managed_budget(make_rocksdb) -> None:
    budget = 8 * MB
    bench = make_rocksdb(memory_bytes=budget)
    state = bench.values("blob", BYTES)
    peak = 0.0
    for number in range(20_000):
        bench.select(f"key-{number}")
        state.update(number.to_bytes(4, "big") * 500)
        if number % 500 == 0:
            metrics = bench.backend.metrics()
            peak = max(peak, metrics["rocksdb.block-cache-usage"] + metrics["stateCacheBytes"])
    for number in range(0, 20_000, 7):
        bench.select(f"key-{number}")
        assert state.value() == number.to_bytes(4, "big") * 500
    metrics = bench.backend.metrics()
    peak = max(peak, metrics["rocksdb.block-cache-usage"] + metrics["stateCacheBytes"])
    # 40 MB of state went through; a memtable being flushed may go over by its arena.
    assert peak < budget * 1.25


def test_metrics_carry_flinks_names(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put({"a": 1})
    bench.snapshot()
    metrics = bench.backend.metrics()
    assert metrics["rocksdb.total-sst-files-size"] > 0
    assert metrics["rocksdb.estimate-num-keys"] == 1
    assert {
        "rocksdb.block-cache-usage",
        "rocksdb.cur-size-all-mem-tables",
        "rocksdb.estimate-pending-compaction-bytes",
        "rocksdb.is-write-stopped",
    } <= set(metrics)


def test_managed_memory_is_divided_as_flink_does() -> None:
    settings = parse_settings({"headrace.state.cache.fraction": "0.25"}, 400 * MB)
    assert settings.object_cache_bytes == 100 * MB
    assert settings.block_cache_bytes == 250 * MB  # 300 MB * (3 - 0.5) / 3
    assert settings.memtables_bytes == 100 * MB  # 300 MB * 2 * 0.5 / 3
    assert settings.write_buffer_bytes == 64 * MB
    assert settings.arena_block_bytes == 100 * MB // 128


def test_operators_of_a_slot_share_native_memory(tmp_path) -> None:
    """J2: an operator that needs little leaves its part to the others."""
    budget = 12 * MB
    memory = SlotMemory(budget)
    benches = [
        StateBench.open("rocksdb", tmp_path, memory_bytes=budget // 3, memory=memory)
        for _ in range(3)
    ]
    busy, *idle = benches
    for bench in idle:
        bench.put({"a": 1})
        bench.backend.flush()
    state = busy.values("blob", BYTES)
    usages = []
    for number in range(20_000):
        busy.select(f"key-{number}")
        state.update(number.to_bytes(4, "big") * 250)
        if number % 1000 == 0:
            usages.append(idle[0].backend.metrics()["rocksdb.block-cache-usage"])
    for bench in benches:
        metrics = bench.backend.metrics()
        assert metrics["rocksdb.block-cache-capacity"] == pytest.approx(budget * 0.7 * 2.5 / 3)
        assert metrics["stateCacheBudgetBytes"] == int(budget // 3 * 0.3)
        bench.backend.close()
    alone = budget // 3 * 0.7 / 3  # what its memtables might use without the others
    # Seen by one that writes nothing itself.
    assert 2 * alone < max(usages) < budget * 0.7 * 1.25


def test_the_memory_of_a_slot_is_the_same_over_its_generations() -> None:
    memories = SlotMemories()
    first = memories.of_bytes(5 * MB)
    assert memories.of_bytes(5 * MB) is first
    assert memories.of_bytes(6 * MB).managed_bytes == 6 * MB


def test_unmanaged_memory_is_not_shared(tmp_path) -> None:
    memory = SlotMemory(12 * MB)
    options = {"state.backend.rocksdb.memory.managed": "false"}
    benches = [
        StateBench.open("rocksdb", tmp_path, options=options, memory=memory) for _ in range(2)
    ]
    benches[0].put({f"key-{number}": number for number in range(1000)})
    benches[0].snapshot()
    benches[0].rows("count")
    usages = [bench.backend.metrics()["rocksdb.block-cache-usage"] for bench in benches]
    assert usages[0] > usages[1]
    for bench in benches:
        bench.backend.close()


def test_small_budgets_get_small_arenas() -> None:
    settings = parse_settings({}, 4 * MB)
    assert settings.arena_block_bytes * 8 <= settings.memtables_bytes


def test_unmanaged_memory_uses_the_given_sizes() -> None:
    settings = parse_settings(
        {
            "state.backend.rocksdb.memory.managed": "false",
            "state.backend.rocksdb.block.cache-size": "300m",
            "state.backend.rocksdb.writebuffer.size": "128 mb",
            "state.backend.rocksdb.writebuffer.count": "3",
            "state.backend.rocksdb.use-bloom-filter": "false",
            "state.backend.rocksdb.compaction.style": "universal",
        },
        64 * MB,
    )
    assert settings.memtables_bytes is None
    assert settings.block_cache_bytes == 300 * MB
    assert (settings.write_buffer_bytes, settings.write_buffers) == (128 * MB, 3)
    assert settings.bloom_bits is None
    assert settings.universal_compaction


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("state.backend.rocksdb.writebuffer.sise", "64mb", "check its spelling"),
        ("state.backend.rocksdb.writebuffer.size", "many", "expected a size"),
        ("state.backend.rocksdb.memory.managed", "yes", "expected true or false"),
        ("state.backend.rocksdb.memory.high-prio-pool-ratio", "0.2", "binding cannot set"),
        ("state.backend.rocksdb.log.level", "DEBUG_LEVEL", "binding cannot set"),
        ("state.backend.rocksdb.bloom-filter.block-based-mode", "true", "binding cannot set"),
        ("state.backend.rocksdb.compression.per.level", "LZ5", "expected values separated by ';'"),
    ],
)
def test_an_option_that_cannot_be_honoured_is_refused_by_name(
    make_rocksdb, key: str, value: str, named: str
) -> None:
    with pytest.raises(InvalidConfigError, match=named) as refused:
        make_rocksdb(options={key: value})
    assert f"key={key}" in str(refused.value)


def test_the_options_that_configuration_hands_over_give_the_documented_defaults() -> None:
    handed_over = parse_options({}).state_backend_options()
    assert parse_settings(handed_over, 256 * MB) == parse_settings({}, 256 * MB)


def test_options_that_are_set_win_over_a_predefined_set() -> None:
    predefined = {"state.backend.rocksdb.predefined-options": "SPINNING_DISK_OPTIMIZED_HIGH_MEM"}
    settings = parse_settings(predefined, 256 * MB)
    assert (settings.threads, settings.dynamic_levels) == (4, True)
    assert (settings.target_file_bytes, settings.level_base_bytes) == (256 * MB, 1 << 30)
    assert (settings.write_buffers, settings.write_buffers_to_merge) == (4, 3)
    assert settings.block_bytes == 128 << 10
    handed_over = parse_options(
        predefined | {"state.backend.rocksdb.thread.num": "3"}
    ).state_backend_options()
    assert parse_settings(handed_over, 256 * MB).threads == 3
    flash = {"state.backend.rocksdb.predefined-options": "flash_ssd_optimized"}
    assert parse_settings(flash, 256 * MB).threads == 4


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        (
            "compression.per.level",
            "NO_COMPRESSION;ZSTD_COMPRESSION",
            "compression_per_level=kNoCompression:kZSTD:kZSTD:kZSTD:kZSTD:kZSTD:kZSTD",
        ),
        ("compression.per.level", "SNAPPY_COMPRESSION", "compression=kSnappyCompression"),
        ("memory.partitioned-index-filters", "true", "partition_filters=true"),
        ("block.metadata-blocksize", "8kb", "metadata_block_size=4096"),
        ("log.file-num", "7", "keep_log_file_num=7"),
        ("log.max-file-size", "2mb", f"max_log_file_size={2 * MB}"),
        ("thread.num", "3", "max_background_jobs=3"),
        ("block.blocksize", "16kb", "block_size=16384"),
        ("compaction.style", "UNIVERSAL", "compaction_style=kCompactionStyleUniversal"),
        ("compaction.level.use-dynamic-size", "true", "level_compaction_dynamic_level_bytes=true"),
        ("compaction.level.target-file-size-base", "5mb", f"target_file_size_base={5 * MB}"),
        ("compaction.level.max-size-level-base", "9mb", f"max_bytes_for_level_base={9 * MB}"),
        ("writebuffer.count", "5", "max_write_buffer_number=5"),
        ("files.open", "99", "max_open_files=99"),
        ("predefined-options", "FLASH_SSD_OPTIMIZED", "max_background_jobs=4"),
        (
            "options-factory",
            "runtime_tests.state.test_rocksdb:with_many_levels",
            "num_levels=9",
        ),
    ],
)
def test_every_option_reaches_rocksdb(make_rocksdb, key: str, value: str, line: str) -> None:
    bench = make_rocksdb(options={f"state.backend.rocksdb.{key}": value})
    bench.put({"a": 1})
    text = max((bench.config.directory / "db").glob("OPTIONS-*")).read_text()
    assert line in text


def with_many_levels(options) -> None:
    """An options factory, named by a test."""
    options.set_num_levels(9)


def test_writes_may_be_limited_and_logs_be_elsewhere(make_rocksdb, tmp_path) -> None:
    (tmp_path / "logs").mkdir()
    bench = make_rocksdb(
        options={
            "headrace.state.rocksdb.write-rate": "50mb",
            "state.backend.rocksdb.log.dir": str(tmp_path / "logs"),
        }
    )
    bench.put({"a": 1})
    assert bench.read("a") == {"a": 1}
    assert list((tmp_path / "logs").iterdir())
    assert not (bench.config.directory / "db" / "LOG").exists()


@pytest.mark.parametrize("name", ["nowhere:function", "json:nothing", "json", ":x"])
def test_an_options_factory_that_is_not_there_is_refused_by_name(make_rocksdb, name: str) -> None:
    with pytest.raises(InvalidConfigError, match="options-factory"):
        make_rocksdb(options={"state.backend.rocksdb.options-factory": name})


@pytest.mark.parametrize("key", ["state.backend.type", "state.backend.rocksdb.localdir", "other.x"])
def test_options_of_other_readers_are_left_alone(make_rocksdb, key: str) -> None:
    make_rocksdb(options={key: "rocksdb"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Corruption: block checksum mismatch", CorruptStateError),
        ("IO error: No space left on device", LocalStorageError),
        ("Invalid argument: whatever", InternalError),
    ],
)
def test_rocksdbs_status_codes_become_our_errors(tmp_path, text: str, expected) -> None:
    error = translate(Exception(text), "reading state failed", tmp_path)
    assert type(error) is expected
    assert text in str(error)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Corruption: Sst file size mismatch", CorruptStateError),
        ("IO error: No such file or directory: MANIFEST-000005", CorruptStateError),
        ("Invalid argument: unknown comparator", CorruptStateError),
        ("IO error: No space left on device: 000012.sst", LocalStorageError),
        ("IO error: While lock file: LOCK: Resource temporarily unavailable", LocalStorageError),
    ],
)
def test_bad_stored_files_are_told_from_a_bad_disk(tmp_path, text: str, expected) -> None:
    with pytest.raises(expected), reading_stored_files(tmp_path):
        raise Exception(text)  # noqa: TRY002  as rocksdict does


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*"])
def test_a_missing_manifest_is_corrupt_state(make_rocksdb, name: str) -> None:
    bench = make_rocksdb()
    bench.put({"a": 1})
    source = bench.freeze()
    (victim,) = source.directory.glob(name)
    victim.unlink()
    with pytest.raises(CorruptStateError, match="restore another checkpoint"):
        make_rocksdb(sources=[source])


def test_a_snapshot_that_fails_leaves_no_half_directory(make_rocksdb, monkeypatch) -> None:
    bench = make_rocksdb()
    bench.put({"a": 1})

    def fail(directory: Path) -> None:
        directory.mkdir()
        (directory / "half.sst").touch()
        raise LocalStorageError("disk full")

    monkeypatch.setattr(storage_of(bench), "freeze", fail)
    with pytest.raises(LocalStorageError):
        bench.backend.snapshot(bench.root / "snapshot")
    assert not (bench.root / "snapshot").exists()


def test_a_full_disk_asks_for_a_failover_not_for_a_bug_report() -> None:
    assert LocalStorageError.restartable
    assert not InternalError.restartable


def test_a_snapshot_can_be_taken_right_after_a_restore(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put(dict.fromkeys(KEYS, 1))
    restored = make_rocksdb(sources=[bench.freeze()])
    again = make_rocksdb(sources=[as_source(restored.snapshot())])
    assert again.read(KEYS) == dict.fromkeys(KEYS, 1)


def test_a_settled_database_has_nothing_left_to_write_or_merge(make_rocksdb) -> None:
    bench = make_rocksdb()
    bench.put({"a": 1})
    storage = storage_of(bench)
    bench.backend.flush()

    def unwritten() -> float:
        entries = "rocksdb.num-entries-active-mem-table"
        return sum(storage.rows(name).gauge(entries) for name in storage.families)

    assert unwritten() > 0
    assert storage.settle(SystemClock(), timeout_s=60)
    gauges = storage.metrics()
    assert gauges["rocksdb.num-running-compactions"] == gauges["rocksdb.num-running-flushes"] == 0
    assert unwritten() == 0
    assert bench.read(["a"]) == {"a": 1}


class WaitingClock(ManualClock):
    """Time that passes while somebody waits."""

    def wait(self, event: object, timeout_s: float) -> bool:
        self.time_ms += round(timeout_s * 1000)
        return False


def test_a_database_that_does_not_settle_is_waited_for_no_longer_than_asked(
    make_rocksdb, monkeypatch
) -> None:
    bench = make_rocksdb()
    bench.put({"a": 1})
    storage = storage_of(bench)
    clock = WaitingClock()
    monkeypatch.setattr("headrace.state.rocksdb.storage.RocksDBRows.gauge", lambda *_: 1.0)
    started_s = clock.monotonic_s()
    assert not storage.settle(clock, timeout_s=30)
    assert 30 <= clock.monotonic_s() - started_s < 31
