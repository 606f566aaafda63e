"""A changed spec is found by comparison and acted on by its effect (OP7, OP8, OP12)."""

import pytest

from headrace.api.driver import JobState, TerminationMessage
from headrace.api.v1alpha1 import DriverPhase, LifecycleState
from headrace_operator.kube.api import Kind, ObjectKey
from headrace_operator.reconcile.actions import ApplyObject, CreateDriver, DeleteObject
from operator_tests.world import (
    checkpoint,
    digest_of,
    driver_pod,
    executor_pod,
    healthy,
    job_facts,
    job_status,
    live_objects,
    running,
)

DRIVER = ObjectKey(Kind.POD, "payments-driver")
STOP = DeleteObject(DRIVER, "driver-uid-1", 30)


def changed(**changes):
    return job_facts(generation=2, **changes)


def creates_driver(seen):
    return any(isinstance(action, CreateDriver) for action in seen.decision.actions)


def condition(seen, kind):
    return next(c for c in seen.status.conditions if c.type == kind)


@pytest.mark.parametrize(
    ("changes", "field", "effect"),
    [
        ({"image": "registry.local/job:2"}, "image", "upgrade"),
        ({"program": {"inline": "x"}}, "program", "upgrade"),
        ({"config": {"state.backend": "hashmap"}}, "config", "upgrade"),
        ({"parallelism": 4}, "parallelism", "scale"),
        ({"restoreFrom": {"path": "s3://x/chk-1"}}, "restoreFrom", "redeploy"),
    ],
)
def test_a_change_with_an_effect_stops_the_driver_and_says_what_changed(changes, field, effect):
    seen = running().then(job=changed(**changes))
    assert seen.decision.actions == (STOP,)
    assert LifecycleState.UPGRADING is seen.status.lifecycle_state
    message = next(e.message for e in seen.decision.events if e.reason == "SpecChanged")
    assert f"fields={field} effect={effect}" in message


def test_the_new_driver_starts_only_when_driver_and_executors_are_gone():
    job = changed(image="registry.local/job:2")
    stopping = running().then(job=job, executors=(executor_pod(),))
    assert DriverPhase.STOPPING is stopping.status.driver.phase
    waiting = stopping.then(driver=None, rest=None)
    assert (DeleteObject(ObjectKey(Kind.POD, "payments-exec-1"), "executor-uid-1"),) == (
        waiting.decision.actions
    )
    objects = waiting.then(executors=())
    kinds = [a.manifest["kind"] for a in objects.decision.actions if isinstance(a, ApplyObject)]
    assert kinds == ["ConfigMap"]
    starting = objects.then(objects=live_objects(image="registry.local/job:2"))
    assert creates_driver(starting)
    assert starting.status.driver.attempt == 2
    assert starting.status.restarts == 0


def test_an_upgrade_is_over_when_the_new_driver_is_ready():
    job = changed(image="registry.local/job:2")
    stopping = running().then(job=job)
    starting = stopping.then(
        driver=None, rest=None, objects=live_objects(image="registry.local/job:2")
    )
    new = driver_pod(uid="driver-2", spec_hash=digest_of(image="registry.local/job:2"))
    ready = starting.then(driver=new, rest=healthy())
    assert LifecycleState.RUNNING is ready.status.lifecycle_state
    assert ready.status.observed_generation == 2


def test_ready_keeps_the_old_generation_until_the_new_spec_runs():
    seen = running().then(job=changed(image="registry.local/job:2"))
    assert (seen.status.observed_generation, condition(seen, "Ready").observed_generation) == (1, 1)
    assert condition(seen, "Progressing").observed_generation == 2


def test_the_operator_dies_before_it_stops_the_driver_and_the_next_one_stops_it():
    recorded = running().then(job=changed(image="registry.local/job:2"))
    again = recorded.then()
    assert again.decision.actions == (STOP,)
    assert "SpecChanged" not in again.event_reasons


def test_a_change_without_an_effect_touches_nothing_and_is_in_effect_at_once():
    seen = running().then(job=changed(restartPolicy={"maxAttempts": 3}))
    assert seen.decision.actions == ()
    assert LifecycleState.RUNNING is seen.status.lifecycle_state
    assert seen.status.observed_generation == 2
    assert "effect=ignore" in seen.decision.events[0].message


def test_the_restart_annotation_restarts_the_job():
    job = job_facts(annotations={"headrace.dev/restartedAt": "2026-05-01T12:00:00Z"})
    seen = running().then(job=job)
    assert seen.decision.actions == (STOP,)


def test_a_change_back_before_the_driver_was_stopped_leaves_it_alone():
    seen = running().then(job=changed(image="registry.local/job:2"))
    back = seen.then(job=job_facts(generation=3))
    assert back.decision.actions == ()
    assert back.status.observed_generation == 3


def failed_job():
    ended = driver_pod(
        phase="Failed", exit_code=1, termination=TerminationMessage(state=JobState.FAILED)
    )
    return running().then(driver=ended, rest=None)


def test_a_changed_spec_starts_a_failed_job_again():
    failed = failed_job()
    assert LifecycleState.FAILED is failed.status.lifecycle_state
    seen = failed.then(job=changed(image="registry.local/job:2"))
    assert seen.decision.actions == (STOP,)
    assert seen.status.driver.outcome is None
    start = seen.then(driver=None, objects=live_objects(image="registry.local/job:2"))
    assert creates_driver(start)


def test_a_change_without_an_effect_does_not_start_a_failed_job():
    seen = failed_job().then(job=changed(restartPolicy={"maxAttempts": 3}))
    assert seen.decision.actions == ()
    assert LifecycleState.FAILED is seen.status.lifecycle_state


def test_a_bad_image_is_fixed_by_apply_alone():
    pending = running().then(driver=driver_pod(phase="Pending"), rest=None)
    seen = pending.then(job=changed(image="registry.local/job:3"))
    assert seen.decision.actions == (STOP,)


def test_suspending_stops_the_driver_first_and_then_the_executors():
    job = changed(state="suspended")
    first = running().then(job=job, executors=(executor_pod(),))
    assert first.decision.actions == (STOP,)
    assert LifecycleState.SUSPENDING is first.status.lifecycle_state
    second = first.then(driver=None, rest=None)
    assert [action.key.name for action in second.decision.actions] == ["payments-exec-1"]
    done = second.then(executors=())
    assert LifecycleState.SUSPENDED is done.status.lifecycle_state
    assert (
        condition(done, "Suspended").status,
        condition(done, "Suspended").reason,
    ) == ("True", "SuspendedByUser")
    assert (
        done.status.observed_generation,
        done.status.parallelism,
        done.status.restarts,
    ) == (2, 0, 0)


def test_resuming_starts_a_driver_that_continues():
    suspended = running().then(job=changed(state="suspended")).then(driver=None, rest=None)
    resumed = suspended.then(job=job_facts(generation=3))
    assert creates_driver(resumed)
    assert LifecycleState.UPGRADING is resumed.status.lifecycle_state
    kept = resumed.status.last_checkpoint
    assert job_status(last_checkpoint=checkpoint()).last_checkpoint.path == kept.path


def test_a_change_while_suspended_is_used_at_the_next_start():
    suspended = running().then(job=changed(state="suspended")).then(driver=None, rest=None)
    still = suspended.then(
        job=job_facts(generation=3, state="suspended", image="registry.local/job:2")
    )
    assert still.decision.actions == ()
    assert (
        still.status.lifecycle_state,
        still.status.observed_generation,
    ) == (LifecycleState.SUSPENDED, 3)
