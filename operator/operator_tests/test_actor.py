"""The loop around the decisions: reads, writes, retries, and what it does not do."""

import asyncio
import json

from headrace.api.driver import JobState
from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.kube.api import (
    ClusterUnavailableError,
    ConflictError,
    Kind,
    RefusedError,
)
from headrace_operator.observe.snapshot import Scope
from operator_tests.harness import NAME, NAMESPACE, Operator, stream_job
from operator_tests.world import checkpoint, job_status

DRIVER = (Kind.POD, NAMESPACE, "payments-driver")


async def running(**settings):
    operator = Operator(**settings)
    operator.cluster.add(stream_job())
    await operator.settle()
    operator.start_driver_pod()
    await operator.settle()
    assert LifecycleState.RUNNING is operator.status.lifecycle_state
    return operator


def test_an_apply_leads_to_a_driver_pod():
    async def check():
        operator = Operator()
        operator.cluster.add(stream_job())
        await operator.settle()
        assert DRIVER in operator.cluster.objects
        assert len(operator.cluster.created_pods) == 1

    asyncio.run(check())


def test_nothing_is_written_while_nothing_changes():
    async def check():
        operator = await running()
        before = len(operator.writes)
        for _ in range(20):
            operator.clock.advance(2)
            await operator.turns()
        assert before == len(operator.writes)

    asyncio.run(check())


def test_between_changes_only_the_driver_is_asked():
    async def check():
        operator = await running()
        calls, asked = len(operator.cluster.calls), operator.driver.asked
        for _ in range(5):
            operator.clock.advance(2)
            assert await operator.actor.turn() == 2.0
        assert calls == len(operator.cluster.calls)
        assert asked + 5 == operator.driver.asked
        operator.clock.advance(30)
        await operator.actor.turn()
        assert calls < len(operator.cluster.calls)

    asyncio.run(check())


def test_fleeting_figures_are_written_only_now_and_then():
    async def check():
        operator = await running(volatile_status_interval_s=15)
        before = operator.writes.count("status")
        for second in range(30):
            operator.clock.advance(1)
            operator.driver.answers["10.0.0.1"] = job_status(
                last_checkpoint=checkpoint(), lag=1000 + second
            )
            await operator.actor.turn()
        assert 2 <= operator.writes.count("status") - before <= 3
        assert operator.status.source_lag >= 1000

    asyncio.run(check())


def test_our_own_writes_are_no_news():
    async def check():
        operator = await running()
        operator.actor.notice(operator.job, Scope.JOB, is_gone=False)
        calls = len(operator.cluster.calls)
        await operator.actor.turn()
        assert calls == len(operator.cluster.calls)

    asyncio.run(check())


def test_a_write_of_somebody_else_in_between_stops_the_decision():
    async def check():
        operator = await running()
        operator.cluster.edit(Kind.STREAM_JOB, NAMESPACE, NAME, image="registry.local/job:2")
        operator.cluster.fail("status", ConflictError("changed", status=409))
        operator.notice_everything()
        pause = await operator.actor._guarded_turn()
        assert pause <= 0.2
        assert "delete Pod" not in operator.cluster.calls
        await operator.settle()
        assert "delete Pod" in operator.cluster.calls

    asyncio.run(check())


def test_a_cluster_that_does_not_answer_is_asked_again_later_and_later():
    async def check():
        operator = await running()
        error = ClusterUnavailableError("no answer")
        operator.cluster.fail("get StreamJob", error, error, error)
        pauses = []
        for _ in range(3):
            operator.notice_everything()
            pauses.append(await operator.actor._guarded_turn())
        assert pauses == [1.0, 2.0, 4.0]
        assert await operator.actor._guarded_turn() == 2.0

    asyncio.run(check())


def test_a_refused_driver_is_degraded_with_the_reason_and_tried_again():
    async def check():
        operator = Operator()
        operator.cluster.add(stream_job())
        operator.cluster.fail(
            "create Pod", RefusedError("exceeded quota: cards", status=403, reason="Forbidden")
        )
        await operator.turns()
        assert DRIVER not in operator.cluster.objects
        await operator.turns()
        assert "ActionRefused" in operator.events
        await operator.settle()
        assert DRIVER in operator.cluster.objects
        degraded = next(c for c in operator.status.conditions if c.type == "Degraded")
        assert degraded.status == "False"
        assert operator.status.driver.attempt == 1

    asyncio.run(check())


def test_a_refusal_of_what_is_not_wanted_any_more_is_forgotten():
    async def check():
        operator = await running()
        operator.cluster.delete_object(Kind.SERVICE, NAMESPACE, "payments-driver")
        operator.cluster.fail("create Service", RefusedError("no", status=403))
        await operator.turns()
        operator.cluster.edit(Kind.STREAM_JOB, NAMESPACE, NAME, state="suspended")
        await operator.live(6)
        degraded = next(c for c in operator.status.conditions if c.type == "Degraded")
        assert degraded.status == "False"
        assert operator.status.lifecycle_state is LifecycleState.SUSPENDED

    asyncio.run(check())


def test_an_event_that_cannot_be_posted_stops_nothing():
    async def check():
        operator = Operator()
        operator.cluster.add(stream_job())
        operator.cluster.fail("create Event", *[RefusedError("no", status=403)] * 9)
        await operator.settle()
        assert DRIVER in operator.cluster.objects

    asyncio.run(check())


def test_the_same_event_again_counts_up():
    async def check():
        operator = await running()
        for _ in range(2):
            operator.cluster.delete_object(Kind.SERVICE, NAMESPACE, "payments-driver")
            await operator.settle()
        events = [
            manifest
            for (kind, _, _), manifest in operator.cluster.objects.items()
            if kind is Kind.EVENT and manifest["reason"] == "ObjectRecreated"
        ]
        assert [event["count"] for event in events] == [2]

    asyncio.run(check())


def test_trouble_of_an_executor_is_kept_after_its_pod_is_gone():
    async def check():
        operator = await running()
        operator.add_executor(1)
        pod = operator.cluster.objects[Kind.POD, NAMESPACE, "payments-exec-1"]
        ended = {"exitCode": 137, "reason": "OOMKilled"}
        pod["status"]["containerStatuses"] = [
            {"name": "spark-kubernetes-executor", "state": {"terminated": ended}}
        ]
        operator.actor.notice_executor(pod, is_gone=False)
        operator.cluster.delete_object(Kind.POD, NAMESPACE, "payments-exec-1", grace_s=0)
        operator.driver.answers["10.0.0.1"] = job_status(JobState.RESTARTING)
        await operator.turns()
        assert "OOMKilled" in operator.events

    asyncio.run(check())


def test_a_job_that_is_gone_ends_its_actor():
    async def check():
        operator = await running()
        operator.cluster.delete_object(Kind.STREAM_JOB, NAMESPACE, NAME)
        await operator.live(12)
        assert operator.job is None
        await asyncio.wait_for(operator.actor.run(), 1)

    asyncio.run(check())


def test_a_status_of_another_release_is_no_obstacle():
    async def check():
        operator = await running()
        operator.job["status"]["lifecycleState"] = "Dreaming"
        operator.job["status"]["newThing"] = {"a": 1}
        operator.restart()
        await operator.settle()
        assert LifecycleState.RUNNING is operator.status.lifecycle_state
        assert len(operator.cluster.created_pods) == 1

    asyncio.run(check())


def test_two_operators_at_once_make_one_driver():
    async def check():
        first = Operator()
        first.cluster.add(stream_job())
        second = Operator()
        second.cluster = first.cluster
        second.restart()
        for _ in range(12):
            await asyncio.gather(
                first.actor._guarded_turn(), second.actor._guarded_turn(), return_exceptions=True
            )
            first.notice_everything()
            second.notice_everything()
            first.pass_through()
        assert len(first.cluster.created_pods) == 1

    asyncio.run(check())


def test_the_job_does_not_grow_with_its_history():
    async def check():
        operator = await running()
        sizes = []
        for number in range(10, 40):
            operator.cluster.edit(
                Kind.STREAM_JOB, NAMESPACE, NAME, image=f"registry.local/job:{number}"
            )
            await operator.live(6)
            sizes.append(len(json.dumps(operator.job)))
        assert max(sizes) < 8 * 1024
        assert sizes[-1] - sizes[5] < 64

    asyncio.run(check())


def test_the_cause_of_a_missing_volume_is_found_without_any_notice():
    async def check():
        operator = Operator()
        operator.cluster.add(stream_job())
        await operator.settle()
        pod = operator.cluster.objects[DRIVER]
        pod["spec"]["nodeName"] = "node1"
        state = {"waiting": {"reason": "ContainerCreating"}}
        operator.cluster.set_pod(
            NAMESPACE,
            "payments-driver",
            phase="Pending",
            containerStatuses=[{"name": "driver", "state": state}],
        )
        operator.cluster.add(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": "e1", "namespace": NAMESPACE},
                "type": "Warning",
                "reason": "FailedMount",
                "message": 'configmap "rules" not found',
                "lastTimestamp": "2026-05-01T12:00:05Z",
                "involvedObject": {"uid": pod["metadata"]["uid"]},
            }
        )
        await operator.turns()
        pause = await operator.actor.turn()
        operator.clock.advance(pause)
        await operator.actor.turn()
        assert pause <= 8
        degraded = next(c for c in operator.status.conditions if c.type == "Degraded")
        assert degraded.reason == "VolumeFailed"

    asyncio.run(check())
