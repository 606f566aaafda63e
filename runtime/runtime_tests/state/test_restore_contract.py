"""Snapshots and restores on every backend, at every parallelism (C18, F2, F3, T8, T17)."""

import pytest

from headrace.errors import CorruptStateError, InternalError
from headrace.keygroups import KeyGroupRange, key_group_range_of_slot
from headrace.serialization.types import LONG, ListType

from .bench_of_state import (
    MAX_PARALLELISM,
    StateBench,
    as_source,
    key_group_of,
    one_key_per_group,
    renamed,
)

KEYS = one_key_per_group()


def ranges(parallelism: int) -> list[KeyGroupRange]:
    return [key_group_range_of_slot(i, parallelism, MAX_PARALLELISM) for i in range(parallelism)]


def rescale(make_bench, benches: list[StateBench], parallelism: int) -> list[StateBench]:
    """Freeze all slots and open ``parallelism`` new ones, each with the sources that overlap."""
    sources = [bench.freeze() for bench in benches]
    return [
        make_bench(
            key_groups=owned,
            sources=[s for s in sources if s.key_group_range.intersection(owned)],
        )
        for owned in ranges(parallelism)
    ]


def slot_of(benches: list[StateBench], key: str) -> StateBench:
    (owner,) = [bench for bench in benches if bench.owns(key)]
    return owner


def test_there_is_one_test_key_for_each_key_group() -> None:
    assert [key_group_of(key) for key in KEYS] == list(range(MAX_PARALLELISM))


def test_a_restored_backend_has_every_value_and_timer(make_bench) -> None:
    bench = make_bench()
    bench.put({key: number for number, key in enumerate(KEYS)})
    bench.register([(number, key) for number, key in enumerate(KEYS)])
    restored = make_bench(sources=[bench.freeze()])
    assert restored.read(KEYS) == {key: number for number, key in enumerate(KEYS)}
    assert restored.fire(100) == list(enumerate(KEYS))


def test_later_writes_do_not_reach_a_snapshot(make_bench) -> None:
    """T17: the upload reads frozen files."""
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 1))
    bench.register([(5, KEYS[0])])
    snapshot = bench.snapshot()
    before = {f.name: f.path.read_bytes() for f in snapshot.files}
    bench.put(dict.fromkeys(KEYS[1:], 2))
    bench.select(KEYS[0])
    bench.values().clear()
    bench.fire(5)
    bench.snapshot()
    bench.backend.close()
    assert {f.name: f.path.read_bytes() for f in snapshot.files} == before
    restored = make_bench(sources=[as_source(snapshot)])
    assert restored.read(KEYS) == dict.fromkeys(KEYS, 1)
    assert restored.fire(5) == [(5, KEYS[0])]


def test_a_snapshot_directory_can_be_restored_again_and_again(make_bench) -> None:
    """Local rollback (I6): every failover starts from the same frozen files."""
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 1))
    source = bench.freeze()
    names = sorted(path.name for path in source.directory.iterdir())
    for attempt in range(3):
        restored = make_bench(sources=[source])
        assert restored.read(KEYS) == dict.fromkeys(KEYS, 1)
        restored.put(dict.fromkeys(KEYS, attempt + 2))
        restored.snapshot()
        restored.backend.close()
    assert sorted(path.name for path in source.directory.iterdir()) == names


def test_a_snapshot_lists_exactly_its_files(make_bench) -> None:
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 1))
    snapshot = bench.snapshot()
    assert sorted(file.name for file in snapshot.files) == sorted(
        path.name for path in snapshot.directory.iterdir()
    )
    assert all(file.size_bytes == file.path.stat().st_size for file in snapshot.files)
    assert all(file.size_bytes > 0 for file in snapshot.files)


def test_a_snapshot_needs_a_directory_of_its_own(make_bench) -> None:
    bench = make_bench()
    with pytest.raises(InternalError, match="directory"):
        bench.backend.snapshot(bench.root)


@pytest.mark.parametrize("walk", [(1, 2, 3, 2, 1), (2, 4, 8, 3), (16, 1, 5)])
def test_every_key_keeps_its_state_over_changes_of_parallelism(make_bench, walk) -> None:
    benches = [make_bench(key_groups=owned) for owned in ranges(walk[0])]
    for number, key in enumerate(KEYS):
        owner = slot_of(benches, key)
        owner.put({key: number})
        owner.register([(number, key), (1000, key)])
    for parallelism in walk[1:]:
        benches = rescale(make_bench, benches, parallelism)
        assert [bench.config.key_group_range for bench in benches] == ranges(parallelism)
        for bench in benches:
            owned = {key: number for number, key in enumerate(KEYS) if bench.owns(key)}
            assert bench.read(owned) == owned
            # Exactly the owned rows: no row of another key group is left visible.
            state_rows = bench.backend._storage.rows("count")
            groups = {int.from_bytes(row[:2], "big") for row, _ in _all(state_rows)}
            assert groups == set(bench.config.key_group_range)
    fired = [timer for bench in benches for timer in bench.fire(2000)]
    assert sorted(fired) == sorted(
        [(number, key) for number, key in enumerate(KEYS)] + [(1000, key) for key in KEYS]
    )


def _all(rows) -> list[tuple[bytes, bytes]]:
    return list(rows.scan(b"\x00\x00", b"\xff\xff"))


def test_writes_between_rescales_are_kept(make_bench) -> None:
    benches = [make_bench()]
    for step, parallelism in enumerate((2, 3, 1, 4, 1)):
        for key in KEYS:
            owner = slot_of(benches, key)
            owner.put({key: owner.read([key]).get(key, 0) + 1})
            owner.register([(step, key)])
        benches = rescale(make_bench, benches, parallelism)
    (last,) = benches
    assert last.read(KEYS) == dict.fromkeys(KEYS, 5)
    assert len(last.fire(100)) == 5 * len(KEYS)


def test_a_slot_gets_nothing_of_sources_that_do_not_overlap(make_bench) -> None:
    low, high = ranges(2)
    bench = make_bench(key_groups=low)
    bench.put({key: 1 for key in KEYS if bench.owns(key)})
    restored = make_bench(key_groups=high, sources=[bench.freeze()])
    assert restored.read(key for key in KEYS if restored.owns(key)) == {}


def test_a_state_that_only_one_slot_had_asked_for_is_kept(make_bench) -> None:
    """States are registered on first use, so the sources' schemas may differ."""
    low, high = (make_bench(key_groups=owned) for owned in ranges(2))
    low.put({key: 1 for key in KEYS if low.owns(key)}, "seen")
    high.put({key: 2 for key in KEYS if high.owns(key)}, "other")
    (merged,) = rescale(make_bench, [low, high], 1)
    assert len(merged.read(KEYS, "seen")) == len(merged.read(KEYS, "other")) == 8


def test_states_not_asked_for_stay_in_later_snapshots(make_bench) -> None:
    bench = make_bench()
    bench.put({"a": 1}, "one")
    bench.put({"a": 2}, "two")
    second = make_bench(sources=[bench.freeze()])
    second.values("one")
    third = make_bench(sources=[second.freeze()])
    assert third.read("a", "two") == {"a": 2}


def test_missing_files_are_corrupt_state(make_bench) -> None:
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 1))
    source = bench.freeze()
    victim = sorted(source.directory.glob("*.sst")) or sorted(source.directory.glob("*.rows"))
    victim[0].unlink()
    with pytest.raises(CorruptStateError, match="restore another checkpoint"):
        make_bench(sources=[source])


def test_an_empty_directory_is_corrupt_state(make_bench, tmp_path) -> None:
    bench = make_bench()
    bench.put({"a": 1})
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorruptStateError, match="restore another checkpoint"):
        make_bench(sources=[renamed(bench.freeze(), directory=tmp_path / "empty")])


@pytest.mark.parametrize("cut", [1, 7, 100])
def test_cut_files_are_corrupt_state(make_bench, cut: int) -> None:
    bench = make_bench()
    bench.put(dict.fromkeys(KEYS, 1))
    source = bench.freeze()
    victim = (sorted(source.directory.glob("*.sst")) or sorted(source.directory.glob("*.rows")))[0]
    data = victim.read_bytes()
    victim.write_bytes(data[:-cut])
    with pytest.raises(CorruptStateError, match="restore another checkpoint"):
        make_bench(sources=[source])


def test_an_empty_backend_can_be_frozen_and_restored(make_bench) -> None:
    restored = make_bench(sources=[make_bench().freeze()])
    assert restored.read(KEYS) == {}
    assert restored.fire(100) == []


def test_large_values_survive(make_bench) -> None:
    bench = make_bench()
    state = bench.values("items", ListType(LONG))
    bench.select("a")
    state.update(list(range(100_000)))
    restored = make_bench(sources=[bench.freeze()])
    restored.select("a")
    assert restored.values("items", ListType(LONG)).value() == list(range(100_000))
