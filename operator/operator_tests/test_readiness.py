"""Ready: the query runs, an epoch was committed, a checkpoint of this generation completed."""

import pytest

from headrace.api.driver import JobState
from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.observe.facts import DriverAnswer, DriverSilence
from operator_tests.world import (
    NOW,
    checkpoint,
    driver_pod,
    facts,
    healthy,
    job_status,
    later,
    running,
    step,
)


def deployed():
    return step(facts()).then(driver=driver_pod(phase="Pending"))


def condition(status, kind):
    return next(c for c in status.conditions if c.type == kind)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (job_status(JobState.INITIALIZING), "JobInitializing"),
        (job_status(JobState.CREATED), "JobCreated"),
        (job_status(JobState.RESTARTING), "JobRestarting"),
        (job_status(epochs=0, last_checkpoint=checkpoint()), "AwaitingEpoch"),
        (job_status(), "AwaitingCheckpoint"),
        (job_status(generation=2, last_checkpoint=checkpoint()), "AwaitingCheckpoint"),
    ],
)
def test_a_job_that_is_not_there_yet_is_not_ready_and_says_why(answer, reason):
    seen = deployed().then(driver=driver_pod(), rest=DriverAnswer(answer))
    ready = condition(seen.status, "Ready")
    assert ("False", reason) == (ready.status, ready.reason)
    assert LifecycleState.DEPLOYING is seen.status.lifecycle_state


def test_a_checkpoint_of_the_present_generation_makes_it_ready():
    seen = deployed().then(driver=driver_pod(), rest=healthy())
    assert condition(seen.status, "Ready").status == "True"


def test_a_pending_pod_and_a_silent_driver_are_not_ready():
    pending = deployed()
    assert condition(pending.status, "Ready").reason == "DriverPending"
    silent = pending.then(driver=driver_pod(), rest=DriverSilence(NOW, "refused"))
    assert condition(silent.status, "Ready").reason == "DriverStarting"


def test_a_short_silence_of_a_ready_driver_changes_nothing():
    ready = running()
    quiet = DriverSilence(NOW, "timeout", last=healthy().status)
    short = ready.then(rest=quiet, now=later(14))
    assert ready.status == short.status


def test_a_long_silence_ends_readiness():
    quiet = DriverSilence(NOW, "timeout", last=healthy().status)
    long = running().then(rest=quiet, now=later(15))
    ready = condition(long.status, "Ready")
    assert (ready.status, ready.reason) == ("False", "DriverUnreachable")
    assert LifecycleState.RECOVERING is long.status.lifecycle_state


def test_all_conditions_are_always_there_with_reason_and_generation():
    for seen in (deployed(), running()):
        kinds = [c.type for c in seen.status.conditions]
        assert kinds == [
            "Ready",
            "Progressing",
            "Degraded",
            "Stable",
            "Suspended",
            "SavepointInProgress",
        ]
        assert all(c.reason and c.observed_generation == 1 for c in seen.status.conditions)


def test_the_transition_time_moves_only_with_the_status():
    first = deployed().then(now=later(5))
    second = first.then(driver=driver_pod(), rest=DriverAnswer(job_status()), now=later(9))
    assert condition(second.status, "Ready").last_transition_time == NOW
    ready = second.then(rest=healthy(), now=later(12))
    assert later(12) == condition(ready.status, "Ready").last_transition_time


def test_stable_takes_several_checkpoints_after_the_one_that_was_restored():
    ready = running()
    assert condition(ready.status, "Stable").status == "False"
    for number, stable in ((41, "False"), (42, "False"), (43, "True")):
        answer = job_status(last_checkpoint=checkpoint(number), restored_from=40)
        seen = ready.then(rest=DriverAnswer(answer))
        assert stable == condition(seen.status, "Stable").status


def test_the_last_checkpoint_is_in_the_status():
    last = running().status.last_checkpoint
    assert (
        last.id,
        last.completed_at,
        last.state_size_bytes,
        last.uploaded_bytes,
    ) == (1, NOW, 1000, 100)
