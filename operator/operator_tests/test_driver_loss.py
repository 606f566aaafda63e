"""A driver that went away is replaced, counted once, and never by two (OP45, OP47)."""

from datetime import timedelta

import pytest

from headrace.api.driver import JobError, JobState, TerminationMessage
from headrace.api.v1alpha1 import DriverPhase, LifecycleState
from headrace_operator.kube.api import Kind, ObjectKey
from headrace_operator.observe.facts import DriverAnswer, PodProblem, PodTrouble
from headrace_operator.reconcile.actions import CreateDriver, DeleteObject
from operator_tests.world import (
    checkpoint,
    driver_pod,
    executor_pod,
    healthy,
    job_status,
    later,
    running,
)

DRIVER = ObjectKey(Kind.POD, "payments-driver")


def creates_driver(seen):
    return any(isinstance(action, CreateDriver) for action in seen.decision.actions)


def crashed(uid="driver-uid-1", **fields):
    return driver_pod(uid=uid, phase="Failed", exit_code=1, **fields)


def crash_times(count, policy=None):
    """A job whose driver crashed ``count`` times in a row, each time as soon as it was seen."""
    seen = running()
    if policy is not None:
        seen = seen.then(job=seen.facts.job.__class__(**_with_spec(seen, policy)))
    for number in range(count):
        uid = f"driver-{number}"
        seen = seen.then(driver=crashed(uid), rest=None)
        if seen.status.lifecycle_state is LifecycleState.FAILED:
            return seen
        seen = seen.then(driver=None)
        if number < count - 1:
            seen = seen.then(now=seen.status.driver.retry_at or seen.facts.now)
            seen = seen.then(driver=driver_pod(uid=f"driver-{number + 1}", phase="Pending"))
    return seen


def _with_spec(seen, policy):
    job = seen.facts.job
    fields = {name: getattr(job, name) for name in job.__slots__}
    return {**fields, "spec": {**job.spec, "restartPolicy": policy}}


def test_a_driver_that_is_gone_is_replaced_at_once():
    lost = running().then(driver=None, rest=None, now=later(1))
    assert creates_driver(lost)
    assert LifecycleState.RECOVERING is lost.status.lifecycle_state
    assert (
        lost.status.driver.phase,
        lost.status.driver.attempt,
        lost.status.restarts,
    ) == (DriverPhase.STARTING, 2, 1)
    assert lost.status.last_error.kind == "DriverLost"


def test_recovery_time_is_measured_from_the_loss_to_ready():
    lost = running().then(driver=None, rest=None, now=later(1))
    back = lost.then(driver=driver_pod(uid="driver-2", phase="Pending"), now=later(2))
    answer = DriverAnswer(job_status(generation=2, last_checkpoint=checkpoint(2, generation=2)))
    ready = back.then(driver=driver_pod(uid="driver-2"), rest=answer, now=later(9))
    assert (
        ready.status.last_recovery.seconds,
        ready.status.last_recovery.cause,
    ) == (8.0, "DriverLost")
    assert ready.event_reasons == ["Recovered"]
    assert LifecycleState.RUNNING is ready.status.lifecycle_state
    assert ready.status.driver.recovering_since is None


def test_a_crash_is_counted_before_the_pod_is_deleted_and_only_once():
    first = running().then(driver=crashed(), rest=None)
    assert DeleteObject(DRIVER, "driver-uid-1", 0) in first.decision.actions
    assert (
        first.status.driver.failures,
        first.status.driver.phase,
    ) == (1, DriverPhase.STOPPING)
    again = first.then()  # the operator was killed before it deleted the pod
    assert DeleteObject(DRIVER, "driver-uid-1", 0) in again.decision.actions
    assert (again.status.driver.failures, again.status.restarts) == (1, 1)
    assert "DriverReplaced" not in again.event_reasons


def test_executors_of_a_crashed_driver_are_removed_and_not_waited_for():
    first = running().then(driver=crashed(), executors=(executor_pod(),), rest=None)
    assert DeleteObject(ObjectKey(Kind.POD, "payments-exec-1"), "executor-uid-1") in (
        first.decision.actions
    )
    gone = first.then(driver=None)
    assert creates_driver(gone)


def test_the_first_failure_costs_no_pause_and_later_ones_double_it():
    delays = []
    for count in (1, 2, 3, 4):
        seen = crash_times(count)
        retry_at = seen.status.driver.retry_at
        at = seen.status.driver.last_failure.at
        delays.append((retry_at - at).total_seconds() if retry_at else 0)
    assert delays[0] == 0
    assert 5 <= delays[1] < 6.1
    assert 10 <= delays[2] < 12.1
    assert 20 <= delays[3] < 24.1


def test_no_driver_is_started_before_the_pause_is_over():
    waiting = crash_times(2)
    assert not creates_driver(waiting)
    remaining = (waiting.status.driver.retry_at - waiting.facts.now).total_seconds()
    assert remaining == pytest.approx(waiting.decision.wake_after_s)
    assert next(c for c in waiting.status.conditions if c.type == "Progressing").status == "True"
    assert creates_driver(waiting.then(now=waiting.status.driver.retry_at))


def test_a_healthy_time_forgets_earlier_failures():
    lost = running().then(driver=None, rest=None)
    back = lost.then(driver=driver_pod(uid="driver-2"), rest=healthy())
    assert back.status.driver.failures == 1
    assert back.then(now=back.facts.now + timedelta(seconds=599)).status.driver.failures == 1
    assert back.then(now=back.facts.now + timedelta(seconds=600)).status.driver.failures == 0


def test_a_spent_budget_is_failed_with_the_last_cause_and_keeps_the_pod():
    failed = crash_times(2, policy={"maxAttempts": 2})
    assert LifecycleState.FAILED is failed.status.lifecycle_state
    assert failed.decision.actions == ()
    degraded = next(c for c in failed.status.conditions if c.type == "Degraded")
    assert "gave up after 2 failed drivers in a row" in degraded.message
    assert "Failed" in failed.event_reasons
    assert failed.status == failed.then().status


@pytest.mark.parametrize(
    ("pod", "reason", "words"),
    [
        (
            crashed(problem=PodProblem("p", PodTrouble.OOM_KILLED, "used more memory")),
            "OOMKilled",
            "used more memory",
        ),
        (
            driver_pod(
                phase="Failed",
                problem=PodProblem("p", PodTrouble.EVICTED, "node was low on memory"),
            ),
            "Evicted",
            "node was low on memory",
        ),
        (crashed(), "DriverExited", "exit_code=1"),
        (driver_pod(phase="Succeeded", exit_code=0), "DriverExited", "exit_code=0"),
        (
            crashed(
                termination=TerminationMessage(
                    state=JobState.RESTARTING, error=JobError(kind="SlotLost", message="slot 1")
                )
            ),
            "SlotLost",
            "slot 1",
        ),
        (
            crashed(termination=TerminationMessage(state=JobState.CANCELED)),
            "DriverExited",
            "exit_code=1",
        ),
    ],
)
def test_the_cause_of_a_crash_reaches_status_condition_and_event(pod, reason, words):
    seen = running().then(driver=pod, rest=None)
    degraded = next(c for c in seen.status.conditions if c.type == "Degraded")
    assert ("True", reason) == (degraded.status, degraded.reason)
    assert words in degraded.message
    assert reason == seen.status.last_error.kind
    assert reason in seen.event_reasons
    assert creates_driver(seen.then(driver=None))


def test_a_driver_deleted_by_somebody_is_replaced_once_its_name_is_free():
    going = running().then(driver=driver_pod(deletion_deadline=later(30)), now=later(1))
    assert going.decision.actions == ()
    assert LifecycleState.RECOVERING is going.status.lifecycle_state
    assert going.status.driver.last_failure.reason == "DriverDeleted"
    gone = going.then(driver=None, rest=None, now=later(5))
    assert creates_driver(gone)
    assert gone.status.restarts == 1
    assert later(1) == gone.status.driver.recovering_since


def test_a_pod_that_never_stops_is_removed_by_force_after_its_grace_period():
    going = running().then(driver=driver_pod(deletion_deadline=later(30)))
    patient = going.then(now=later(59))
    assert patient.decision.actions == ()
    forced = going.then(now=later(60))
    assert (DeleteObject(DRIVER, "driver-uid-1", 0),) == forced.decision.actions
    assert "DriverForceDeleted" in forced.event_reasons


def test_failovers_that_the_driver_survives_count_as_restarts():
    answer = job_status(
        last_checkpoint=checkpoint(),
        restarts=2,
        recovery_s=3.21,
        error=JobError(kind="SlotLost", message="slot 0 went away", at_ms=1),
    )
    seen = running().then(rest=DriverAnswer(answer))
    assert seen.status.restarts == 2
    assert (
        seen.status.last_recovery.seconds,
        seen.status.last_recovery.cause,
    ) == (3.2, "SlotLost")
    assert seen.status == seen.then(now=later(60)).status


def test_restarts_never_go_back_when_the_driver_is_replaced():
    seen = running().then(rest=DriverAnswer(job_status(last_checkpoint=checkpoint(), restarts=2)))
    lost = seen.then(driver=None, rest=None)
    assert lost.status.restarts == 3
    back = lost.then(driver=driver_pod(uid="d2"), rest=healthy())
    assert back.status.restarts == 3
    busy = back.then(rest=DriverAnswer(job_status(last_checkpoint=checkpoint(), restarts=1)))
    assert busy.status.restarts == 4
