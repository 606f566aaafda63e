"""Jobs that are paused, invalid, unwise, or refused by the API server."""

from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.observe.facts import Refusal
from operator_tests.world import (
    NOW,
    digest_of,
    driver_pod,
    facts,
    healthy,
    job_facts,
    running,
    step,
)

PAUSED = {"headrace.dev/paused": "true"}


def condition(seen, kind):
    return next(c for c in seen.status.conditions if c.type == kind)


def test_a_paused_job_is_watched_and_not_touched():
    job = job_facts(annotations=PAUSED, generation=2, image="registry.local/job:2")
    seen = running().then(job=job)
    assert seen.decision.actions == ()
    assert (
        condition(seen, "Progressing").status,
        condition(seen, "Progressing").reason,
    ) == ("False", "Paused")
    assert condition(seen, "Ready").status == "True"
    assert seen.status.observed_generation == 1
    lost = seen.then(driver=None, rest=None)
    assert lost.decision.actions == ()


def test_what_changed_while_paused_is_acted_on_afterwards():
    job = job_facts(annotations=PAUSED, generation=2, image="registry.local/job:2")
    paused = running().then(job=job)
    free = paused.then(job=job_facts(generation=2, image="registry.local/job:2"))
    assert [action.key.name for action in free.decision.actions] == ["payments-driver"]


def test_an_invalid_spec_is_reported_by_field_and_what_runs_goes_on():
    seen = running().then(job=job_facts(generation=2, parallelism=0, image=""))
    assert seen.decision.actions == ()
    degraded = condition(seen, "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "InvalidSpec")
    assert "spec.parallelism" in degraded.message
    assert "spec.image" in degraded.message
    assert condition(seen, "Ready").status == "True"
    assert LifecycleState.RUNNING is seen.status.lifecycle_state
    assert seen.status.observed_generation == 1
    assert seen.event_reasons == ["InvalidSpec"]


def test_fixing_an_invalid_spec_clears_the_report():
    broken = running().then(job=job_facts(generation=2, parallelism=0))
    fixed = broken.then(job=job_facts(generation=3))
    assert condition(fixed, "Degraded").status == "False"
    assert fixed.decision.actions == ()


def test_an_uneven_spread_of_key_groups_is_accepted_with_a_warning():
    seen = step(facts(job_facts(parallelism=50)))
    (warning,) = seen.status.warnings
    assert "parallelism=50 maxParallelism=128 groups_per_slot=2..3" in warning
    assert "17 %" in warning
    assert "Warning" in seen.event_reasons
    assert "Warning" not in seen.then().event_reasons


def test_an_even_spread_is_no_warning():
    assert step(facts(job_facts(parallelism=32))).status.warnings == ()


def test_upgrade_modes_that_do_not_exist_yet_are_a_warning():
    seen = step(facts(job_facts(upgradeMode="savepoint")))
    assert any("upgradeMode=savepoint" in text for text in seen.status.warnings)


def test_a_refused_action_is_a_condition_and_an_event():
    refusal = Refusal("creating Pod payments-driver", "Forbidden", "exceeded quota: cards", NOW)
    seen = step(facts(refusal=refusal))
    degraded = condition(seen, "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "ActionRefused")
    assert "exceeded quota: cards" in degraded.message
    assert "ActionRefused" in seen.event_reasons


def test_a_pause_before_the_first_start_starts_nothing():
    seen = step(facts(job_facts(annotations=PAUSED), objects={}, token_uid=None))
    assert seen.decision.actions == ()
    assert seen.status.last_reconciled_spec is None


def test_the_digest_of_a_default_is_no_digest():
    assert digest_of() == digest_of(maxParallelism=128, upgradeMode="last-state")
    assert digest_of() == digest_of(restartPolicy={"maxAttempts": 4})
    assert digest_of() != digest_of(restarted_at="now")


def test_a_healthy_paused_driver_stays_ready():
    job = job_facts(annotations=PAUSED)
    seen = running().then(job=job, driver=driver_pod(), rest=healthy())
    assert condition(seen, "Ready").status == "True"
