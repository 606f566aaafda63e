"""Plans of whole programs, as text. A change of a plan changes what restarts must match.

``python -m runtime_tests.datastream.test_golden_plans`` in ``runtime/`` writes the files anew.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.common import Duration, Types, WatermarkStrategy
from headrace.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from headrace.datastream.connectors.number_seq import NumberSequenceSource

GOLDEN = Path(__file__).parent / "golden"


class Count(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield value


def word_count(env):
    (
        env.from_collection(["to be or not"], Types.STRING())
        .flat_map(str.split, Types.STRING())
        .map(lambda w: (w, 1), Types.TUPLE([Types.STRING(), Types.INT()]))
        .key_by(lambda t: t[0], Types.STRING())
        .reduce(lambda a, b: (a[0], a[1] + b[1]))
        .uid("counts")
        .print()
    )


def event_time(env):
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(
        Duration.of_seconds(5)
    ).with_timestamp_assigner(lambda v, _: v[1])
    raw = env.from_collection([("a", 1)])
    parsed = raw.map(lambda v: v).assign_timestamps_and_watermarks(strategy)
    parsed.key_by(lambda v: v[0], Types.STRING()).process(Count()).uid("count").print()


def relayed_union(env):
    """Raw and counted records meet at another key: the raw ones are relayed through level 1."""
    strategy = WatermarkStrategy.no_watermarks()
    raw = env.from_source(NumberSequenceSource(1, 9), strategy, "numbers")
    counted = raw.key_by(lambda v: v % 3, Types.LONG()).process(Count(), Types.LONG()).uid("first")
    both = raw.union(counted).key_by(lambda v: v % 2, Types.LONG())
    both.process(Count(), Types.LONG()).uid("second").print("pairs")
    raw.filter(lambda v: v > 5).print("large")


PROGRAMS = {program.__name__: program for program in (word_count, event_time, relayed_union)}


def plan_of(name):
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(2)
    PROGRAMS[name](env)
    return env.get_execution_plan() + "\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_planned_as_ever(name):
    assert (GOLDEN / f"{name}.json").read_text() == plan_of(name)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for program in PROGRAMS:
        (GOLDEN / f"{program}.json").write_text(plan_of(program))
    sys.stdout.write(f"wrote {len(PROGRAMS)} plans to {GOLDEN}\n")
