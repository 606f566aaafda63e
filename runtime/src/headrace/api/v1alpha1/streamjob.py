"""The StreamJob resource: a stateful streaming job that the operator keeps running."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import ConfigDict, JsonValue

from headrace.api.names import API_VERSION, JOB_NAME_LENGTH_MAX
from headrace.api.v1alpha1.base import CEL_KEY, ApiModel, ObjectMeta, cel
from headrace.api.v1alpha1.streamjob_spec import StreamJobSpec
from headrace.api.v1alpha1.streamjob_status import StreamJobStatus

NAME_PATTERN: Final = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
"""A Service is named after the job, so the name must be a DNS-1035 label."""

_NAME_RULES: Final[list[JsonValue]] = [
    cel(
        f"size(self.metadata.name) <= {JOB_NAME_LENGTH_MAX}",
        f"name must have at most {JOB_NAME_LENGTH_MAX} characters: pods are named after the job",
    ),
    cel(
        f"self.metadata.name.matches('{NAME_PATTERN}')",
        "name must be lower-case letters, digits and hyphens and start with a letter",
    ),
]


class StreamJob(ApiModel):
    """A stateful streaming job on Spark, kept running by the Headrace operator."""

    model_config = ConfigDict(json_schema_extra={CEL_KEY: _NAME_RULES})

    api_version: Literal["headrace.dev/v1alpha1"] = API_VERSION
    kind: Literal["StreamJob"] = "StreamJob"
    metadata: ObjectMeta
    spec: StreamJobSpec
    """What the job shall be."""
    status: StreamJobStatus | None = None
    """What the operator observed and did."""
