"""The Savepoint resource: a self-contained copy of a job's state that belongs to the user.

Only the schema exists so far; the operator does not act on it yet.
"""

from __future__ import annotations

import enum
from typing import Annotated, Literal

from pydantic import AwareDatetime, ConfigDict, Field

from headrace.api.names import API_VERSION
from headrace.api.v1alpha1.base import (
    CEL_KEY,
    CONDITIONS_SCHEMA,
    ApiModel,
    Condition,
    ObjectMeta,
    StatusModel,
    cel,
)
from headrace.api.v1alpha1.pods import Name
from headrace.api.v1alpha1.streamjob_status import ErrorStatus


class JobReference(ApiModel):
    """A StreamJob in the same namespace."""

    name: Name
    """Name of the StreamJob."""


class SavepointFormat(enum.StrEnum):
    """How the state is written."""

    NATIVE = "native"
    """Files of the state backend: fastest to write and restore."""
    CANONICAL = "canonical"
    """Typed Parquet by key group: readable, portable over backends and versions."""


class DeletionPolicy(enum.StrEnum):
    """What deleting the resource does to the files."""

    RETAIN = "Retain"
    DELETE = "Delete"


class SavepointSpec(ApiModel):
    """Which state to copy and where to."""

    model_config = ConfigDict(
        json_schema_extra={
            CEL_KEY: [cel("self == oldSelf", "is immutable: create another Savepoint")]
        }
    )

    job_ref: JobReference
    """The job."""
    path: Annotated[str, Field(min_length=1, max_length=2048)] | None = None
    """Parent directory; by default `state.savepoints.dir` of the job's `config`."""
    format: SavepointFormat = SavepointFormat.NATIVE
    """How the state is written."""
    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 600
    """The savepoint fails when it takes longer."""
    retain: bool = False
    """Hold off every automatic clean-up."""
    deletion_policy: DeletionPolicy = DeletionPolicy.RETAIN
    """What deleting this resource does to the files."""


class SavepointPhase(enum.StrEnum):
    """How far the savepoint is."""

    PENDING = "Pending"
    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"


class SavepointStatus(StatusModel):
    """What became of it."""

    observed_generation: Annotated[int, Field(ge=0)] = 0
    """Generation of the spec that was acted on."""
    phase: SavepointPhase = SavepointPhase.PENDING
    """How far it is."""
    conditions: Annotated[tuple[Condition, ...], Field(json_schema_extra=CONDITIONS_SCHEMA)] = ()
    """Complete and Failed, each with its reason."""
    location: str | None = None
    """Where the savepoint lies; for `restoreFrom.path` of a StreamJob."""
    checkpoint_id: int | None = None
    """Number of the savepoint in the life of the job."""
    size_bytes: int | None = None
    """Bytes of all its files."""
    key_groups: int | None = None
    """Number of key groups in it, the job's max parallelism."""
    offsets: Annotated[dict[str, str], Field(max_length=256)] = Field(default={})
    """Position of each source, by its name."""
    triggered_by: str | None = None
    """Who asked: user, upgrade or schedule."""
    started_at: AwareDatetime | None = None
    """When it was triggered."""
    completed_at: AwareDatetime | None = None
    """When it was complete."""
    duration_seconds: float | None = None
    """Time that it took."""
    error: ErrorStatus | None = None
    """Why it failed."""


class Savepoint(ApiModel):
    """A self-contained copy of the state of a StreamJob."""

    api_version: Literal["headrace.dev/v1alpha1"] = API_VERSION
    kind: Literal["Savepoint"] = "Savepoint"
    metadata: ObjectMeta
    spec: SavepointSpec
    """Which state to copy and where to."""
    status: SavepointStatus | None = None
    """What became of it."""
