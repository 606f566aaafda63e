"""A job that calls itself running and shows no progress is restarted (OP48)."""

from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.observe.facts import DriverAnswer, DriverSilence
from headrace_operator.reconcile.actions import DeleteObject
from operator_tests.world import (
    NOW,
    checkpoint,
    driver_pod,
    executor_pod,
    healthy,
    job_facts,
    job_status,
    later,
    running,
)


def stalled(at, job=None):
    answer = DriverAnswer(job_status(last_checkpoint=checkpoint()), stalled_since=NOW)
    seen = running()
    return seen.then(job=job or seen.facts.job, rest=answer, now=at, executors=(executor_pod(),))


def test_a_job_without_progress_is_left_alone_until_the_timeout():
    assert stalled(later(599)).decision.actions == ()


def test_a_job_without_progress_is_restarted_after_the_timeout():
    seen = stalled(later(600))
    assert [
        action.key.name for action in seen.decision.actions if isinstance(action, DeleteObject)
    ] == ["payments-driver", "payments-exec-1"]
    assert LifecycleState.RECOVERING is seen.status.lifecycle_state
    assert (seen.status.driver.last_failure.reason, seen.status.restarts) == ("JobHung", 1)
    assert "DriverReplaced" in seen.event_reasons


def test_a_driver_that_answered_once_and_is_silent_since_is_restarted_too():
    quiet = DriverSilence(NOW, "timeout", last=healthy().status)
    seen = running().then(rest=quiet, now=later(600), driver=driver_pod(ready=False))
    assert seen.status.driver.last_failure.reason == "JobHung"


def test_a_driver_that_its_kubelet_reaches_and_we_do_not_is_degraded_and_left_alone():
    quiet = DriverSilence(NOW, "TimeoutError", last=healthy().status)
    seen = running().then(rest=quiet, now=later(3600))
    assert () == seen.decision.actions
    degraded = next(c for c in seen.status.conditions if c.type == "Degraded")
    assert ("True", "DriverUnreachable") == (degraded.status, degraded.reason)
    assert "NetworkPolicy" in degraded.message


def test_a_short_silence_is_no_trouble():
    quiet = DriverSilence(NOW, "TimeoutError", last=healthy().status)
    seen = running().then(rest=quiet, now=later(10))
    assert [] == seen.event_reasons


def test_a_driver_that_never_answered_is_the_probes_matter():
    seen = running().then(rest=DriverSilence(NOW, "refused"), now=later(3600))
    assert seen.decision.actions == ()


def test_the_check_can_be_switched_off():
    job = job_facts(generation=2, restartPolicy={"progressTimeoutSeconds": 0})
    assert stalled(later(86_400), job).decision.actions == ()
