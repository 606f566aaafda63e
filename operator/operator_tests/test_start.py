"""From a new StreamJob to its driver: what is created, in which order, what is recorded first."""

from headrace.api.names import FINALIZER
from headrace.api.v1alpha1 import DriverPhase, LifecycleState
from headrace_operator.kube.api import Kind
from headrace_operator.reconcile.actions import (
    AddFinalizer,
    ApplyObject,
    CreateDriver,
    CreateObject,
    CreateToken,
)
from operator_tests.world import (
    DRIVER_UID,
    driver_pod,
    facts,
    job_facts,
    live_objects,
    running,
    step,
)


def created_pod(decision_actions):
    pods = [action.manifest for action in decision_actions if isinstance(action, CreateDriver)]
    assert len(pods) == 1
    return pods[0]


def test_the_finalizer_comes_before_everything_else():
    first = step(facts(job_facts(finalizers=()), objects={}, token_uid=None))
    assert first.decision.actions[0] == AddFinalizer()


def test_objects_and_token_are_created_before_the_driver():
    first = step(facts(objects={}, token_uid=None))
    *objects, token, driver = first.decision.actions
    kinds = [a.manifest["kind"] for a in objects if isinstance(a, CreateObject)]
    assert ["ServiceAccount", "Role", "RoleBinding", "Service", "ConfigMap"] == kinds
    assert CreateToken() == token
    assert isinstance(driver, CreateDriver)
    assert DriverPhase.STARTING is first.status.driver.phase


def test_what_is_missing_is_created_and_what_differs_is_corrected():
    objects = live_objects()
    (service,) = (key for key in objects if key.kind is Kind.SERVICE)
    (config,) = (key for key in objects if key.kind is Kind.CONFIG_MAP)
    changed = {**objects[config], "data": {}}
    without = {key: live for key, live in objects.items() if key != service}
    actions = step(facts(objects={**without, config: changed})).decision.actions
    assert [CreateObject, ApplyObject, CreateDriver] == [type(action) for action in actions]


def test_the_intent_to_start_is_in_the_status_that_is_written_before_the_pod_is_created():
    start = step(facts())
    assert created_pod(start.decision.actions)["metadata"]["name"] == "payments-driver"
    assert (start.status.driver.phase, start.status.driver.attempt) == (DriverPhase.STARTING, 1)
    assert LifecycleState.DEPLOYING is start.status.lifecycle_state
    assert start.event_reasons == ["Submitted"]
    assert start.status.observed_generation == 0


def test_a_start_that_was_interrupted_goes_on_with_the_same_attempt():
    again = step(facts()).then()
    assert again.status.driver.attempt == 1
    annotations = created_pod(again.decision.actions)["metadata"]["annotations"]
    assert annotations["headrace.dev/attempt"] == "1"


def test_a_driver_that_appears_is_recorded_and_reported_once():
    seen = step(facts()).then(driver=driver_pod(phase="Pending"))
    assert (
        seen.status.driver.phase,
        seen.status.driver.pod_uid,
    ) == (DriverPhase.PRESENT, DRIVER_UID)
    assert seen.event_reasons == ["DriverCreated"]
    again = seen.then()
    assert again.event_reasons == []
    assert again.decision.actions == ()
    assert seen.status == again.status


def test_a_job_that_is_ready_is_running():
    ready = running()
    assert LifecycleState.RUNNING is ready.status.lifecycle_state
    assert ready.event_reasons == ["Ready"]
    assert ready.status.observed_generation == 1
    assert ready.status.parallelism == 2


def test_deciding_again_on_the_same_facts_changes_nothing():
    again = running().then()
    assert again.facts.job.status == again.status
    assert (again.decision.actions, again.decision.events) == ((), ())


def test_a_pod_of_the_drivers_name_that_is_not_ours_is_left_alone():
    blocked = step(facts(driver=driver_pod(owner="somebody-else")))
    assert blocked.decision.actions == ()
    degraded = next(c for c in blocked.status.conditions if c.type == "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "NameConflict")
    assert blocked.status.observed_generation == 0


def test_an_object_of_somebody_else_is_never_taken_over():
    objects = live_objects()
    key = next(key for key in objects if key.kind is Kind.SERVICE)
    objects[key] = {**objects[key], "metadata": {"name": key.name, "namespace": "bank"}}
    blocked = step(facts(objects=objects))
    assert blocked.decision.actions == ()
    assert "NameConflict" in blocked.event_reasons


def test_a_job_that_is_created_suspended_starts_nothing():
    parked = step(facts(job_facts(state="suspended"), objects={}, token_uid=None))
    assert parked.decision.actions == ()
    assert LifecycleState.SUSPENDED is parked.status.lifecycle_state
    assert parked.event_reasons == ["Suspended"]


def test_the_finalizer_is_ours():
    assert FINALIZER == "headrace.dev/teardown"
