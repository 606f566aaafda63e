"""Handing over what changed: prepared rows and changes equal a full restore (F5, DESIGN 8)."""

import random
from dataclasses import replace

import pytest

from headrace.errors import CorruptStateError
from headrace.keygroups import key_group_range_of_slot
from headrace.state.changes import ChangeLog, apply_changes
from headrace.state.factory import backend_factory

from .bench_of_state import MAX_PARALLELISM, StateBench, as_source, one_key_per_group

KEYS = [f"{key}{suffix}" for key in one_key_per_group() for suffix in ("", "-a", "-b", "-c")]
NAMES = ("count", "items", "entries", "_event_timers")
LIMIT = 1 << 20


def change(benches: list[StateBench], seed: int, steps: int = 400) -> None:
    """Random changes of every kind of state."""
    source = random.Random(seed)
    for _ in range(steps):
        key = source.choice(KEYS)
        (bench,) = [bench for bench in benches if bench.owns(key)]
        bench.select(key)
        match source.randrange(8):
            case 0 | 1:
                bench.values().update(source.randrange(100))
            case 2:
                bench.values().clear()
            case 3:
                bench.lists().add(source.randrange(100))
            case 4:
                bench.lists().clear()
            case 5:
                bench.maps().put(source.choice("abc"), source.randrange(100))
            case 6:
                bench.maps().clear()
            case 7:
                bench.timers().register(source.randrange(1000))
        if source.random() < 0.05:
            bench.backend.flush()


def declare(bench: StateBench) -> None:
    bench.values()
    bench.lists()
    bench.maps()
    bench.timers()


def all_rows(benches: list[StateBench]) -> dict[str, list[tuple[bytes, bytes]]]:
    return {name: [row for bench in benches for row in bench.rows(name)] for name in NAMES}


def ranges(parallelism: int):
    return [key_group_range_of_slot(i, parallelism, MAX_PARALLELISM) for i in range(parallelism)]


@pytest.mark.parametrize(("old", "new"), [(1, 2), (2, 1), (2, 4), (4, 2), (3, 2)])
@pytest.mark.parametrize("seed", range(1))
def test_prepared_rows_and_changes_are_what_a_full_restore_has(
    make_bench, backend_name, tmp_path, old: int, new: int, seed: int
) -> None:
    before = [make_bench(key_groups=owned) for owned in ranges(old)]
    for bench in before:
        declare(bench)
    change(before, seed)
    base = [as_source(bench.snapshot()) for bench in before]
    for bench in before:
        bench.backend.track_changes(LIMIT)

    factory = backend_factory(backend_name)
    configs = [
        replace(before[0].config, directory=tmp_path / f"new-{i}", key_group_range=owned)
        for i, owned in enumerate(ranges(new))
    ]
    prepared = [
        factory.prepare(
            config, [s for s in base if s.key_group_range.intersection(config.key_group_range)]
        )
        for config in configs
    ]

    change(before, seed + 100)
    final = [as_source(bench.snapshot()) for bench in before]
    files = [tmp_path / f"changes-{i}" for i in range(old)]
    for bench, file in zip(before, files, strict=True):
        assert bench.backend.write_changes(file) == file.stat().st_size
    after = [
        StateBench(
            factory.open_prepared(config, storage, final, files), config, tmp_path, backend_name
        )
        for config, storage in zip(configs, prepared, strict=True)
    ]
    for bench in after:
        declare(bench)
        bench.backend.finish_registration()

    restored = [
        make_bench(key_groups=config.key_group_range, sources=final_of(final, config))
        for config in configs
    ]
    for bench in restored:
        declare(bench)
    assert all_rows(after) == all_rows(restored) == all_rows(before)
    assert [(b.fire(2000)) for b in after] == [(b.fire(2000)) for b in restored]
    for bench in after:
        bench.backend.close()


def final_of(sources, config):
    return [s for s in sources if s.key_group_range.intersection(config.key_group_range)]


def test_nothing_is_noted_before_somebody_tracks(make_bench, tmp_path) -> None:
    bench = make_bench()
    bench.put({"a": 1})
    bench.snapshot()
    assert bench.backend.write_changes(tmp_path / "changes") is None
    assert not (tmp_path / "changes").exists()


def test_a_log_over_its_limit_is_given_up_and_the_state_goes_on(make_bench, tmp_path) -> None:
    bench = make_bench()
    bench.snapshot()
    bench.backend.track_changes(limit_bytes=2000)
    bench.put({f"k{number}": number for number in range(100)})
    bench.snapshot()
    assert bench.backend.write_changes(tmp_path / "changes") is None
    assert bench.read(["k99"]) == {"k99": 99}


def test_tracking_ends_with_the_hand_over(make_bench, tmp_path) -> None:
    bench = make_bench()
    bench.snapshot()
    bench.backend.track_changes(LIMIT)
    bench.put({"a": 1})
    bench.snapshot()
    assert bench.backend.write_changes(tmp_path / "one") is not None
    bench.put({"a": 2})
    bench.snapshot()
    assert bench.backend.write_changes(tmp_path / "two") is None


@pytest.mark.parametrize("cut", [1, 4, 9, 20])
def test_a_cut_file_of_changes_is_refused(make_bench, backend_name, tmp_path, cut: int) -> None:
    bench = make_bench()
    source = as_source(bench.snapshot())
    bench.backend.track_changes(LIMIT)
    bench.put({"a": 1, "b": 2})
    final = as_source(bench.snapshot())
    file = tmp_path / "changes"
    bench.backend.write_changes(file)
    file.write_bytes(file.read_bytes()[:-cut])
    factory = backend_factory(backend_name)
    config = replace(bench.config, directory=tmp_path / "new")
    storage = factory.prepare(config, [source])
    with pytest.raises(CorruptStateError, match="changes of state cannot be read"):
        factory.open_prepared(config, storage, [final], [file])


def test_a_later_put_survives_an_earlier_deleted_range(tmp_path) -> None:
    log = ChangeLog(LIMIT)
    log.put("s", b"\x00\x01a", b"old")
    log.delete_range("s", b"\x00\x01", b"\x00\x02")
    log.put("s", b"\x00\x01b", b"new")
    seen: list[object] = []

    class Rows:
        def write(self, changes):
            seen.append(list(changes))

        def delete_range(self, start, end):
            seen.append((start, end))

    class Storage:
        def rows(self, name):
            assert name == "s"
            return Rows()

    log.write(tmp_path / "changes")
    apply_changes(tmp_path / "changes", Storage(), key_group_range_of_slot(0, 1, 16))
    assert seen == [
        [(b"\x00\x01a", b"old")],
        (b"\x00\x01", b"\x00\x02"),
        [(b"\x00\x01b", b"new")],
    ]
