"""The operator is alive while it does its work, not while a port is open (OP60)."""

import asyncio

import pytest

from headrace_operator.canary import DEADLINE_S, TURN_S_MAX, Canaries, UnhealthyError
from headrace_operator.kube.api import ClusterUnavailableError, Kind
from headrace_operator.reconcile.supervisor import Supervisor
from operator_tests.harness import NAMESPACE, Operator, stream_job

CANARY = {"headrace.dev/canary": "true"}
KEY = (Kind.STREAM_JOB, NAMESPACE, "payments")


class World:
    """An operator with a canary; its watch works only when the test says so."""

    def __init__(self, labels=None, *, acts=True):
        self.operator = Operator()
        self.supervisor = Supervisor(self.operator.tools, acts=acts)
        self.canaries = Canaries(self.operator.cluster, self.operator.clock, self.supervisor)
        job = stream_job(state="suspended")
        job["metadata"]["labels"] = (
            labels if labels is not None else {"headrace.dev/canary": "true"}
        )
        self.operator.cluster.add(job)
        self.notice()

    def notice(self):
        job = self.operator.cluster.objects[KEY]
        self.supervisor.notice_job(NAMESPACE, "payments", job, is_gone=False)

    @property
    def asked(self):
        annotations = self.operator.cluster.objects[KEY]["metadata"].get("annotations", {})
        return annotations.get("headrace.dev/canary-asked-at")

    async def answered(self):
        for _ in range(500):
            if self.supervisor.answer_of((NAMESPACE, "payments")) == self.asked:
                return
            await asyncio.sleep(0.002)
        raise AssertionError("the canary did not answer")


def test_a_canary_that_is_reconciled_is_asked_again_and_again():
    async def check():
        world = World()
        values = set()
        for _ in range(3):
            await world.canaries.ask()
            values.add(world.asked)
            world.notice()
            await world.answered()
            world.operator.clock.advance(DEADLINE_S)
            world.canaries.check()
        assert 3 == len(values)
        assert [] == [k for k in world.operator.cluster.objects if k[0] is Kind.POD]
        await world.supervisor.stop()

    asyncio.run(check())


def test_a_canary_that_nobody_notices_fails_the_probe_after_its_deadline():
    async def check():
        world = World()
        await asyncio.sleep(0.02)
        await world.canaries.ask()
        world.operator.clock.advance(DEADLINE_S - 1)
        await world.canaries.ask()
        world.canaries.check()
        world.operator.clock.advance(1)
        with pytest.raises(UnhealthyError, match="job=bank/payments waited=60 s"):
            world.canaries.check()
        world.notice()
        await world.answered()
        world.canaries.check()
        await world.supervisor.stop()

    asyncio.run(check())


def test_a_cluster_that_is_away_is_a_beat_missed():
    async def check():
        world = World()
        world.operator.cluster.fail("annotate StreamJob", ClusterUnavailableError("no answer"))
        await world.canaries.ask()
        world.operator.clock.advance(DEADLINE_S)
        with pytest.raises(UnhealthyError):
            world.canaries.check()
        await world.supervisor.stop()

    asyncio.run(check())


@pytest.mark.parametrize("labels", [{}, {"headrace.dev/canary": "false"}])
def test_other_jobs_are_not_asked(labels):
    async def check():
        world = World(labels)
        await world.canaries.ask()
        assert world.asked is None
        await world.supervisor.stop()

    asyncio.run(check())


def test_whoever_stands_by_asks_nobody_and_is_healthy():
    async def check():
        world = World(acts=False)
        await world.canaries.ask()
        world.operator.clock.advance(1000)
        world.canaries.check()
        assert world.asked is None

    asyncio.run(check())


def test_a_canary_that_is_gone_is_forgotten():
    async def check():
        world = World()
        await world.canaries.ask()
        gone = world.operator.cluster.objects.pop(KEY)
        world.supervisor.notice_job(NAMESPACE, "payments", gone, is_gone=True)
        await world.canaries.ask()
        world.operator.clock.advance(1000)
        world.canaries.check()
        await world.supervisor.stop()

    asyncio.run(check())


def test_a_turn_that_never_ends_fails_the_probe():
    async def check():
        world = World({})
        never = asyncio.Event()
        world.operator.cluster.create = lambda manifest: never.wait()
        await asyncio.sleep(0.02)
        world.operator.clock.advance(TURN_S_MAX - 1)
        world.canaries.check()
        world.operator.clock.advance(1)
        with pytest.raises(UnhealthyError, match="a turn does not end; job=bank/payments"):
            world.canaries.check()
        await world.supervisor.stop()

    asyncio.run(check())
