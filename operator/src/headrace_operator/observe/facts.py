"""What a decision may know: one immutable picture of a job and everything that belongs to it.

Built from a `snapshot` of the cluster and by tests from thin air; `headrace_operator.reconcile`
decides on it and on nothing else.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headrace.api.driver import JobStatus, TerminationMessage
from headrace.api.names import (
    ANNOTATION_PAUSED,
    ANNOTATION_RESTARTED_AT,
    ANNOTATION_SPEC_HASH,
    ANNOTATION_TOKEN_UID,
    FINALIZER,
    job_id_of,
)
from headrace.api.v1alpha1 import StreamJobStatus
from headrace_operator.kube.api import Manifest, ObjectKey


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The StreamJob as it was read; ``spec`` is not validated yet."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: Manifest
    status: StreamJobStatus
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    deletion_requested_at: datetime | None = None

    @property
    def job_id(self) -> str:
        """The job's id: the same for every driver."""
        return job_id_of(self.uid)

    @property
    def paused(self) -> bool:
        """Whether a person froze the reconciliation."""
        return self.annotations.get(ANNOTATION_PAUSED, "").lower() == "true"

    @property
    def restarted_at(self) -> str:
        """Value of the restart annotation, empty when there is none."""
        return self.annotations.get(ANNOTATION_RESTARTED_AT, "")

    @property
    def has_finalizer(self) -> bool:
        """Whether deletion waits for the operator."""
        return FINALIZER in self.finalizers


class PodTrouble(enum.StrEnum):
    """Why a pod does not run; reason of condition ``Degraded`` and of an event."""

    UNSCHEDULABLE = "Unschedulable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CONFIG_FAILED = "ContainerConfigFailed"
    CONTAINER_START_FAILED = "ContainerStartFailed"
    CRASH_LOOP = "CrashLoopBackOff"
    VOLUME_FAILED = "VolumeFailed"
    OOM_KILLED = "OOMKilled"
    EVICTED = "Evicted"
    CONTAINER_EXITED = "ContainerExited"


@dataclass(frozen=True, slots=True)
class PodProblem:
    """Something that keeps a pod from running, in the pod's own words."""

    pod: str
    reason: PodTrouble
    message: str


@dataclass(frozen=True, slots=True)
class ContainerExit:
    """How the main container of a pod ended."""

    exit_code: int
    reason: str
    message: str
    """Termination message, or the last lines of the log when the process left none."""
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod of the job."""

    name: str
    uid: str
    created_at: datetime
    phase: str
    owner_uids: frozenset[str] = frozenset()
    annotations: Mapping[str, str] = field(default_factory=dict)
    ip: str = ""
    ready: bool = False
    node: str = ""
    deletion_deadline: datetime | None = None
    """Set once deletion was asked for: when the grace period ends."""
    problem: PodProblem | None = None
    waiting_for_volumes: bool = False
    """Scheduled, and its containers are not created yet."""
    exit: ContainerExit | None = None
    termination: TerminationMessage | None = None

    @property
    def has_ended(self) -> bool:
        """Whether its main container ended; the pod's phase follows a moment later."""
        return self.exit is not None or self.phase in {"Succeeded", "Failed"}

    @property
    def spec_hash(self) -> str:
        """Digest of the spec that a driver pod runs."""
        return self.annotations.get(ANNOTATION_SPEC_HASH, "")

    @property
    def token_uid(self) -> str:
        """UID of the Secret whose token a driver pod started with."""
        return self.annotations.get(ANNOTATION_TOKEN_UID, "")


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """The driver's own account of the job."""

    status: JobStatus
    stalled_since: datetime | None = None
    """A job that calls itself running shows no new epoch or checkpoint since this time."""


@dataclass(frozen=True, slots=True)
class DriverSilence:
    """The driver did not answer."""

    since: datetime
    """First failed question after the last answer, or after the pod started to run."""
    cause: str
    last: JobStatus | None = None
    """Its last answer, if it ever gave one."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What the ConfigMap that ``spec.program`` names holds."""

    text: str | None = None
    """None: there is no such ConfigMap, or it has no such key."""
    missing: str = ""
    """Then: what is missing."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last action of the reconciler that the API server refused."""

    action: str
    reason: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that a decision about one job may know."""

    job: JobFacts
    now: datetime
    driver: PodFacts | None = None
    executors: tuple[PodFacts, ...] = ()
    rest: DriverAnswer | DriverSilence | None = None
    """None while there is no running driver to ask."""
    objects: Mapping[ObjectKey, Manifest] = field(default_factory=dict)
    """Live objects of the names that the job needs, whoever owns them."""
    token_uid: str | None = None
    """UID of the token Secret, None when there is none of ours."""
    token_name_is_taken: bool = False
    """A Secret of its name belongs to somebody else."""
    program: ProgramFacts | None = None
    """None when the program is no matter of a ConfigMap."""
    refusal: Refusal | None = None
    sightings: tuple[PodProblem, ...] = ()
    """Troubles of executor pods seen lately, also of pods that are gone by now."""

    def is_ours(self, pod: PodFacts) -> bool:
        """Whether the pod belongs to this very StreamJob, not to a namesake before it."""
        return self.job.uid in pod.owner_uids
