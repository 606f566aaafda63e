"""The contract between the operator and a driver pod: files, environment, REST bodies.

The operator writes `DriverConfig` into a ConfigMap and starts the runtime image with
``headrace driver --config /etc/headrace/job.json``. The driver answers REST on `REST_PORT` and,
when it ends, leaves a `TerminationMessage` where Kubernetes keeps it with the pod's status, so that
the cause survives the process. ``FINISHED`` and ``FAILED`` there end the job: it is not started
again until its spec changes. After any other end (no message, ``CANCELED`` after a signal,
``RESTARTING``) the operator starts a new driver, which continues from the last checkpoint.
"""

from __future__ import annotations

import enum
from typing import Final, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

CONFIG_DIR: Final = "/etc/headrace"
CONFIG_FILE: Final = "job.json"
INLINE_PROGRAM_FILE: Final = "program.py"
EXECUTOR_TEMPLATE_FILE: Final = "executor.yaml"
TERMINATION_LOG: Final = "/dev/termination-log"
LOCAL_STATE_DIR: Final = "/var/lib/headrace"
"""Fast local volume of driver and executor pods, lost with the pod."""
SCRATCH_DIR: Final = "/tmp/headrace-scratch"  # noqa: S108 - a volume of its own, in memory
"""Volume in memory for Spark's own checkpoint directory, rebuilt at every start."""

REST_PORT: Final = 8081
SPARK_DRIVER_PORT: Final = 7078
SLOT_CONTROL_PORT: Final = 7079
SPARK_BLOCK_MANAGER_PORT: Final = 7080

ENV_TOKEN: Final = "HEADRACE_TOKEN"  # noqa: S105 - the variable's name, not a token
"""Bearer token of the job: REST calls that change something, control and data channel."""
ENV_COMPLETED_CHECKPOINT: Final = "HEADRACE_COMPLETED_CHECKPOINT"
"""Number of a checkpoint of this job that is known to be complete: a driver that finds neither it
nor a later one fails, rather than to begin anew with empty state."""
ENV_POD_IP: Final = "POD_IP"
ENV_POD_NAME: Final = "POD_NAME"
ENV_POD_NAMESPACE: Final = "POD_NAMESPACE"


class WireModel(BaseModel):
    """JSON with camelCase names; unknown fields are ignored, so that versions may differ by one."""

    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, use_attribute_docstrings=True
    )


class ExecutorConfig(WireModel):
    """Executors as Spark's Kubernetes backend shall create them."""

    instances: int = Field(ge=1)
    slots: int = Field(ge=1)
    """Slots (= Spark cores) of one executor."""
    memory_mib: int = Field(ge=256)
    """Heap of the executor's JVM."""
    memory_overhead_mib: int = Field(ge=128)
    """Pod memory beyond the heap: JVM overhead, Python workers and slot processes."""
    cpu_request: str
    image: str
    image_pull_policy: str
    service_account: str
    labels: dict[str, str]


class DriverConfig(WireModel):
    """Content of ``job.json``: everything that a driver needs besides its environment."""

    job_id: str
    """32 hexadecimal digits: the StreamJob's UID without dashes; the same for every driver."""
    job_name: str
    namespace: str
    program: str
    """Path of the Python program inside the driver's container."""
    args: list[str] = []
    parallelism: int = Field(ge=1)
    max_parallelism: int = Field(ge=1, le=32768)
    config: dict[str, str]
    """Options by Flink's keys, verbatim from the manifest."""
    spark_conf: dict[str, str] = {}
    """Spark options, verbatim from the manifest."""
    executor: ExecutorConfig | None = None
    """None: local Spark, no executor pods."""
    restore_path: str | None = None
    """Start from this checkpoint or savepoint when the job has none of its own yet."""
    allow_non_restored_state: bool = False


class JobState(enum.StrEnum):
    """States of a job, as Flink's ``JobStatus``."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"

    @property
    def is_terminal(self) -> bool:
        """Whether the job will never run again in this driver."""
        return self in {JobState.FAILED, JobState.CANCELED, JobState.FINISHED}


class JobError(WireModel):
    """The last error of a job: stable kind, message, last frames of the Python traceback."""

    kind: str
    message: str
    traceback: str = ""
    restartable: bool = True
    at_ms: int = 0


class CheckpointSummary(WireModel):
    """One completed or failed checkpoint in REST answers and in ``status.lastCheckpoint``."""

    id: int
    status: str
    """``COMPLETED``, ``FAILED`` or ``IN_PROGRESS``."""
    generation: int
    epoch: int
    path: str
    trigger_ms: int
    completed_ms: int | None = None
    duration_ms: int | None = None
    sync_ms: float | None = None
    async_ms: float | None = None
    state_size_bytes: int = 0
    uploaded_bytes: int = 0
    failure: str | None = None


class SavepointFormatType(enum.StrEnum):
    """How a savepoint is written, in Flink's words."""

    NATIVE = "NATIVE"
    """Files of the state backend: fastest."""
    CANONICAL = "CANONICAL"
    """The rows of all states as Parquet: for any backend and any reader."""


class RequestModel(WireModel):
    """Body of a call that changes something: a name that is not known is refused, not skipped."""

    model_config = ConfigDict(extra="forbid")

    target_directory: str | None = Field(
        default=None, validation_alias=AliasChoices("target-directory", "targetDirectory")
    )
    """Parent of the savepoint's directory; by default ``execution.checkpointing.savepoint-dir``."""
    format_type: SavepointFormatType | None = None
    """By default ``headrace.savepoint.format-type``."""
    trigger_id: str | None = Field(default=None, pattern="^[0-9a-f]{32}$")
    """The same id means the same savepoint, however often it is sent; by default a random one."""


class SavepointRequest(RequestModel):
    """Body of ``POST /jobs/<id>/savepoints``."""

    cancel_job: Literal[False] = Field(
        default=False, validation_alias=AliasChoices("cancel-job", "cancelJob")
    )
    """Flink's deprecated cancel-with-savepoint: use ``POST /jobs/<id>/stop``."""


class StopRequest(RequestModel):
    """Body of ``POST /jobs/<id>/stop``: a last savepoint, and nothing after it."""

    drain: bool = False
    """Move event time to its end and fire all timers first: the job will not be continued."""


class RescaleRequest(WireModel):
    """Body of ``POST /jobs/<id>/rescale``."""

    model_config = ConfigDict(extra="forbid")

    parallelism: int = Field(ge=1)
    """Parallelism to reach, at most the job's max parallelism."""


class RescaleReport(WireModel):
    """Body of ``GET /jobs/<id>/rescale``: the present or the last rescale."""

    request_id: str
    phase: str
    """``WAITING``, ``PREPARING``, ``SWITCHING``, ``VERIFYING``, ``COMPLETED`` or ``FAILED``."""
    from_parallelism: int
    to_parallelism: int
    key_groups_moved: int
    """Key groups that change their slot."""
    bytes_moved: int
    """State that new slots took over, changes included."""
    prepare_ms: int | None = None
    """Time in which the job went on while new slots were built."""
    pause_ms: int | None = None
    """Time without an epoch."""
    started_ms: int
    ended_ms: int | None = None
    failure: str | None = None
    """Why it failed; the job goes on at ``fromParallelism``."""


class TriggerAnswer(WireModel):
    """Answer to a request that takes its time; ask for its outcome by this id."""

    request_id: str = Field(
        validation_alias=AliasChoices("request-id", "request_id"), serialization_alias="request-id"
    )


class OperationStatus(enum.StrEnum):
    """Whether an operation has ended, as Flink's asynchronous operations say it."""

    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    """It has ended, well or not: see its outcome."""


class OperationStatusBody(WireModel):
    """Wrapped as Flink wraps it."""

    id: OperationStatus


class FailureCause(WireModel):
    """Why an operation failed, in Flink's shape."""

    kind: str = Field(validation_alias=AliasChoices("class", "kind"), serialization_alias="class")
    """Stable kind of the error."""
    message: str = Field(
        validation_alias=AliasChoices("stack-trace", "message"), serialization_alias="stack-trace"
    )


class SavepointOutcome(WireModel):
    """How a savepoint ended: with a location or with a cause."""

    location: str | None = None
    failure_cause: FailureCause | None = Field(
        default=None,
        validation_alias=AliasChoices("failure-cause", "failure_cause"),
        serialization_alias="failure-cause",
    )
    checkpoint_id: int | None = None
    """Number of the checkpoint that it is a copy of."""
    size_bytes: int = 0
    key_groups: int = 0
    parallelism: int = 0
    offsets: dict[str, str] = {}
    """Position of each source by its uid, as Spark writes it."""
    triggered_ms: int = 0
    completed_ms: int = 0


class SavepointAnswer(WireModel):
    """Body of ``GET /jobs/<id>/savepoints/<trigger id>``."""

    status: OperationStatusBody
    operation: SavepointOutcome | None = None
    """None while in progress."""


class JobStatus(WireModel):
    """Body of ``GET /jobs/<id>``: what the operator copies into the StreamJob's status."""

    job_id: str
    name: str
    state: JobState
    generation: int = 0
    parallelism: int = 0
    max_parallelism: int = 0
    slots_registered: int = 0
    epoch: int | None = None
    epochs_committed: int = 0
    """Epochs finished in the present generation."""
    records_in: int = 0
    restarts: int = 0
    start_ms: int = 0
    restored_from: int | None = None
    """Checkpoint that the present generation continued from."""
    last_checkpoint: CheckpointSummary | None = None
    last_savepoint: str | None = None
    """Where the last savepoint of this driver lies."""
    last_recovery_s: float | None = None
    """Seconds from the failure to the first epoch after it."""
    watermark_ms: int | None = None
    source_lag: int | None = None
    """Records that the sources know of and have not read, None when unknown."""
    last_error: JobError | None = None
    warnings: list[str] = []


class TerminationMessage(WireModel):
    """What a driver leaves at `TERMINATION_LOG` when it ends by itself; at most 4096 bytes."""

    state: JobState
    restarts: int = 0
    error: JobError | None = None
    savepoint: str | None = None
    """The last savepoint of this driver; a job that was stopped with one ended with it."""
