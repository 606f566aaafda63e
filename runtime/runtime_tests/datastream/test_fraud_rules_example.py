"""The example of broadcast state does what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from headrace.common import Row
from headrace.datastream import StreamExecutionEnvironment
from runtime_tests.slot.slot_run import SlotRun, collect

EXAMPLE = Path(__file__).parents[3] / "examples" / "fraud_rules" / "job.py"


def load():
    spec = importlib.util.spec_from_file_location("fraud_rules", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def program():
    env = StreamExecutionEnvironment.get_execution_environment()
    collect(load().alerts_of(env))
    return env.program.pending()


def test_the_examples_own_input_trips_the_rule_for_large_payments_alone(tmp_path):
    with SlotRun(tmp_path, program(), 2) as run:
        payments, rules = (source.function.items for source in run.graph.sources())
        alerts = run.epoch([payments], [rules])
    # 500 payments over 5 accounts and 7 amounts, of which 500 and 600 are above 400: 28 an account.
    assert [(f"acc-{n}", "large") for n in range(5)] == alerts


def test_a_rule_that_comes_later_counts_from_then_on_and_survives_a_rescale(tmp_path):
    names = ["name", "amount", "payments", "active"]
    late = _row(names, "late", 0, 1, True)
    payment = _row(["account", "amount"], "acc-1", 5)
    graph = program()
    with SlotRun(tmp_path, graph, 2) as run:
        assert [] == run.epoch([[payment] * 5], [[]])
        assert [] == run.epoch([[payment]], [[late]])
        checkpoint = run.checkpoint()
    with SlotRun(tmp_path, graph, 3, restore=checkpoint) as run:
        assert [("acc-1", "late")] == run.epoch([[payment]], [[]])


def _row(names, *values):
    row = Row(*values)
    row.set_field_names(names)
    return row
