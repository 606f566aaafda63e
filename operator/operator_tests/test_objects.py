"""What belongs to a job is put back when it is deleted or edited (OP49)."""

from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.kube.api import Kind, ObjectKey
from headrace_operator.reconcile.actions import (
    ApplyObject,
    CreateDriver,
    CreateObject,
    CreateToken,
    DeleteObject,
)
from headrace_operator.resources.desired import is_as_desired
from operator_tests.world import driver_pod, executor_pod, live_objects, running

CONFIG_MAP = ObjectKey(Kind.CONFIG_MAP, "payments-driver")
SERVICE = ObjectKey(Kind.SERVICE, "payments-driver")


def kinds(seen, action):
    return [a.manifest["kind"] for a in seen.decision.actions if isinstance(a, action)]


def test_a_deleted_object_is_made_again_under_a_running_driver():
    objects = live_objects()
    del objects[SERVICE]
    del objects[CONFIG_MAP]
    seen = running().then(objects=objects)
    assert ["Service", "ConfigMap"] == kinds(seen, CreateObject)
    assert seen.event_reasons == ["ObjectRecreated", "ObjectRecreated"]
    assert LifecycleState.RUNNING is seen.status.lifecycle_state


def test_an_edited_object_is_changed_back():
    objects = live_objects()
    objects[SERVICE] = {**objects[SERVICE], "spec": {**objects[SERVICE]["spec"], "selector": {}}}
    seen = running().then(objects=objects)
    assert ["Service"] == kinds(seen, ApplyObject)
    assert seen.event_reasons == ["ObjectCorrected"]


def test_what_others_add_is_left_alone():
    objects = live_objects()
    live = objects[SERVICE]
    metadata = {**live["metadata"], "resourceVersion": "7", "annotations": {"team": "cards"}}
    references = [*live["metadata"]["ownerReferences"], {"uid": "other"}]
    spec = {**live["spec"], "sessionAffinity": "None"}
    metadata["ownerReferences"] = references
    objects[SERVICE] = {**live, "metadata": metadata, "spec": spec}
    assert running().then(objects=objects).decision.actions == ()


def test_a_deleted_token_is_made_anew_and_the_driver_restarted_with_it():
    rotated = running().then(token_uid=None)
    assert (CreateToken(),) == rotated.decision.actions
    assert rotated.event_reasons == ["TokenRotated"]
    stop = rotated.then(token_uid="token-uid-2")
    assert [a.key.name for a in stop.decision.actions] == ["payments-driver"]
    assert LifecycleState.UPGRADING is stop.status.lifecycle_state
    start = stop.then(driver=None, rest=None)
    assert ["Pod"] == kinds(start, CreateDriver)


def test_executors_of_an_earlier_driver_are_removed():
    old = executor_pod(7, driver_uid="driver-uid-0")
    seen = running().then(executors=(executor_pod(1), old))
    key = ObjectKey(Kind.POD, "payments-exec-7")
    assert (DeleteObject(key, "executor-uid-7"),) == seen.decision.actions


def test_the_driver_itself_is_never_corrected_in_place():
    assert running().then(driver=driver_pod()).decision.actions == ()


def test_comparison_asks_only_for_what_is_desired():
    assert is_as_desired({"a": 1, "b": 2}, {"a": 1})
    assert not is_as_desired({"a": 1}, {"a": 1, "b": 2})
    assert not is_as_desired({"a": [1, 2]}, {"a": [1]})
    assert is_as_desired({"a": [{"x": 1, "y": 2}]}, {"a": [{"x": 1}]})
    assert not is_as_desired(None, {"a": 1})
