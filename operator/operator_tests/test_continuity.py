"""Every driver but the first is told what it must be able to continue from (OP14)."""

from dataclasses import replace

import pytest

from headrace.api.driver import ENV_COMPLETED_CHECKPOINT
from headrace.api.v1alpha1 import DriverPhase
from headrace_operator.observe.facts import DriverAnswer
from headrace_operator.reconcile.actions import CreateDriver
from operator_tests.world import (
    checkpoint,
    driver_pod,
    facts,
    job_facts,
    job_status,
    later,
    running,
    step,
)


def told(seen):
    """What the driver that is started is told; None = nothing."""
    (pod,) = [a.manifest for a in seen.decision.actions if isinstance(a, CreateDriver)]
    variables = {v["name"]: v.get("value") for v in pod["spec"]["containers"][0]["env"]}
    return variables.get(ENV_COMPLETED_CHECKPOINT)


def changed(seen, **spec):
    """The job's spec is changed and the old driver gone."""
    job = job_facts(seen.status, generation=2, **spec)
    stopped = seen.then(job=job, driver=driver_pod(), rest=seen.facts.rest)
    return stopped.then(job=replace(job, status=stopped.status), driver=None, rest=None)


def test_the_first_driver_has_nothing_to_continue_from():
    assert told(step(facts())) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"image": "registry.local/job:2"},
        {"parallelism": 4},
        {"config": {"execution.checkpointing.dir": "s3://other/place"}},
    ],
)
def test_a_changed_spec_continues_from_what_was_completed(spec):
    answer = DriverAnswer(job_status(last_checkpoint=checkpoint(41)))
    assert "41" == told(changed(running().then(rest=answer), **spec))


def test_a_lost_driver_is_followed_by_one_that_continues():
    assert "1" == told(running().then(driver=None, rest=None, now=later(5)))


def test_a_changed_restore_from_chooses_the_state_again():
    restore = {"restoreFrom": {"path": "s3://b/chk-9"}}
    start = changed(running(), **restore)
    assert told(start) is None
    assert start.status.last_checkpoint is None
    assert DriverPhase.STARTING is start.status.driver.phase


def test_an_operator_that_dies_in_between_has_not_forgotten_the_choice():
    restore = {"restoreFrom": {"path": "s3://b/chk-9"}}
    again = changed(running(), **restore).then()
    assert told(again) is None
    assert not again.status.driver.chooses_state


def test_the_choice_counts_for_one_start_only():
    restore = {"restoreFrom": {"path": "s3://b/chk-9"}}
    started = changed(running(), **restore)
    answer = DriverAnswer(job_status(generation=2, last_checkpoint=checkpoint(1, generation=2)))
    ready = started.then(
        driver=driver_pod(uid="driver-uid-2", spec_hash=_hash(started)), rest=answer
    )
    assert 1 == ready.status.last_checkpoint.id
    lost = ready.then(driver=None, rest=None, now=later(60))
    assert "1" == told(lost)


def _hash(seen):
    (pod,) = [a.manifest for a in seen.decision.actions if isinstance(a, CreateDriver)]
    return pod["metadata"]["annotations"]["headrace.dev/spec-hash"]
