"""The objects of one job as the API server holds them, read anew in the parts that changed.

Reads are direct, not from a cache: a decision on old facts would be harmless but late. To keep them
few, a snapshot knows the version of everything in it, takes in what the operator itself wrote, and
is refreshed by scope; everything is read anew from time to time, whatever the watches say.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from headrace.api.names import (
    CONTAINER_DRIVER,
    CONTAINER_EXECUTOR,
    ROLE_EXECUTOR,
    driver_name,
    role_selector,
    selector_text,
    token_secret_name,
)
from headrace.api.v1alpha1 import ObjectMeta, StreamJobStatus
from headrace_operator.kube.api import Kind, KubeApi, Manifest, ObjectKey
from headrace_operator.observe.facts import JobFacts, PodFacts, ProgramFacts
from headrace_operator.observe.pods import observe_pod, problem_of_events
from headrace_operator.observe.program import observe_program, program_source
from headrace_operator.resources.desired import owner_uids, uid_of, version_of
from headrace_operator.resources.identity import key_of

_OWNED_KINDS: Final = (
    Kind.SERVICE_ACCOUNT,
    Kind.ROLE,
    Kind.ROLE_BINDING,
    Kind.SERVICE,
    Kind.CONFIG_MAP,
)


class Scope(enum.Enum):
    """A part of a snapshot that is read as a whole."""

    JOB = "job"
    PODS = "pods"
    OBJECTS = "objects"
    PROGRAM = "program"


EVERYTHING: Final = frozenset(Scope)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A job and everything that belongs to it."""

    job: JobFacts
    manifest: Manifest
    """The StreamJob itself, to write its status on this very version."""
    taken_at: datetime
    """When everything was read."""
    driver: PodFacts | None = None
    executors: tuple[PodFacts, ...] = ()
    objects: Mapping[ObjectKey, Manifest] = field(default_factory=dict)
    """Live objects of the names that the job needs, whoever owns them."""
    token_uid: str | None = None
    token_name_is_taken: bool = False
    """A Secret of the token's name belongs to somebody else."""
    program: ProgramFacts | None = None
    program_read_at: datetime | None = None
    """When the user's ConfigMap with the program was read; nobody watches it."""
    versions: frozenset[tuple[str, str]] = frozenset()
    """UID and version of everything in here."""

    def knows(self, manifest: Manifest) -> bool:
        """Return whether this very version is in the snapshot already."""
        return (uid_of(manifest), version_of(manifest)) in self.versions

    def contains(self, manifest: Manifest) -> bool:
        """Return whether the object is in the snapshot, in whatever version."""
        uid = uid_of(manifest)
        return any(uid == known for known, _ in self.versions)

    def without(self, key: ObjectKey, uid: str) -> Snapshot:
        """Return the snapshot after an object was seen to be gone."""
        kept = {other: live for other, live in self.objects.items() if other != key}
        return replace(
            self,
            driver=None if self.driver is not None and self.driver.uid == uid else self.driver,
            executors=tuple(pod for pod in self.executors if pod.uid != uid),
            objects=kept,
            token_uid=None if uid == self.token_uid else self.token_uid,
            versions=frozenset(pair for pair in self.versions if pair[0] != uid),
        )

    def with_job(self, manifest: Manifest) -> Snapshot:
        """Return the snapshot with the StreamJob as it is after our own write."""
        return replace(
            self,
            job=observe_job(manifest),
            manifest=manifest,
            versions=self.versions | _versions([manifest]),
        )

    def with_made(self, made: Iterable[Manifest]) -> Snapshot:
        """Return the snapshot with objects that we have just made or corrected."""
        snapshot = self
        for manifest in made:
            snapshot = snapshot._with(manifest)
        return snapshot

    def _with(self, manifest: Manifest) -> Snapshot:
        known = replace(self, versions=self.versions | _versions([manifest]))
        match Kind.of(manifest):
            case Kind.POD:
                return replace(known, driver=observe_pod(manifest, CONTAINER_DRIVER))
            case Kind.SECRET:
                return replace(known, token_uid=uid_of(manifest), token_name_is_taken=False)
            case _:
                return replace(known, objects={**self.objects, key_of(manifest): manifest})


def _versions(manifests: Iterable[Manifest]) -> frozenset[tuple[str, str]]:
    return frozenset((uid_of(manifest), version_of(manifest)) for manifest in manifests)


class SnapshotReader:
    """Reads snapshots of one job.

    Args:
        kube: the cluster.
        namespace: of the StreamJob.
        name: of the StreamJob.
        pod_trouble_delay_s: a pod that waits for its volumes longer has its events read.
    """

    def __init__(
        self, kube: KubeApi, namespace: str, name: str, *, pod_trouble_delay_s: float
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._name = name
        self._pod_trouble_delay = timedelta(seconds=pod_trouble_delay_s)

    async def read(
        self, before: Snapshot | None, scopes: frozenset[Scope], now: datetime
    ) -> Snapshot | None:
        """Read ``scopes`` anew and the rest from ``before``; None when there is no such job.

        Raises:
            ClusterError: a read failed.
        """
        wanted = EVERYTHING if before is None else scopes
        manifest = (
            before.manifest
            if before is not None and Scope.JOB not in wanted
            else await self._kube.get(Kind.STREAM_JOB, self._namespace, self._name)
        )
        if manifest is None:
            return None
        snapshot = Snapshot(observe_job(manifest), manifest, now) if before is None else before
        if wanted >= EVERYTHING:
            snapshot = replace(snapshot, taken_at=now, versions=frozenset())
        snapshot = snapshot.with_job(manifest)
        if Scope.PODS in wanted:
            snapshot = await self._read_pods(snapshot, now)
        if Scope.OBJECTS in wanted:
            snapshot = await self._read_objects(snapshot)
        if Scope.PROGRAM in wanted or Scope.JOB in wanted:
            snapshot = await self._read_program(snapshot, now)
        return snapshot

    async def _read_pods(self, snapshot: Snapshot, now: datetime) -> Snapshot:
        selector = selector_text(role_selector(self._name, ROLE_EXECUTOR))
        executors, driver = await asyncio.gather(
            self._kube.list_objects(Kind.POD, self._namespace, labels=selector),
            # By name: a namesake without our labels is in the way all the same.
            self._kube.get(Kind.POD, self._namespace, driver_name(self._name)),
        )
        read = [*executors, driver] if driver is not None else executors
        pods = [observe_pod(pod, CONTAINER_EXECUTOR) for pod in executors]
        return replace(
            snapshot,
            driver=None
            if driver is None
            else await self._with_events(observe_pod(driver, CONTAINER_DRIVER), now),
            executors=tuple([await self._with_events(pod, now) for pod in pods]),
            versions=snapshot.versions | _versions(read),
        )

    async def _with_events(self, pod: PodFacts, now: datetime) -> PodFacts:
        """A pod that waits for its volumes for long has its events read: nothing else says why."""
        is_early = now - pod.created_at < self._pod_trouble_delay
        if not pod.waiting_for_volumes or pod.problem is not None or is_early:
            return pod
        events = await self._kube.list_objects(
            Kind.EVENT, self._namespace, fields=f"involvedObject.uid={pod.uid},type=Warning"
        )
        problem = problem_of_events(pod, events)
        return pod if problem is None else replace(pod, problem=problem)

    async def _read_objects(self, snapshot: Snapshot) -> Snapshot:
        name, get = driver_name(self._name), self._kube.get
        *found, token = await asyncio.gather(
            *(get(kind, self._namespace, name) for kind in _OWNED_KINDS),
            get(Kind.SECRET, self._namespace, token_secret_name(self._name)),
        )
        live = [manifest for manifest in found if manifest is not None]
        is_ours = token is not None and snapshot.job.uid in owner_uids(token)
        return replace(
            snapshot,
            objects={key_of(manifest): manifest for manifest in live},
            token_uid=uid_of(token) if token is not None and is_ours else None,
            token_name_is_taken=token is not None and not is_ours,
            versions=snapshot.versions | _versions(live),
        )

    async def _read_program(self, snapshot: Snapshot, now: datetime) -> Snapshot:
        """Also whenever the job itself changed: both are often applied together."""
        source = program_source(snapshot.job.spec)
        if source is None:
            return replace(snapshot, program=None, program_read_at=None)
        live = await self._kube.get(Kind.CONFIG_MAP, self._namespace, source.name)
        return replace(snapshot, program=observe_program(live, source), program_read_at=now)


def fresh_snapshot(manifest: Manifest, now: datetime) -> Snapshot | None:
    """Return the snapshot of a job that nothing was ever made for; None when that is not certain.

    The finalizer comes before everything else, so without it there is nothing to read. What a
    namesake left behind is found when something of its name is created, and a manifest that is
    out of date when its status is written.

    Args:
        manifest: of the StreamJob, as a watch told it.
        now: time of the snapshot.
    """
    job = observe_job(manifest)
    if job.has_finalizer or job.deletion_requested_at is not None or manifest.get("status"):
        return None
    return Snapshot(job, manifest, now, versions=_versions([manifest]))


def observe_job(manifest: Manifest) -> JobFacts:
    """Return the StreamJob as facts; its spec is not validated here."""
    metadata = ObjectMeta.model_validate(manifest["metadata"])
    spec = manifest.get("spec")
    return JobFacts(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        generation=metadata.generation,
        spec=spec if isinstance(spec, Mapping) else {},
        status=_parse_status(manifest.get("status")),
        annotations=metadata.annotations,
        finalizers=metadata.finalizers,
        deletion_requested_at=metadata.deletion_timestamp,
    )


def _parse_status(raw: object) -> StreamJobStatus:
    """A status that this release cannot read was written by another one: start from what is seen.

    Nothing is lost that matters: the driver pod and checkpoint storage say what is so.
    """
    try:
        return StreamJobStatus.model_validate(raw or {})
    except ValidationError:
        return StreamJobStatus()
