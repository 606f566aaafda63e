"""Errors of a job that is still alive: Degraded while they last, kept as last error afterwards."""

from headrace.api.driver import JobError, JobState
from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.observe.facts import DriverAnswer
from operator_tests.world import NOW, checkpoint, job_status, later, running

AT_MS = int(NOW.timestamp() * 1000)
ERROR = JobError(kind="SourceUnavailable", message="topic not found; topic=orders", at_ms=AT_MS)


def degraded(seen):
    return next(c for c in seen.status.conditions if c.type == "Degraded")


def restarting():
    return running().then(rest=DriverAnswer(job_status(JobState.RESTARTING, error=ERROR)))


def test_an_error_of_the_job_is_a_condition_and_an_event_with_its_kind():
    seen = restarting()
    assert (
        degraded(seen).status,
        degraded(seen).reason,
        degraded(seen).message,
    ) == ("True", "SourceUnavailable", "topic not found; topic=orders")
    assert seen.event_reasons == ["SourceUnavailable"]
    assert LifecycleState.RECOVERING is seen.status.lifecycle_state


def test_it_is_reported_once_while_it_lasts():
    assert restarting().then(now=later(30)).event_reasons == []


def test_it_lasts_until_a_checkpoint_completed_after_it():
    back = restarting().then(
        rest=DriverAnswer(job_status(generation=2, error=ERROR, last_checkpoint=checkpoint()))
    )
    assert degraded(back).status == "True"
    done = checkpoint(2, generation=2, completed_ms=AT_MS + 1)
    healed = back.then(
        rest=DriverAnswer(job_status(generation=2, error=ERROR, last_checkpoint=done))
    )
    assert degraded(healed).status == "False"
    assert healed.status.last_error.kind == "SourceUnavailable"


def test_a_kind_that_kubernetes_refuses_as_reason_is_replaced():
    odd = JobError(kind="no such word!", message="m", at_ms=AT_MS)
    seen = running().then(rest=DriverAnswer(job_status(JobState.FAILING, error=odd)))
    assert degraded(seen).reason == "JobFailed"


def test_a_restart_that_will_not_help_is_said_so():
    final = ERROR.model_copy(update={"restartable": False})
    seen = running().then(rest=DriverAnswer(job_status(JobState.FAILING, error=final)))
    assert degraded(seen).message.endswith("(a restart will not help)")
