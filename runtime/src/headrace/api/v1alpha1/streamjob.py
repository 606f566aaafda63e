"""The StreamJob resource: a stateful streaming job that the operator keeps running."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from headrace.api.names import API_VERSION, JOB_NAME_LENGTH_MAX
from headrace.api.v1alpha1.base import ApiModel, ObjectMeta
from headrace.api.v1alpha1.streamjob_spec import StreamJobSpec
from headrace.api.v1alpha1.streamjob_status import StreamJobStatus

NAME_PATTERN: Final = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""A Service is named after the job, so the name must be a DNS-1035 label."""


class JobMeta(ObjectMeta):
    """Metadata with the rule for a job's name: its objects are named after it."""

    name: Annotated[str, Field(max_length=JOB_NAME_LENGTH_MAX, pattern=NAME_PATTERN)]


class StreamJob(ApiModel):
    """A stateful streaming job on Spark, kept running by the Headrace operator."""

    api_version: Literal["headrace.dev/v1alpha1"] = API_VERSION
    kind: Literal["StreamJob"] = "StreamJob"
    metadata: JobMeta
    spec: StreamJobSpec
    """What the job shall be."""
    status: StreamJobStatus | None = None
    """What the operator observed and did."""
