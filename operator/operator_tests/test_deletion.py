"""Deletion works in every state, in order, and never later than its deadline (OP51, OP53)."""

import asyncio
import contextlib

import pytest

from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.kube.api import (
    ClusterUnavailableError,
    Kind,
    ObjectKey,
    RefusedError,
)
from headrace_operator.reconcile.actions import DeleteObject, RemoveFinalizer
from operator_tests.harness import NAME, NAMESPACE, Operator, stream_job
from operator_tests.world import (
    NOW,
    driver_pod,
    executor_pod,
    facts,
    job_facts,
    later,
    live_objects,
    running,
    step,
)

DRIVER = DeleteObject(ObjectKey(Kind.POD, "payments-driver"), "driver-uid-1", 30)
EXECUTOR = DeleteObject(ObjectKey(Kind.POD, "payments-exec-1"), "executor-uid-1")


def live():
    """Live objects carry UIDs."""
    return {
        key: {**manifest, "metadata": {**manifest["metadata"], "uid": f"uid-{key.kind.kind}"}}
        for key, manifest in live_objects().items()
    }


def deleting(**fields):
    seen = running()
    job = job_facts(seen.status, deletion_requested_at=NOW)
    base = {"driver": driver_pod(), "objects": live(), **fields}
    return step(facts(job, **base))


def test_the_driver_goes_first_then_executors_then_the_rest_then_the_finalizer():
    first = deleting(executors=(executor_pod(),))
    assert first.decision.actions == (DRIVER,)
    assert LifecycleState.DELETING is first.status.lifecycle_state
    terminating = first.then(driver=driver_pod(deletion_deadline=later(30)))
    assert terminating.decision.actions == ()
    second = first.then(driver=None)
    assert second.decision.actions == (EXECUTOR,)
    third = second.then(executors=())
    kinds = [action.key.kind for action in third.decision.actions]
    assert kinds == [
        Kind.SERVICE_ACCOUNT,
        Kind.ROLE,
        Kind.ROLE_BINDING,
        Kind.SERVICE,
        Kind.CONFIG_MAP,
        Kind.SECRET,
    ]
    last = third.then(objects={}, token_uid=None)
    assert (RemoveFinalizer(),) == last.decision.actions


def test_after_the_deadline_everything_goes_at_once_by_force():
    late = deleting(
        driver=driver_pod(deletion_deadline=later(30)),
        executors=(executor_pod(deletion_deadline=later(30)),),
        now=later(120),
    )
    pods = [a for a in late.decision.actions if isinstance(a, DeleteObject) and a.grace_s == 0]
    assert [action.key.name for action in pods] == ["payments-driver", "payments-exec-1"]
    assert RemoveFinalizer() == late.decision.actions[-1]
    assert late.event_reasons == ["DeletionOverdue"]


def test_what_cannot_be_deleted_holds_nothing_up_after_the_deadline():
    async def check():
        operator = Operator()
        operator.cluster.add(stream_job())
        await operator.settle()
        operator.start_driver_pod()
        await operator.settle()
        operator.cluster.delete_object(Kind.STREAM_JOB, NAMESPACE, NAME)
        error = ClusterUnavailableError("failed calling webhook", status=500)
        operator.cluster.fail("delete Pod", *[error] * 99)
        for _ in range(10):
            with contextlib.suppress(ClusterUnavailableError):
                await operator.turns()
        assert operator.job is not None
        operator.clock.advance(120)
        await operator.turns()
        assert operator.job is None

    asyncio.run(check())


def test_a_status_that_is_refused_does_not_hold_the_deletion():
    async def check():
        operator = Operator()
        operator.cluster.add(stream_job())
        await operator.settle()
        operator.cluster.delete_object(Kind.STREAM_JOB, NAMESPACE, NAME)
        operator.cluster.fail("status", *[RefusedError("spec is invalid", status=422)] * 99)
        await operator.live(8)
        assert operator.job is None

    asyncio.run(check())


def test_the_deadline_wakes_the_operator():
    waiting = deleting(driver=driver_pod(phase="Pending", deletion_deadline=later(30)))
    waiting = waiting.then(now=later(119))
    assert waiting.decision.wake_after_s <= 1


@pytest.mark.parametrize(
    "job",
    [
        job_facts(deletion_requested_at=NOW, finalizers=("headrace.dev/teardown",)),
        job_facts(deletion_requested_at=NOW, spec={"image": 7, "nonsense": True}),
        job_facts(deletion_requested_at=NOW, annotations={"headrace.dev/paused": "true"}),
        job_facts(deletion_requested_at=NOW, state="suspended"),
    ],
    ids=["never deployed", "invalid", "paused", "suspended"],
)
def test_a_job_without_anything_is_let_go_at_once(job):
    seen = step(facts(job, objects={}, token_uid=None))
    assert (RemoveFinalizer(),) == seen.decision.actions


def test_an_invalid_job_with_a_driver_is_torn_down_too():
    seen = deleting()
    broken = seen.then(job=job_facts(spec={"parallelism": 0}, deletion_requested_at=NOW))
    assert broken.decision.actions == (DRIVER,)


def test_objects_of_others_survive():
    foreign = ObjectKey(Kind.CONFIG_MAP, "rules")
    objects = {foreign: {"metadata": {"name": "rules", "uid": "x", "ownerReferences": []}}}
    seen = deleting(driver=None, objects=objects, token_uid=None)
    assert (RemoveFinalizer(),) == seen.decision.actions


def test_a_driver_of_a_namesake_survives():
    seen = deleting(driver=driver_pod(owner="other"), objects={}, token_uid=None)
    assert (RemoveFinalizer(),) == seen.decision.actions


def test_without_our_finalizer_nothing_is_left_to_do():
    job = job_facts(deletion_requested_at=NOW, finalizers=("other/finalizer",))
    assert step(facts(job, driver=driver_pod())).decision.actions == ()
