"""All reads of one job, put together to `Facts`.

Objects are read from the API server, not from a cache, whenever something may have changed: a
decision on old facts would be harmless but late. Only the driver is asked on every turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from headrace.api.driver import JobState, JobStatus
from headrace.api.names import (
    CONTAINER_DRIVER,
    CONTAINER_EXECUTOR,
    LABEL_ROLE,
    ROLE_EXECUTOR,
    driver_name,
    job_selector,
    selector_text,
    token_secret_name,
)
from headrace.api.v1alpha1 import ObjectMeta, StreamJobStatus
from headrace_operator.kube.api import Kind, KubeApi, Manifest, ObjectKey
from headrace_operator.observe.driver import DriverClient, NoAnswer
from headrace_operator.observe.facts import (
    DriverAnswer,
    DriverSilence,
    JobFacts,
    PodFacts,
)
from headrace_operator.observe.pods import observe_pod, problem_of_events
from headrace_operator.resources.desired import owner_uids, uid_of
from headrace_operator.resources.identity import key_of

SIGHTING_S: Final = 60.0
"""How long the trouble of an executor pod is remembered after it was seen."""

_OWNED_KINDS: Final = (
    Kind.SERVICE_ACCOUNT,
    Kind.ROLE,
    Kind.ROLE_BINDING,
    Kind.SERVICE,
    Kind.CONFIG_MAP,
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Objects of a job as the API server holds them."""

    job: JobFacts
    manifest: Manifest
    """The StreamJob itself, to write its status on this very version."""
    taken_at: datetime
    driver: PodFacts | None = None
    executors: tuple[PodFacts, ...] = ()
    objects: Mapping[ObjectKey, Manifest] = field(default_factory=dict)
    token_uid: str | None = None


async def read_snapshot(
    kube: KubeApi, namespace: str, name: str, now: datetime, pod_trouble_delay_s: float
) -> Snapshot | None:
    """Read a job and everything that belongs to it; None when there is no such job.

    Raises:
        ClusterError: a read failed.
    """
    manifest = await kube.get(Kind.STREAM_JOB, namespace, name)
    if manifest is None:
        return None
    job = observe_job(manifest)
    selector = selector_text(job_selector(name))
    executor_selector = f"{selector},{LABEL_ROLE}={ROLE_EXECUTOR}"
    pods, lists, (driver, token) = await asyncio.gather(
        kube.list_objects(Kind.POD, namespace, labels=executor_selector),
        asyncio.gather(*(kube.list_objects(k, namespace, labels=selector) for k in _OWNED_KINDS)),
        asyncio.gather(
            # By name: a namesake without our labels is in the way all the same.
            kube.get(Kind.POD, namespace, driver_name(name)),
            kube.get(Kind.SECRET, namespace, token_secret_name(name)),
        ),
    )
    objects = {key_of(live): live for found in lists for live in found}
    objects |= await _unlabelled(kube, namespace, name, objects)
    executors = [observe_pod(pod, CONTAINER_EXECUTOR) for pod in pods]
    driver_facts = None if driver is None else observe_pod(driver, CONTAINER_DRIVER)
    old = now - timedelta(seconds=pod_trouble_delay_s)
    return Snapshot(
        job=job,
        manifest=manifest,
        taken_at=now,
        driver=None
        if driver_facts is None
        else await _with_events(kube, namespace, driver_facts, old),
        executors=tuple([await _with_events(kube, namespace, pod, old) for pod in executors]),
        objects=objects,
        token_uid=_own_uid(token, job.uid),
    )


async def _unlabelled(
    kube: KubeApi, namespace: str, name: str, found: Mapping[ObjectKey, Manifest]
) -> dict[ObjectKey, Manifest]:
    """Objects of the names that the job needs whose label is missing: edited, or not ours."""
    wanted = [ObjectKey(kind, driver_name(name)) for kind in _OWNED_KINDS]
    missing = [key for key in wanted if key not in found]
    reads = await asyncio.gather(*(kube.get(key.kind, namespace, key.name) for key in missing))
    return {key: live for key, live in zip(missing, reads, strict=True) if live is not None}


def _own_uid(secret: Manifest | None, job_uid: str) -> str | None:
    is_ours = secret is not None and job_uid in owner_uids(secret)
    return uid_of(secret) if secret is not None and is_ours else None


async def _with_events(
    kube: KubeApi, namespace: str, pod: PodFacts, created_before: datetime
) -> PodFacts:
    """A pod that waits for its volumes for long has its events read: nothing else says why."""
    if not pod.waiting_for_volumes or pod.problem is not None or pod.created_at > created_before:
        return pod
    events = await kube.list_objects(
        Kind.EVENT, namespace, fields=f"involvedObject.uid={pod.uid},type=Warning"
    )
    problem = problem_of_events(pod, events)
    return pod if problem is None else replace(pod, problem=problem)


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


class DriverWatch:
    """Asks the driver and remembers since when it is silent or stands still."""

    def __init__(self, client: DriverClient) -> None:
        self._client = client
        self._pod_uid = ""
        self._last: JobStatus | None = None
        self._silent_since: datetime | None = None
        self._progress: tuple[object, ...] = ()
        self._progress_at: datetime | None = None

    async def ask(
        self, driver: PodFacts | None, job_id: str, now: datetime
    ) -> DriverAnswer | DriverSilence | None:
        """Return what the driver says; None when there is none to ask."""
        if driver is None or driver.phase != "Running" or not driver.ip:
            return None
        if driver.uid != self._pod_uid:
            self._pod_uid, self._last = driver.uid, None
            self._silent_since = self._progress_at = None
        answer = await self._client.job_status(driver.ip, job_id)
        if isinstance(answer, NoAnswer):
            self._silent_since = self._silent_since or now
            return DriverSilence(self._silent_since, answer.cause, self._last)
        self._silent_since, self._last = None, answer
        return DriverAnswer(answer, self._stalled_since(answer, now))

    def _stalled_since(self, job: JobStatus, now: datetime) -> datetime | None:
        """Only a job that calls itself running can hang; restoring much state takes its time."""
        if job.state is not JobState.RUNNING:
            self._progress_at = None
            return None
        checkpoint = job.last_checkpoint.id if job.last_checkpoint is not None else 0
        progress = (job.generation, job.epoch, job.epochs_committed, checkpoint)
        if self._progress_at is None or progress != self._progress:
            self._progress, self._progress_at = progress, now
        return self._progress_at
