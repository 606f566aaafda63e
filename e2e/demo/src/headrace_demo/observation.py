"""What can be seen of a job from outside: its StreamJob, its pods, and what its driver says.

`Observer.observe` reads all of it once and never fails because something is away: an absent driver
is what the demo is about. Decisions are made by others, over the `Observed` that it returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from pydantic import ValidationError

from headrace.api.driver import REST_PORT, JobStatus
from headrace.api.names import (
    GROUP,
    LABEL_JOB,
    LABEL_ROLE,
    ROLE_DRIVER,
    ROLE_EXECUTOR,
    VERSION,
    driver_name,
)
from headrace.api.v1alpha1.base import ConditionStatus
from headrace.api.v1alpha1.streamjob_status import ConditionType, StreamJobStatus
from headrace.clock import Clock
from headrace_demo.errors import ClusterAnswerError, ObjectAbsentError
from headrace_demo.installation import OPERATOR_NAMESPACE, OPERATOR_SELECTOR
from headrace_demo.kubernetes import KubernetesApi, Object

DRIVER_TIMEOUT_S = 2.0
"""A driver that was killed a moment ago does not answer at all."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that exists."""

    name: str
    uid: str
    phase: str
    ready: bool
    terminating: bool

    @classmethod
    def of(cls, manifest: Object) -> Pod:
        """Reads the API's form."""
        metadata = cast("Mapping[str, str]", manifest["metadata"])
        status = cast("Mapping[str, object]", manifest.get("status") or {})
        conditions = cast("list[Mapping[str, str]]", status.get("conditions") or [])
        return cls(
            name=metadata["name"],
            uid=metadata["uid"],
            phase=str(status.get("phase", "Unknown")),
            ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
            terminating="deletionTimestamp" in metadata,
        )


@dataclass(frozen=True, slots=True)
class Observed:
    """The job as seen at one moment."""

    at_s: float
    """By the clock of the observer."""

    status: StreamJobStatus | None = None
    """Of the StreamJob; None when there is no StreamJob."""

    job: JobStatus | None = None
    """What the driver says; None when it does not answer."""

    driver: Pod | None = None
    executors: tuple[Pod, ...] = ()
    operators: tuple[Pod, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether the StreamJob says Ready of the spec that is in effect."""
        return self.condition_holds(ConditionType.READY)

    def condition_holds(self, kind: ConditionType) -> bool:
        """Whether a condition of the StreamJob is true."""
        condition = self.status.condition(kind) if self.status is not None else None
        return condition is not None and condition.status is ConditionStatus.TRUE

    @property
    def last_checkpoint(self) -> int:
        """Number of the last completed checkpoint that anybody knows of; 0 = none."""
        ids = [0]
        if self.job is not None and self.job.last_checkpoint is not None:
            ids.append(self.job.last_checkpoint.id)
        if self.status is not None and self.status.last_checkpoint is not None:
            ids.append(self.status.last_checkpoint.id)
        return max(ids)


@dataclass(slots=True)
class Observer:
    """Reads one job of one cluster."""

    api: KubernetesApi
    namespace: str
    job_name: str
    clock: Clock
    checkpoints: set[int] = field(default_factory=set)
    """Completed checkpoints that were seen so far."""

    @property
    def job_path(self) -> str:
        """Path of the StreamJob."""
        return f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/streamjobs/{self.job_name}"

    def pod_path(self, name: str) -> str:
        """Path of a pod of the job's namespace."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    def observe(self) -> Observed:
        """Looks once; takes at most about `DRIVER_TIMEOUT_S` longer than the API server."""
        status = self._status()
        pods = self._pods()
        driver = next((pod for role, pod in pods if role == ROLE_DRIVER), None)
        job_id = status.job_id if status is not None else None
        job = self._ask_driver(job_id) if job_id and driver and driver.phase == "Running" else None
        seen = Observed(
            at_s=self.clock.monotonic_s(),
            status=status,
            job=job,
            driver=driver,
            executors=tuple(pod for role, pod in pods if role == ROLE_EXECUTOR),
            operators=self._operators(),
        )
        if seen.last_checkpoint:
            self.checkpoints.add(seen.last_checkpoint)
        return seen

    def last_event(self) -> str:
        """Returns the newest event of the StreamJob: its reason and its message."""
        events = self.api.list_objects(
            f"/api/v1/namespaces/{self.namespace}/events"
            f"?fieldSelector=involvedObject.kind=StreamJob,involvedObject.name={self.job_name}"
        )
        if not events:
            return ""
        newest = max(events, key=_event_time)
        return f"{newest.get('reason', '')}: {newest.get('message', '')}"

    def _status(self) -> StreamJobStatus | None:
        try:
            job = self.api.get_object(self.job_path)
        except ObjectAbsentError:
            return None
        return StreamJobStatus.model_validate(job.get("status") or {})

    def _pods(self) -> list[tuple[str, Pod]]:
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector={LABEL_JOB}={self.job_name}"
        found = []
        for manifest in self.api.list_objects(path):
            metadata = cast("Mapping[str, Mapping[str, str]]", manifest["metadata"])
            found.append((metadata["labels"].get(LABEL_ROLE, ""), Pod.of(manifest)))
        return sorted(found, key=lambda item: item[1].name)

    def _operators(self) -> tuple[Pod, ...]:
        path = (
            f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods?labelSelector="
            f"{OPERATOR_SELECTOR.replace(',', '%2C')}"
        )
        return tuple(Pod.of(manifest) for manifest in self.api.list_objects(path))

    def _ask_driver(self, job_id: str) -> JobStatus | None:
        path = f"{self.pod_path(driver_name(self.job_name))}:{REST_PORT}/proxy/jobs/{job_id}"
        try:
            return JobStatus.model_validate_json(self.api.get(path, DRIVER_TIMEOUT_S))
        except (ClusterAnswerError, ValidationError):
            return None


def _event_time(event: Object) -> str:
    """RFC 3339 in one zone sorts as text."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")
