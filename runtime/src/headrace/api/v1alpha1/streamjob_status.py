"""``StreamJob.status``: what the operator observed, did and is about to do.

Times are RFC 3339. `driver` is the operator's own memory: it is written before each action, so that
an operator that is killed at any step finds out what it was doing (see
`headrace_operator.reconcile`). No spec is kept here, only digests of its fields.
"""

from __future__ import annotations

import enum
from typing import Annotated

from pydantic import AwareDatetime, Field

from headrace.api.v1alpha1.base import CONDITIONS_SCHEMA, Condition, StatusModel


class LifecycleState(enum.StrEnum):
    """Where the job is in its life."""

    CREATED = "Created"
    """Seen, nothing started yet."""
    DEPLOYING = "Deploying"
    """The first driver is on its way to the first checkpoint."""
    RUNNING = "Running"
    """Epochs commit and checkpoints complete."""
    RECOVERING = "Recovering"
    """Something failed; the job is on its way back from its last completed checkpoint."""
    UPGRADING = "Upgrading"
    """A changed spec is being brought into effect."""
    SUSPENDING = "Suspending"
    """Driver and executors are being stopped."""
    SUSPENDED = "Suspended"
    """Stopped as asked; the state is kept."""
    FINISHED = "Finished"
    """The end of all bounded sources was reached."""
    FAILED = "Failed"
    """Stopped by an error that a restart does not help; a changed spec starts it again."""
    DELETING = "Deleting"
    """Being removed."""

    @property
    def is_transition(self) -> bool:
        """Whether the state lasts only until its work is done."""
        return self in {
            LifecycleState.CREATED,
            LifecycleState.DEPLOYING,
            LifecycleState.RECOVERING,
            LifecycleState.UPGRADING,
            LifecycleState.SUSPENDING,
            LifecycleState.DELETING,
        }


class ConditionType(enum.StrEnum):
    """Conditions of a StreamJob; all are always present."""

    READY = "Ready"
    """The query runs, an epoch was committed and a checkpoint of this generation completed."""
    PROGRESSING = "Progressing"
    """The operator is on its way to what the spec asks for."""
    DEGRADED = "Degraded"
    """Something is wrong that a person may have to look at; the message holds the cause."""
    STABLE = "Stable"
    """Ready, and several checkpoints in a row completed."""
    SUSPENDED = "Suspended"
    """Stopped as asked."""
    SAVEPOINT_IN_PROGRESS = "SavepointInProgress"
    """A savepoint of the job is being taken."""


class CheckpointStatus(StatusModel):
    """The last completed checkpoint."""

    id: int
    """Number, strictly increasing over the life of the job."""
    path: str
    """Where it lies."""
    completed_at: AwareDatetime | None = None
    """When it was complete."""
    duration_ms: int | None = None
    """From trigger to completion."""
    state_size_bytes: int = 0
    """Bytes of state that it refers to."""
    uploaded_bytes: int = 0
    """Bytes that it newly wrote."""
    epoch: int = 0
    """Last epoch whose effects it holds."""
    generation: int = 0
    """Generation of the coordinator that took it."""


class ErrorStatus(StatusModel):
    """The last error of the job, of its program or of its pods."""

    kind: str
    """Stable word: a kind of Headrace's error tree, or the reason of a pod's failure."""
    message: Annotated[str, Field(max_length=4096)]
    """What happened."""
    traceback: Annotated[str, Field(max_length=8192)] = ""
    """Last five frames of the Python traceback."""
    at: AwareDatetime | None = None
    """When it happened."""


class RecoveryStatus(StatusModel):
    """The last return to Ready after a failure."""

    seconds: float
    """From the failure until the job was back."""
    cause: str
    """Reason of the failure."""
    at: AwareDatetime
    """When the job was back."""


class ReconciledSpec(StatusModel):
    """The spec that was last acted on, as digests (OP4, OP7)."""

    generation: int
    """Its `metadata.generation`."""
    digest: str
    """Digest of all fields; the running driver carries it as annotation."""
    fields: dict[str, str] = Field(default={})
    """Digest of each field that differs from its default."""


class DriverFailure(StatusModel):
    """A driver that ended without being asked to."""

    pod_uid: str
    """The pod."""
    reason: str
    """Stable word for the cause."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """The pod's own words."""
    at: AwareDatetime
    """When it was noticed."""


class Outcome(StatusModel):
    """The end of a job that ended for good."""

    state: LifecycleState
    """`Finished` or `Failed`."""
    digest: str
    """Digest of the spec that ended so; another one starts the job again."""
    reason: str = ""
    """Stable word for the cause."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """The cause in words."""
    at: AwareDatetime
    """When it was noticed."""


class DriverPhase(enum.StrEnum):
    """What the operator is about to do, or has done, with the driver pod."""

    ABSENT = "Absent"
    """No driver is expected."""
    STARTING = "Starting"
    """A driver is about to be created, or was and has not been seen yet."""
    PRESENT = "Present"
    """The driver was seen; when it is gone, it was lost."""
    STOPPING = "Stopping"
    """The driver is about to be deleted, or was and is not gone yet."""


class DriverRecord(StatusModel):
    """The operator's memory of the job's drivers, written before it acts."""

    phase: DriverPhase = DriverPhase.ABSENT
    """Intent or fact about the driver pod."""
    attempt: int = 0
    """Drivers started so far."""
    pod_uid: str | None = None
    """The pod that was last seen."""
    started_at: AwareDatetime | None = None
    """When the last one was asked for."""
    failures: int = 0
    """Drivers that failed in a row, without a healthy time between."""
    retry_at: AwareDatetime | None = None
    """No driver is started before this time."""
    last_failure: DriverFailure | None = None
    """The last one that failed."""
    restarts_before: int = 0
    """Restarts of the job before the present driver."""
    recovering_since: AwareDatetime | None = None
    """Time of the failure that the job is recovering from."""
    recovering_from: str | None = None
    """Reason of that failure."""
    outcome: Outcome | None = None
    """How the job ended, if it did."""
    chooses_state: bool = False
    """The next driver need not continue from the last checkpoint: `restoreFrom` was changed."""


class StreamJobStatus(StatusModel):
    """What the operator observed and did."""

    observed_generation: Annotated[int, Field(ge=0)] = 0
    """Generation of the spec that is in effect."""
    lifecycle_state: LifecycleState = LifecycleState.CREATED
    """Where the job is in its life."""
    conditions: Annotated[tuple[Condition, ...], Field(json_schema_extra=CONDITIONS_SCHEMA)] = ()
    """Ready, Progressing, Degraded, Stable, Suspended, SavepointInProgress."""
    job_id: str | None = None
    """Name of the job's directory in checkpoint storage."""
    parallelism: Annotated[int, Field(ge=0)] = 0
    """Slots that the job really has."""
    selector: str = ""
    """Label selector of the executor pods, for autoscalers."""
    restarts: Annotated[int, Field(ge=0)] = 0
    """Failovers of the job and replaced drivers, over its life."""
    last_checkpoint: CheckpointStatus | None = None
    """The last completed checkpoint."""
    last_savepoint: str | None = None
    """Where the last savepoint lies."""
    last_error: ErrorStatus | None = None
    """The last error, kept after recovery."""
    last_recovery: RecoveryStatus | None = None
    """The last return to Ready after a failure."""
    source_lag: Annotated[int, Field(ge=0)] | None = None
    """Records that the sources know of and have not read; refreshed every few seconds."""
    warnings: tuple[str, ...] = ()
    """What is allowed but should be looked at."""
    last_reconciled_spec: ReconciledSpec | None = None
    """The spec that was last acted on."""
    driver: DriverRecord = DriverRecord()
    """The operator's memory of the job's drivers."""

    def condition(self, kind: ConditionType) -> Condition | None:
        """Return the condition of this type, if it was written."""
        return next((c for c in self.conditions if c.type == kind), None)
