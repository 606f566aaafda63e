"""What the operator relies on of a Kubernetes API, as checks that any `KubeApi` must pass.

Run against the fake in unit tests and against a real API server end to end: a fake that is kinder
than the real one would make every other test worthless.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace_operator.kube.api import (
    AlreadyExistsError,
    ConflictError,
    Kind,
    KubeApi,
    MissingError,
    ObjectKey,
)

LABELS = {"headrace.dev/job": "payments", "headrace.dev/role": "executor"}


def config_map(namespace: str, name: str = "c", **data: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": LABELS},
        "data": data,
    }


def stream_job(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": "payments", "namespace": namespace},
        "spec": {"image": "i", "program": {"file": "/job.py"}},
    }


async def a_name_is_given_once(kube: KubeApi, namespace: str) -> None:
    first = await kube.create(config_map(namespace, a="1"))
    with pytest.raises(AlreadyExistsError):
        await kube.create(config_map(namespace, a="2"))
    live = await kube.get(Kind.CONFIG_MAP, namespace, "c")
    assert live is not None
    assert first["metadata"]["uid"] == live["metadata"]["uid"]
    assert {"a": "1"} == live["data"]


async def what_is_not_there_is_none(kube: KubeApi, namespace: str) -> None:
    assert await kube.get(Kind.POD, namespace, "nobody") is None
    assert [] == await kube.list_objects(Kind.POD, namespace, labels="headrace.dev/job=x")


async def a_secret_is_read_without_its_content(kube: KubeApi, namespace: str) -> None:
    manifest = {**config_map(namespace), "kind": "Secret", "stringData": {"token": "s3cret"}}
    manifest.pop("data")
    made = await kube.create(manifest)
    read = await kube.get(Kind.SECRET, namespace, "c")
    assert read is not None
    assert made["metadata"]["uid"] == read["metadata"]["uid"]
    assert not {"data", "stringData"} & read.keys()


async def lists_select_by_label_and_say_their_kind(kube: KubeApi, namespace: str) -> None:
    await kube.create(config_map(namespace, "one"))
    await kube.create({**config_map(namespace, "two"), "metadata": _bare(namespace, "two")})
    found = await kube.list_objects(
        Kind.CONFIG_MAP,
        namespace,
        labels="headrace.dev/job=payments,headrace.dev/role=executor",
    )
    assert ["one"] == [item["metadata"]["name"] for item in found]
    assert ("v1", "ConfigMap") == (found[0]["apiVersion"], found[0]["kind"])


def _bare(namespace: str, name: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace}


async def applying_twice_is_one_object(kube: KubeApi, namespace: str) -> None:
    first = await kube.apply(config_map(namespace, a="1"))
    second = await kube.apply(config_map(namespace, a="2"))
    assert first["metadata"]["uid"] == second["metadata"]["uid"]
    assert {"a": "2"} == second["data"]


async def deletion_means_one_uid(kube: KubeApi, namespace: str) -> None:
    made = await kube.create(config_map(namespace))
    key = ObjectKey(Kind.CONFIG_MAP, "c")
    assert await kube.delete(key, namespace, uid="11111111-2222-3333-4444-555555555555")
    assert await kube.get(Kind.CONFIG_MAP, namespace, "c") is not None
    assert await kube.delete(key, namespace, uid=made["metadata"]["uid"])
    assert await kube.get(Kind.CONFIG_MAP, namespace, "c") is None
    assert await kube.delete(key, namespace, uid=made["metadata"]["uid"])


async def a_replacement_needs_the_version_that_was_read(kube: KubeApi, namespace: str) -> None:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "l", "namespace": namespace},
        "spec": {"holderIdentity": "one", "leaseTransitions": 0},
    }
    made = await kube.create(lease)
    metadata = {**lease["metadata"], "resourceVersion": made["metadata"]["resourceVersion"]}
    other = {**lease, "metadata": metadata, "spec": {"holderIdentity": "two"}}
    assert "two" == (await kube.replace(other))["spec"]["holderIdentity"]
    with pytest.raises(ConflictError):
        await kube.replace(other)
    kept = await kube.create(config_map(namespace))
    nobody = {**_bare(namespace, "nobody"), "resourceVersion": kept["metadata"]["resourceVersion"]}
    with pytest.raises(MissingError):
        await kube.replace({**config_map(namespace), "metadata": nobody})


async def a_status_is_written_on_the_version_that_was_read(kube: KubeApi, namespace: str) -> None:
    await kube.create(stream_job(namespace))
    read = await kube.get(Kind.STREAM_JOB, namespace, "payments")
    assert read is not None
    status = {"lifecycleState": "Running", "observedGeneration": 1}
    written = await kube.replace_status({**read, "status": status})
    assert "Running" == written["status"]["lifecycleState"]
    with pytest.raises(ConflictError):
        await kube.replace_status({**read, "status": {"lifecycleState": "Failed"}})
    assert written["metadata"]["generation"] == read["metadata"]["generation"]


async def annotations_are_added_to_those_of_others(kube: KubeApi, namespace: str) -> None:
    job = stream_job(namespace)
    job["metadata"]["annotations"] = {"team": "cards"}
    made = await kube.create(job)
    key = ObjectKey(Kind.STREAM_JOB, "payments")
    changed = await kube.annotate(key, namespace, {"a/b": "1"})
    assert {"team": "cards", "a/b": "1"} == changed["metadata"]["annotations"]
    assert made["metadata"]["generation"] == changed["metadata"]["generation"]
    with pytest.raises(MissingError):
        await kube.annotate(ObjectKey(Kind.STREAM_JOB, "nobody"), namespace, {"a/b": "1"})


async def a_finalizer_holds_and_its_removal_lets_go(kube: KubeApi, namespace: str) -> None:
    await kube.create(stream_job(namespace))
    read = await kube.get(Kind.STREAM_JOB, namespace, "payments")
    assert read is not None
    held = await kube.replace_finalizers(read, ["headrace.dev/teardown"])
    with pytest.raises(ConflictError):
        await kube.replace_finalizers(read, [])
    key = ObjectKey(Kind.STREAM_JOB, "payments")
    assert not await kube.delete(key, namespace, uid=held["metadata"]["uid"])
    dying = await kube.get(Kind.STREAM_JOB, namespace, "payments")
    assert dying is not None
    assert "deletionTimestamp" in dying["metadata"]
    await kube.replace_finalizers(dying, [])
    assert await kube.get(Kind.STREAM_JOB, namespace, "payments") is None
    with pytest.raises(MissingError):
        await kube.replace_finalizers(dying, [])


CONTRACT = [
    a_name_is_given_once,
    what_is_not_there_is_none,
    a_secret_is_read_without_its_content,
    lists_select_by_label_and_say_their_kind,
    applying_twice_is_one_object,
    deletion_means_one_uid,
    a_replacement_needs_the_version_that_was_read,
    a_status_is_written_on_the_version_that_was_read,
    annotations_are_added_to_those_of_others,
    a_finalizer_holds_and_its_removal_lets_go,
]
