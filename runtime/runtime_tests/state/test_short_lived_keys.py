"""State that is cleared is gone: no rows, no files that grow, nothing in memory (B14, C17, T26)."""

from headrace.state.rows import window_namespace

from .every_kind import EveryKind

ROUNDS = 16
KEYS_A_ROUND = 20


def live_and_die(states: EveryKind, name: str, number: int) -> None:
    """One key's whole life: everything is written, read and cleared."""
    window = window_namespace(number, number + 1)
    states.bench.enter(name, window)
    states._fill_key(number, name)
    states.items.add_all(["x" * 700] * 3)
    if number % 2:
        states.bench.backend.flush()
    assert states.items.get()
    assert list(states.by_number)
    for state in (
        states.count,
        states.pair,
        states.items,
        states.blobs,
        states.by_number,
        states.by_pair,
        states.total,
        states.mean,
        states.seen,
        states.recent,
        states.flags,
        states.window_items,
    ):
        state.clear()
    states.event_timers.delete(-number)
    states.window_timers.delete(number)


def test_keys_that_come_and_go_leave_nothing_behind(make_bench) -> None:
    bench = make_bench(options={"headrace.state.cache.fraction": "0.01"})
    states = EveryKind(bench)
    sizes = []
    for turn in range(ROUNDS):
        for number in range(KEYS_A_ROUND):
            live_and_die(states, f"key-{turn}-{number}", number)
        bench.backend.maintain()
        snapshot = bench.snapshot()
        rows = (file.size_bytes for file in snapshot.files if file.name.endswith((".sst", ".rows")))
        sizes.append(sum(rows))
    schemas = bench.backend._states.schemas()
    assert {schema.name: bench.rows(schema.name) for schema in schemas} == {
        schema.name: [] for schema in schemas
    }
    # What is left of RocksDB's files are tombstones, until the next compaction takes them.
    assert max(sizes[ROUNDS // 2 :]) <= 1.3 * max(sizes[: ROUNDS // 2])
