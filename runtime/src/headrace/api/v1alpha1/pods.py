"""What a StreamJob may say about its pods: resources, environment, placement, volumes.

A chosen part of Kubernetes' pod spec, typed where Headrace reads it and passed through where it
does not. Security context, ports, probes and names are not here: they belong to the product.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import ConfigDict, Field, JsonValue, model_validator

from headrace.api.v1alpha1.base import (
    CEL_KEY,
    LIST_MAP_KEYS_KEY,
    LIST_TYPE_KEY,
    PRESERVE_KEY,
    ApiModel,
    cel,
)
from headrace.api.v1alpha1.quantities import Cpu, Memory, memory_mib

HEAP_MIB_MIN: Final = 256
OVERHEAD_MIB_MIN: Final = 128

_BY_NAME: Final[dict[str, JsonValue]] = {LIST_TYPE_KEY: "map", LIST_MAP_KEYS_KEY: ["name"]}
_PASSED_THROUGH: Final[dict[str, JsonValue]] = {PRESERVE_KEY: True}

Name = Annotated[str, Field(min_length=1, max_length=253)]
PassedThrough = Annotated[dict[str, JsonValue], Field(json_schema_extra=_PASSED_THROUGH)]
"""An object of Kubernetes' own API, checked by the API server when the pod is created."""


class KeySelector(ApiModel):
    """One key of a ConfigMap or Secret in the job's namespace."""

    name: Name
    """Name of the object."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
    """Key inside it."""
    optional: bool = False
    """Start without it when it does not exist."""


class FieldSelector(ApiModel):
    """One field of the pod itself."""

    field_path: Annotated[str, Field(min_length=1, max_length=253)]
    """For example `status.hostIP`."""


class EnvVarSource(ApiModel):
    """Where the value of an environment variable comes from; exactly one."""

    secret_key_ref: KeySelector | None = None
    """A key of a Secret."""
    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap."""
    field_ref: FieldSelector | None = None
    """A field of the pod."""


class EnvVar(ApiModel):
    """An environment variable of a container."""

    name: Annotated[
        str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
    ]
    """Name of the variable. Names that start with `HEADRACE_` are the product's own."""
    value: Annotated[str, Field(max_length=32768)] | None = None
    """Value; empty when neither this nor `valueFrom` is set."""
    value_from: EnvVarSource | None = None
    """Source of the value."""


class ObjectReference(ApiModel):
    """A whole ConfigMap or Secret in the job's namespace."""

    name: Name
    """Name of the object."""
    optional: bool = False
    """Start without it when it does not exist."""


class EnvFromSource(ApiModel):
    """All keys of a ConfigMap or Secret as environment variables."""

    prefix: Annotated[str, Field(max_length=253)] | None = None
    """Put before each name."""
    secret_ref: ObjectReference | None = None
    """For credentials, e.g. of the checkpoint storage."""
    config_map_ref: ObjectReference | None = None
    """For settings."""


class Toleration(ApiModel):
    """Taint of a node that the pods accept."""

    key: Annotated[str, Field(max_length=316)] | None = None
    """Taint key; empty with operator `Exists` means every taint."""
    operator: Annotated[str, Field(pattern="^(Exists|Equal)$")] | None = None
    """`Equal` (the default) or `Exists`."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Taint value for `Equal`."""
    effect: Annotated[str, Field(pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$")] | None = None
    """Taint effect; empty means every effect."""
    toleration_seconds: int | None = None
    """How long a `NoExecute` taint is tolerated."""


class LocalReference(ApiModel):
    """A Secret by name."""

    name: Name
    """Name of the Secret."""


_MEMORY_RULES: Final[list[JsonValue]] = [
    cel(
        f"quantity(self.memory).compareTo(quantity('{HEAP_MIB_MIN}Mi')) >= 0",
        f"must be at least {HEAP_MIB_MIN}Mi: it is the heap of a JVM",
        field_path=".memory",
    ),
    cel(
        f"quantity(self.memoryOverhead).compareTo(quantity('{OVERHEAD_MIB_MIN}Mi')) >= 0",
        f"must be at least {OVERHEAD_MIB_MIN}Mi: it holds everything besides the JVM's heap",
        field_path=".memoryOverhead",
    ),
]


def check_memory(memory: str, overhead: str) -> None:
    """Assert the lower bounds of heap and overhead.

    Raises:
        ValueError: one of them is too small.
    """
    for field, text, minimum in (
        ("memory", memory, HEAP_MIB_MIN),
        ("memoryOverhead", overhead, OVERHEAD_MIB_MIN),
    ):
        if memory_mib(text) < minimum:
            msg = f"{field} must be at least {minimum}Mi; {field}={text}"
            raise ValueError(msg)


class DriverSpec(ApiModel):
    """The driver pod: one for each job."""

    model_config = ConfigDict(json_schema_extra={CEL_KEY: _MEMORY_RULES})

    memory: Memory = "1Gi"
    """Heap of the JVM."""
    memory_overhead: Memory = "768Mi"
    """Pod memory beyond the heap: JVM overhead, the Python coordinator and the user's program."""
    cpu: Cpu = "1"
    """CPU that is requested for the pod."""
    cpu_limit: Cpu | None = None
    """CPU that the pod may not exceed; no limit by default."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=128, json_schema_extra=_BY_NAME)] = ()
    """Environment of the driver alone."""

    @model_validator(mode="after")
    def _check(self) -> DriverSpec:
        check_memory(self.memory, self.memory_overhead)
        return self


class ExecutorSpec(ApiModel):
    """Executor pods; the job has as many as its parallelism needs."""

    model_config = ConfigDict(json_schema_extra={CEL_KEY: _MEMORY_RULES})

    slots: Annotated[int, Field(ge=1, le=256)] = 1
    """Slots of one executor; it has parallelism / slots executors, rounded up."""
    memory: Memory = "512Mi"
    """Heap of the JVM."""
    memory_overhead: Memory = "1Gi"
    """Pod memory beyond the heap: JVM overhead, Python workers, and the slot processes with the
    memory of their state backend."""
    cpu: Cpu | None = None
    """CPU that is requested for a pod; one core a slot by default."""
    cpu_limit: Cpu | None = None
    """CPU that a pod may not exceed; no limit by default."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=128, json_schema_extra=_BY_NAME)] = ()
    """Environment of the executors and their slot processes alone."""

    @model_validator(mode="after")
    def _check(self) -> ExecutorSpec:
        check_memory(self.memory, self.memory_overhead)
        return self


class PodTemplate(ApiModel):
    """What driver and executor pods have in common."""

    labels: Annotated[dict[str, str], Field(max_length=64)] = Field(default={})
    """More labels; those of the product win."""
    annotations: Annotated[dict[str, str], Field(max_length=64)] = Field(default={})
    """More annotations."""
    node_selector: Annotated[dict[str, str], Field(max_length=32)] = Field(default={})
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints that the pods accept."""
    affinity: PassedThrough | None = None
    """Kubernetes' `affinity`, unchanged."""
    priority_class_name: Name | None = None
    """Priority class of the pods."""
    image_pull_secrets: Annotated[tuple[LocalReference, ...], Field(max_length=16)] = ()
    """Secrets for pulling the image."""
    env: Annotated[tuple[EnvVar, ...], Field(max_length=128, json_schema_extra=_BY_NAME)] = ()
    """Environment of driver and executors."""
    env_from: Annotated[tuple[EnvFromSource, ...], Field(max_length=32)] = ()
    """Environment of driver and executors from whole ConfigMaps and Secrets."""
    volumes: Annotated[tuple[PassedThrough, ...], Field(max_length=32)] = ()
    """Kubernetes' `volumes`, unchanged."""
    volume_mounts: Annotated[tuple[PassedThrough, ...], Field(max_length=64)] = ()
    """Kubernetes' `volumeMounts`, unchanged, in driver and executors."""
