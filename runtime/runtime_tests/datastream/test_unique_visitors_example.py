"""The example of all kinds of keyed state works as it says (B11)."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from headrace.datastream import StreamExecutionEnvironment
from runtime_tests.slot.test_runtime_context import context_of
from runtime_tests.state.bench_of_state import StateBench

from .test_state_descriptors import Count

EXAMPLE = Path(__file__).parents[3] / "examples" / "unique_visitors" / "job.py"


def load():
    spec = importlib.util.spec_from_file_location("unique_visitors", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


job = load()
COUNTER = job.HyperLogLog()


def accumulate(values):
    accumulator = COUNTER.create_accumulator()
    for value in values:
        accumulator = COUNTER.add(value, accumulator)
    return accumulator


@pytest.mark.parametrize("count", [0, 1, 2, 100, 700, 3000, 20_000])
def test_different_strings_are_counted_to_a_few_percent(count):
    rng = random.Random(count)
    values = [f"user-{rng.randrange(10**12)}" for _ in range(count)]
    accumulator = accumulate(values + values[: count // 2])

    # Three standard errors of 1.04 / sqrt(4096).
    assert COUNTER.get_result(accumulator) == pytest.approx(count, rel=3 * 1.04 / 64, abs=0.01)
    assert len(accumulator) <= 4096
    if count <= 100:
        assert len(accumulator) <= 3 * count


def test_merging_counts_what_either_has_seen():
    for size in (50, 5000):
        one = accumulate(f"a-{number}" for number in range(size))
        other = accumulate(f"a-{number}" for number in range(size // 2, 3 * size // 2))
        both = accumulate(f"a-{number}" for number in range(3 * size // 2))

        assert COUNTER.merge(one, other) == both
        assert COUNTER.merge(one, COUNTER.create_accumulator()) == one


def test_it_is_an_aggregate_function_like_any_other():
    assert {name for name in vars(Count) if not name.startswith("_")} <= set(dir(COUNTER))


class Key:
    """The context of a record, as far as the example looks."""

    def __init__(self, bench):
        self.get_current_key = lambda: bench.backend.context.key


@pytest.mark.parametrize("backend_name", ["rocksdb", "hashmap"])
def test_every_ad_has_its_own_statistics(backend_name, tmp_path):
    bench = StateBench.open(backend_name, tmp_path)
    function = job.AdStatistics()
    function.open(context_of(bench.backend))
    bench.backend.finish_registration()
    rows = {}
    for number, click in enumerate(job.clicks()):
        bench.select(click.ad)
        for row in function.process_element(click, Key(bench)):
            rows.setdefault(row.ad, []).append(row)
        if number % 7 == 0:
            bench.evict()

    # Each ad is clicked by four users; only the first click of each in a day is reported.
    assert {ad: [row.visitors for row in found] for ad, found in rows.items()} == {
        "ad-0": [1, 2, 3, 4],
        "ad-1": [1, 2, 3, 4],
    }
    assert rows["ad-1"][-1].clicks_by_country == {"BR": 1, "DE": 2, "IN": 1}
    assert rows["ad-1"][-1].recent == ["user-7", "user-1", "user-3"]
    bench.backend.close()


def test_the_program_can_be_planned(executor):
    env = StreamExecutionEnvironment.get_execution_environment()
    job.build(env)
    env.execute("unique-visitors")

    assert executor.operator("Ad statistics").uid == "ad-statistics"
