"""A job that ended for good stays ended: its pod is kept for the log, and nothing runs it again."""

import pytest

from headrace.api.driver import JobError, JobState, TerminationMessage
from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.kube.api import Kind, ObjectKey
from headrace_operator.reconcile.actions import DeleteObject
from operator_tests.world import driver_pod, executor_pod, later, running

TRACEBACK = "Traceback (most recent call last):\n" + "".join(
    f'  File "/opt/job.py", line {line}, in f{line}\n    call()\n' for line in range(1, 9)
)
ERROR = JobError(
    kind="UserCodeFailed",
    message="ValueError: bad amount",
    traceback=TRACEBACK + "ValueError: bad amount",
    restartable=False,
    at_ms=1_000,
)


def ended(state, error=None):
    said = TerminationMessage(state=state, error=error)
    pod = driver_pod(
        phase="Succeeded" if error is None else "Failed",
        exit_code=0 if error is None else 1,
        termination=said,
    )
    return running().then(driver=pod, rest=None)


def test_a_finished_job_is_finished():
    done = ended(JobState.FINISHED)
    assert LifecycleState.FINISHED is done.status.lifecycle_state
    assert done.decision.actions == ()
    assert done.event_reasons == ["Finished"]
    assert next(c for c in done.status.conditions if c.type == "Degraded").status == "False"


def test_a_failed_job_names_the_cause_in_condition_event_and_last_error():
    failed = ended(JobState.FAILED, ERROR)
    assert LifecycleState.FAILED is failed.status.lifecycle_state
    degraded = next(c for c in failed.status.conditions if c.type == "Degraded")
    assert (degraded.reason, degraded.message) == ("UserCodeFailed", "ValueError: bad amount")
    assert {"Failed", "UserCodeFailed"} == set(failed.event_reasons)
    assert failed.status.last_error.kind == "UserCodeFailed"


def test_the_last_five_frames_are_kept():
    trace = ended(JobState.FAILED, ERROR).status.last_error.traceback
    assert [part.split(",")[1].strip() for part in trace.splitlines() if "File" in part] == [
        "line 4",
        "line 5",
        "line 6",
        "line 7",
        "line 8",
    ]
    assert trace.endswith("ValueError: bad amount")


@pytest.mark.parametrize("state", [JobState.FINISHED, JobState.FAILED])
def test_removing_the_ended_pod_does_not_run_the_job_again(state):
    done = ended(state, ERROR if state is JobState.FAILED else None)
    gone = done.then(driver=None, now=later(60))
    assert gone.decision.actions == ()
    assert done.status.lifecycle_state is gone.status.lifecycle_state


def test_executors_that_outlived_the_job_are_removed():
    pod = driver_pod(
        phase="Succeeded", exit_code=0, termination=TerminationMessage(state=JobState.FINISHED)
    )
    done = running().then(driver=pod, rest=None, executors=(executor_pod(),))
    key = ObjectKey(Kind.POD, "payments-exec-1")
    assert (DeleteObject(key, "executor-uid-1"),) == done.decision.actions
