"""A Kubernetes API in memory, as strict as the real one where the operator relies on it.

The rules that matter: a name is given once, versions guard writes, deletions name a UID and pods
linger for their grace period, finalizers hold an object, list items carry their labels. A contract
test runs the same cases against this and against a real API server. `fail` and `kill_after` inject
refusals and the death of the operator between any two requests.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

from headrace_operator.kube.api import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    Kind,
    MissingError,
    ObjectKey,
)

Manifests = dict[tuple[Kind, str, str], dict[str, Any]]


class KilledError(BaseException):
    """The operator process dies here; not an `Exception`, so nothing can handle it."""


class FakeCluster:
    """Objects by kind, namespace and name, and what was done to them."""

    def __init__(self) -> None:
        self.objects: Manifests = {}
        self.calls: list[str] = []
        self.created_pods: list[str] = []
        """UIDs of every driver pod ever created."""
        self.most_drivers = 0
        self._uids = itertools.count(1)
        self._versions = itertools.count(1)
        self._failures: dict[str, list[ClusterError]] = {}
        self._kill_at: int | None = None
        self._kill_before = False
        self._interruption: tuple[int, Callable[[], None]] | None = None
        self.now: Callable[[], str] = lambda: "2026-05-01T12:00:00Z"

    def copied(self) -> FakeCluster:
        """The same objects in another world."""
        other = FakeCluster()
        other.objects = copy.deepcopy(self.objects)
        other.created_pods = list(self.created_pods)
        other.most_drivers = self.most_drivers
        other._uids = itertools.count(next(self._uids))
        other._versions = itertools.count(next(self._versions))
        return other

    # Failure switches

    def fail(self, verb: str, *errors: ClusterError) -> None:
        """Let the next calls of this verb (``create Pod``) fail."""
        self._failures.setdefault(verb, []).extend(errors)

    def kill_after(self, requests: int, *, before_effect: bool) -> None:
        """Let the caller die at this request, before or after it has its effect."""
        self._kill_at = len(self.calls) + requests
        self._kill_before = before_effect

    def interrupt_at(self, requests: int, interruption: Callable[[], None]) -> None:
        """Let somebody else act just before this request."""
        self._interruption = (len(self.calls) + requests, interruption)

    def live_on(self) -> None:
        """Nobody is killed any more."""
        self._kill_at = None

    def _request(self, verb: str) -> Callable[[], None]:
        self.calls.append(verb)
        if self._interruption is not None and len(self.calls) == self._interruption[0]:
            self._interruption[1]()
        errors = self._failures.get(verb)
        if errors:
            raise errors.pop(0)
        is_last = self._kill_at is not None and len(self.calls) >= self._kill_at
        if is_last and self._kill_before:
            raise KilledError

        def done() -> None:
            if is_last:
                raise KilledError

        return done

    # KubeApi

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        done = self._request(f"get {kind.kind}")
        found = copy.deepcopy(self.objects.get((kind, namespace, name)))
        done()
        if kind is Kind.SECRET and found is not None:
            return {"kind": "PartialObjectMetadata", "metadata": found["metadata"]}
        return found

    async def list_objects(
        self, kind: Kind, namespace: str, *, labels: str = "", fields: str = ""
    ) -> list[dict[str, Any]]:
        done = self._request(f"list {kind.kind}")
        wanted = dict(pair.split("=", 1) for pair in labels.split(",") if pair)
        field_pairs = dict(pair.split("=", 1) for pair in fields.split(",") if pair)
        found = [
            copy.deepcopy(manifest)
            for (k, ns, _), manifest in self.objects.items()
            if k is kind
            and ns == namespace
            and wanted.items() <= manifest["metadata"].get("labels", {}).items()
            and all(_field(manifest, path) == value for path, value in field_pairs.items())
        ]
        done()
        return found

    async def create(self, manifest: Any) -> dict[str, Any]:
        kind = Kind.of(manifest)
        done = self._request(f"create {kind.kind}")
        key = self._key(manifest)
        if key in self.objects:
            raise AlreadyExistsError(f"exists; name={key[2]}", status=409, reason="AlreadyExists")
        made = self._store(key, copy.deepcopy(dict(manifest)))
        done()
        return made

    async def apply(self, manifest: Any) -> dict[str, Any]:
        kind = Kind.of(manifest)
        done = self._request(f"apply {kind.kind}")
        key = self._key(manifest)
        before = self.objects.get(key, {})
        made = self._store(key, _merged(before, copy.deepcopy(dict(manifest))))
        done()
        return made

    async def replace(self, manifest: Any) -> dict[str, Any]:
        done = self._request(f"replace {Kind.of(manifest).kind}")
        live = self._live_at_version(manifest)
        made = self._store(self._key(manifest), {**live, **copy.deepcopy(dict(manifest))})
        done()
        return made

    async def replace_status(self, manifest: Any) -> dict[str, Any]:
        done = self._request("status")
        live = self._live_at_version(manifest)
        live["status"] = copy.deepcopy(manifest["status"])
        live["metadata"]["resourceVersion"] = str(next(self._versions))
        done()
        return copy.deepcopy(live)

    async def replace_finalizers(self, manifest: Any, finalizers: list[str]) -> dict[str, Any]:
        done = self._request("finalizers")
        live = self._live_at_version(manifest)
        live["metadata"]["finalizers"] = list(finalizers)
        live["metadata"]["resourceVersion"] = str(next(self._versions))
        if not finalizers and "deletionTimestamp" in live["metadata"]:
            self._drop(self._key(live))
        done()
        return copy.deepcopy(live)

    async def annotate(self, key: ObjectKey, namespace: str, annotations: Any) -> dict[str, Any]:
        done = self._request(f"annotate {key.kind.kind}")
        live = self.objects.get((key.kind, namespace, key.name))
        if live is None:
            raise MissingError(f"gone; name={key.name}", status=404, reason="NotFound")
        live["metadata"].setdefault("annotations", {}).update(annotations)
        live["metadata"]["resourceVersion"] = str(next(self._versions))
        done()
        return copy.deepcopy(live)

    async def delete(
        self, key: ObjectKey, namespace: str, *, uid: str, grace_s: int | None = None
    ) -> bool:
        done = self._request(f"delete {key.kind.kind}")
        live = self.objects.get((key.kind, namespace, key.name))
        if live is not None and live["metadata"]["uid"] == uid:
            self.delete_object(key.kind, namespace, key.name, grace_s=grace_s)
        done()
        left = self.objects.get((key.kind, namespace, key.name))
        return left is None or left["metadata"]["uid"] != uid

    # The world around the operator

    def add(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """A user creates an object."""
        return self._store(self._key(manifest), copy.deepcopy(manifest))

    def edit(self, kind: Kind, namespace: str, name: str, **spec: Any) -> None:
        """A user changes fields of a spec."""
        live = self.objects[kind, namespace, name]
        live["spec"] = {**live["spec"], **spec}
        live["metadata"]["generation"] += 1
        live["metadata"]["resourceVersion"] = str(next(self._versions))

    def delete_object(
        self, kind: Kind, namespace: str, name: str, *, grace_s: int | None = None
    ) -> None:
        """Somebody deletes an object; pods on a node linger, finalizers hold."""
        live = self.objects[kind, namespace, name]
        metadata = live["metadata"]
        lingers = kind is Kind.POD and grace_s != 0 and live.get("status", {}).get("podIP")
        if metadata.get("finalizers") or lingers:
            metadata.setdefault("deletionTimestamp", self.now())
            metadata["resourceVersion"] = str(next(self._versions))
            return
        self._drop((kind, namespace, name))

    def reap(self) -> None:
        """The kubelet ends every pod that is being deleted; owned pods go with their owner."""
        for key, manifest in list(self.objects.items()):
            if key[0] is Kind.POD and "deletionTimestamp" in manifest["metadata"]:
                self._drop(key)

    def set_pod(self, namespace: str, name: str, **status: Any) -> None:
        """The kubelet reports the status of a pod."""
        live = self.objects[Kind.POD, namespace, name]
        live["status"] = {**live.get("status", {}), **status}
        live["metadata"]["resourceVersion"] = str(next(self._versions))

    def pods(self, role: str) -> list[dict[str, Any]]:
        """Pods of a role that are not being deleted."""
        return [
            manifest
            for (kind, _, _), manifest in self.objects.items()
            if kind is Kind.POD and manifest["metadata"]["labels"].get("headrace.dev/role") == role
        ]

    def _key(self, manifest: Any) -> tuple[Kind, str, str]:
        metadata = manifest["metadata"]
        return Kind.of(manifest), metadata["namespace"], metadata["name"]

    def _store(self, key: tuple[Kind, str, str], manifest: dict[str, Any]) -> dict[str, Any]:
        metadata = manifest["metadata"]
        metadata.setdefault("uid", f"uid-{next(self._uids)}")
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", self.now())
        metadata["resourceVersion"] = str(next(self._versions))
        is_new = key not in self.objects
        self.objects[key] = manifest
        if is_new and key[0] is Kind.POD and key[2].endswith("-driver"):
            self.created_pods.append(metadata["uid"])
            self.most_drivers = max(self.most_drivers, len(self.pods("driver")))
        return copy.deepcopy(manifest)

    def _drop(self, key: tuple[Kind, str, str]) -> None:
        gone = self.objects.pop(key)
        uid = gone["metadata"]["uid"]
        for other, manifest in list(self.objects.items()):
            owners = manifest["metadata"].get("ownerReferences", [])
            if owners and all(owner["uid"] == uid for owner in owners):
                self.objects.pop(other, None)

    def _live_at_version(self, manifest: Any) -> dict[str, Any]:
        key = self._key(manifest)
        live = self.objects.get(key)
        if live is None:
            raise MissingError(f"gone; name={key[2]}", status=404, reason="NotFound")
        if live["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
            raise ConflictError(f"changed; name={key[2]}", status=409, reason="Conflict")
        return live


def _field(manifest: dict[str, Any], path: str) -> object:
    value: Any = manifest
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _merged(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    merged = dict(before)
    for name, value in after.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict)
        merged[name] = _merged(merged[name], value) if both else value
    return merged
