"""One of several operators acts; when it is gone another one does, soon (OP56)."""

import asyncio

import pytest

from headrace_operator.kube.api import ClusterUnavailableError, ConflictError, Kind
from headrace_operator.lead.elector import LeaderElector
from headrace_operator.lead.lease import LEASE_NAME, Lease, Timing, may_take
from headrace_operator.reconcile.supervisor import Supervisor
from operator_tests.fake_cluster import FakeCluster
from operator_tests.harness import NAMESPACE, ManualClock, Operator, stream_job

TIMING = Timing(duration_s=15, renew_deadline_s=10, retry_s=2)
NOBODY = ClusterUnavailableError("no answer")


class World:
    def __init__(self):
        self.cluster, self.clock = FakeCluster(), ManualClock()

    def candidate(self, name):
        return LeaderElector(self.cluster, self.clock, name, "headrace-system", TIMING)

    @property
    def lease(self):
        return Lease.of(self.cluster.objects[Kind.LEASE, "headrace-system", LEASE_NAME])


def test_the_first_one_leads_and_goes_on_leading():
    async def check():
        world = World()
        one, two = world.candidate("one"), world.candidate("two")
        for _ in range(30):
            await one.step()
            await two.step()
            world.clock.advance(2)
            assert (True, False) == (one.leads, two.leads)
        assert ("one", 0) == (world.lease.holder, world.lease.transitions)

    asyncio.run(check())


def test_a_killed_leader_is_followed_within_its_lease_and_a_retry():
    async def check():
        world = World()
        one, two = world.candidate("one"), world.candidate("two")
        await one.step()
        waited = 0.0
        await two.step()
        while not two.leads:
            world.clock.advance(2)
            waited += 2
            await two.step()
        assert 15 <= waited <= 17
        assert ("two", 1) == (world.lease.holder, world.lease.transitions)

    asyncio.run(check())


def test_a_leader_that_ends_gives_the_lease_back():
    async def check():
        world = World()
        one, two = world.candidate("one"), world.candidate("two")
        await one.step()
        await two.step()
        await one.give_back()
        assert not one.leads
        await two.step()
        assert two.leads

    asyncio.run(check())


def test_whoever_does_not_lead_gives_nothing_back():
    async def check():
        world = World()
        one, two = world.candidate("one"), world.candidate("two")
        await one.step()
        await two.step()
        await two.give_back()
        assert "one" == world.lease.holder

    asyncio.run(check())


def test_a_leader_that_cannot_renew_stops_before_anybody_else_starts():
    async def check():
        world = World()
        one, two = world.candidate("one"), world.candidate("two")
        await one.step()
        await two.step()
        led_until = took_at = None
        for second in range(1, 30):
            world.clock.advance(1)
            world.cluster.fail("get Lease", NOBODY)
            await one.step()
            await two.step()
            assert not (one.leads and two.leads)
            if not one.leads and led_until is None:
                led_until = second
            if two.leads and took_at is None:
                took_at = second
        assert 10 == led_until
        assert 15 == took_at

    asyncio.run(check())


def test_a_short_silence_of_the_cluster_changes_no_leader():
    async def check():
        world = World()
        one = world.candidate("one")
        await one.step()
        world.cluster.fail("get Lease", NOBODY, NOBODY)
        for _ in range(3):
            world.clock.advance(2)
            await one.step()
            assert one.leads

    asyncio.run(check())


def test_of_two_that_see_a_free_lease_one_gets_it():
    async def check():
        world = World()
        one, two = world.candidate("one"), world.candidate("two")
        await one.step()
        await one.give_back()
        world.cluster.fail("replace Lease", ConflictError("changed", status=409))
        await two.step()
        assert not two.leads
        await one.step()
        assert one.leads

    asyncio.run(check())


@pytest.mark.parametrize(
    ("holder", "unchanged_s", "expected"),
    [("", 0, True), ("me", 0, True), ("other", 14.9, False), ("other", 15, True)],
)
def test_a_lease_is_taken_when_it_is_free_ours_or_run_out(holder, unchanged_s, expected):
    assert expected is may_take(Lease(holder, "t", 0), "me", unchanged_s, TIMING)


def test_a_lease_that_somebody_else_wrote_badly_is_taken_when_it_does_not_change():
    assert Lease("", "", 0) == Lease.of({"metadata": {}, "spec": {"leaseTransitions": "x"}})


def test_whoever_stands_by_does_nothing_and_acts_on_all_jobs_once_it_leads():
    async def check():
        operator = Operator()
        made = operator.cluster.add(stream_job())
        supervisor = Supervisor(operator.tools, acts=False)
        supervisor.notice_job(NAMESPACE, "payments", made, is_gone=False)
        await asyncio.sleep(0)
        assert [] == operator.cluster.calls
        await supervisor.lead(True)
        await _until(lambda: operator.cluster.created_pods)
        await supervisor.lead(False)
        operator.cluster.calls.clear()
        supervisor.notice_job(NAMESPACE, "payments", made, is_gone=False)
        await asyncio.sleep(0.02)
        assert [] == operator.cluster.calls
        assert 0 == operator.metrics.leads._value.get()

    asyncio.run(check())


def test_a_job_that_went_while_standing_by_is_forgotten():
    async def check():
        operator = Operator()
        made = operator.cluster.add(stream_job())
        supervisor = Supervisor(operator.tools, acts=False)
        supervisor.notice_job(NAMESPACE, "payments", made, is_gone=False)
        supervisor.notice_job(NAMESPACE, "payments", made, is_gone=True)
        await supervisor.lead(True)
        await asyncio.sleep(0.02)
        assert [] == operator.cluster.calls

    asyncio.run(check())


def test_a_job_that_is_made_again_while_its_namesakes_actor_ends_is_not_missed():
    async def check():
        operator = Operator()
        supervisor = Supervisor(operator.tools)
        made = operator.cluster.add(stream_job())
        operator.cluster.objects.clear()
        made["metadata"]["finalizers"] = ["headrace.dev/teardown"]  # so that it is read

        def again():
            fresh = operator.cluster.add(stream_job())
            supervisor.notice_job(NAMESPACE, "payments", fresh, is_gone=False)

        get = operator.cluster.get

        async def get_and_be_late(kind, namespace, name):
            found = await get(kind, namespace, name)
            if kind is Kind.STREAM_JOB and found is None:
                again()
            return found

        operator.cluster.get = get_and_be_late
        supervisor.notice_job(NAMESPACE, "payments", made, is_gone=False)
        await _until(lambda: operator.cluster.created_pods)
        await supervisor.stop()

    asyncio.run(check())


async def _until(check):
    for _ in range(1000):
        if check():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("did not happen")
