"""Events are a budget: a job that fails all the time does not fill etcd."""

import asyncio
from datetime import timedelta

from headrace_operator.kube.api import Kind
from headrace_operator.reconcile.actions import warning
from headrace_operator.reconcile.events import BURST, REFILL_S, EventBudgets, EventRecorder
from operator_tests.fake_cluster import FakeCluster
from operator_tests.harness import stream_job
from operator_tests.world import NOW, later


def test_a_burst_passes_and_then_one_event_a_minute():
    budgets = EventBudgets()
    assert [True] * BURST == [budgets.take("a", NOW) for _ in range(BURST)]
    assert not budgets.take("a", NOW)
    assert not budgets.take("a", later(REFILL_S - 1))
    assert budgets.take("a", later(REFILL_S + 1))
    assert not budgets.take("a", later(REFILL_S + 1))


def test_jobs_do_not_share_a_budget():
    budgets = EventBudgets()
    for _ in range(BURST):
        budgets.take("a", NOW)
    assert budgets.take("b", NOW)


def test_a_budget_never_grows_beyond_a_burst():
    budgets = EventBudgets()
    budgets.take("a", NOW)
    much_later = NOW + timedelta(days=7)
    assert BURST == sum(budgets.take("a", much_later) for _ in range(BURST * 2))


def test_a_clock_that_goes_back_gives_and_takes_nothing():
    budgets = EventBudgets()
    assert budgets.take("a", later(100))
    assert BURST - 1 == sum(budgets.take("a", NOW) for _ in range(BURST * 2))


def test_what_changes_its_words_all_the_time_is_cut_short():
    async def check():
        cluster = FakeCluster()
        job = cluster.add(stream_job())
        recorder = EventRecorder(cluster, "test")
        for number in range(100):
            await recorder.record(job, [warning("Unschedulable", f"0/{number} nodes")], NOW)
        assert BURST == sum(key[0] is Kind.EVENT for key in cluster.objects)

    asyncio.run(check())
