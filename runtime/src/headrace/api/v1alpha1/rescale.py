"""The Rescale resource: one change of a running job's parallelism, and its record.

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
    LIST_MAP_KEYS_KEY,
    LIST_TYPE_KEY,
    ApiModel,
    Condition,
    ObjectMeta,
    StatusModel,
    cel,
)
from headrace.api.v1alpha1.savepoint import JobReference
from headrace.api.v1alpha1.streamjob_spec import MAX_PARALLELISM_LIMIT
from headrace.api.v1alpha1.streamjob_status import ErrorStatus


class RescaleSpec(ApiModel):
    """Which job to bring to which parallelism."""

    model_config = ConfigDict(
        json_schema_extra={
            CEL_KEY: [cel("self == oldSelf", "is immutable: create another Rescale")]
        }
    )

    job_ref: JobReference
    """The job."""
    parallelism: Annotated[int, Field(ge=1, le=MAX_PARALLELISM_LIMIT)]
    """Parallelism to reach; at most the job's `maxParallelism`."""
    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 600
    """The job returns to its old parallelism when it takes longer."""


class RescalePhase(enum.StrEnum):
    """How far the rescale is."""

    PENDING = "Pending"
    PREPARING = "Preparing"
    """New slots are built from the last checkpoint while the job goes on."""
    SWITCHING = "Switching"
    """The job pauses at a barrier and hands over what changed since."""
    VERIFYING = "Verifying"
    """The job runs at the new parallelism; a checkpoint must still complete."""
    COMPLETED = "Completed"
    ROLLING_BACK = "RollingBack"
    FAILED = "Failed"


class PhaseRecord(StatusModel):
    """When a phase began."""

    phase: RescalePhase
    """The phase."""
    at: AwareDatetime
    """Its begin."""


class RescaleStatus(StatusModel):
    """What became of it."""

    observed_generation: Annotated[int, Field(ge=0)] = 0
    """Generation of the spec that was acted on."""
    phase: RescalePhase = RescalePhase.PENDING
    """How far it is."""
    phases: Annotated[
        tuple[PhaseRecord, ...],
        Field(json_schema_extra={LIST_TYPE_KEY: "map", LIST_MAP_KEYS_KEY: ["phase"]}),
    ] = ()
    """The phases so far."""
    conditions: Annotated[tuple[Condition, ...], Field(json_schema_extra=CONDITIONS_SCHEMA)] = ()
    """Complete and Failed, each with its reason."""
    from_parallelism: int | None = None
    """Parallelism before."""
    to_parallelism: int | None = None
    """Parallelism after."""
    key_groups_moved: int | None = None
    """Key groups that changed owner."""
    bytes_moved: int | None = None
    """Bytes of state that changed owner."""
    pause_ms: int | None = None
    """Time without an epoch."""
    started_at: AwareDatetime | None = None
    """When it began."""
    completed_at: AwareDatetime | None = None
    """When it ended."""
    error: ErrorStatus | None = None
    """Why it failed."""


class Rescale(ApiModel):
    """One change of the parallelism of a running StreamJob."""

    api_version: Literal["headrace.dev/v1alpha1"] = API_VERSION
    kind: Literal["Rescale"] = "Rescale"
    metadata: ObjectMeta
    spec: RescaleSpec
    """Which job to bring to which parallelism."""
    status: RescaleStatus | None = None
    """What became of it."""
