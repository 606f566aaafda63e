"""``StreamJob.spec``: what the user wants, with the effect of changing each field.

Every field of `StreamJobSpec` carries an `Effect`; the operator's diff takes the greatest one of
the changed fields, and a test fails on a field without one. Rules between fields are CEL for the
API server and validators here.
"""

from __future__ import annotations

import enum
import posixpath
from typing import Annotated, Final

from pydantic import ConfigDict, Field, JsonValue, model_validator

from headrace.api.v1alpha1.base import CEL_KEY, ApiModel, Effect, cel
from headrace.api.v1alpha1.pods import DriverSpec, ExecutorSpec, KeySelector, Name, PodTemplate

MAX_PARALLELISM_DEFAULT: Final = 128
MAX_PARALLELISM_LIMIT: Final = 32768
"""As `headrace.keygroups`, which needs a compiled hash that API users need not install."""

RESERVED_SPARK_KEYS: Final = (
    "spark.driver.bindAddress",
    "spark.driver.host",
    "spark.driver.memory",
    "spark.driver.port",
    "spark.executor.cores",
    "spark.executor.instances",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.kubernetes.container.image",
    "spark.kubernetes.driver.pod.name",
    "spark.kubernetes.executor.podTemplateFile",
    "spark.kubernetes.namespace",
    "spark.master",
    "spark.submit.deployMode",
)
"""Spark options that follow from other fields; a second opinion in `sparkConf` is refused."""

RESERVED_CONFIG_KEYS: Final = ("rest.port",)
"""Options of a job outside Kubernetes; inside, ports are part of the pod's contract."""

SETTINGS_MAX: Final = 512
_OptionValue = Annotated[str, Field(max_length=8192)]


class ProgramSource(ApiModel):
    """The Python program that builds the job; exactly one source."""

    model_config = ConfigDict(
        json_schema_extra={
            CEL_KEY: [
                cel(
                    "[has(self.file), has(self.configMap), has(self.inline)].exists_one(x, x)",
                    "must have exactly one of file, configMap and inline",
                )
            ]
        }
    )

    file: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """Path of the program inside the image, absolute or relative to its working directory."""
    config_map: KeySelector | None = None
    """Key of a ConfigMap in the job's namespace."""
    inline: Annotated[str, Field(min_length=1, max_length=131072)] | None = None
    """The program's text."""

    @model_validator(mode="after")
    def _check(self) -> ProgramSource:
        given = [
            name for name in ("file", "config_map", "inline") if getattr(self, name) is not None
        ]
        if len(given) != 1:
            msg = f"must have exactly one of file, configMap and inline; given={given}"
            raise ValueError(msg)
        if self.file is not None and posixpath.normpath(self.file) in {".", "/"}:
            msg = f"file must be the path of a Python program; file={self.file!r}"
            raise ValueError(msg)
        return self


class DesiredState(enum.StrEnum):
    """Whether the job shall run."""

    RUNNING = "running"
    SUSPENDED = "suspended"


class UpgradeMode(enum.StrEnum):
    """Where a new driver takes its state from after a change."""

    STATELESS = "stateless"
    LAST_STATE = "last-state"
    SAVEPOINT = "savepoint"


class ImagePullPolicy(enum.StrEnum):
    """Kubernetes' own."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class RestoreFrom(ApiModel):
    """State that a job without a checkpoint of its own starts from."""

    path: Annotated[str, Field(min_length=1, max_length=2048)]
    """Directory of a checkpoint or savepoint, e.g. `s3://bucket/dir/<job id>/chk-42`."""


class RestartPolicy(ApiModel):
    """How a driver that went away is replaced.

    Failures that the driver survives are the matter of `restart-strategy` in `config`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            CEL_KEY: [
                cel(
                    "self.initialBackoffSeconds <= self.maxBackoffSeconds",
                    "must not be greater than maxBackoffSeconds",
                    field_path=".initialBackoffSeconds",
                )
            ]
        }
    )

    max_attempts: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Failed drivers in a row after which the job is Failed; by default it is tried for ever."""
    initial_backoff_seconds: Annotated[int, Field(ge=1, le=3600)] = 5
    """Pause before the second replacement in a row; the first one starts at once."""
    max_backoff_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """Upper bound of the pause, which doubles with each failure in a row."""
    reset_after_seconds: Annotated[int, Field(ge=1, le=86400)] = 600
    """Time in Ready after which earlier failures are forgotten."""
    progress_timeout_seconds: Annotated[int, Field(ge=0, le=86400)] = 600
    """A running job without a new epoch or checkpoint for this long is restarted; 0 = never."""

    @model_validator(mode="after")
    def _check(self) -> RestartPolicy:
        if self.initial_backoff_seconds > self.max_backoff_seconds:
            msg = (
                "initialBackoffSeconds must not be greater than maxBackoffSeconds; "
                f"initial={self.initial_backoff_seconds} max={self.max_backoff_seconds}"
            )
            raise ValueError(msg)
        return self


def _without_keys(keys: tuple[str, ...], what: str) -> dict[str, JsonValue]:
    listed = ", ".join(f"'{key}'" for key in keys)
    return {CEL_KEY: [cel(f"self.all(key, !(key in [{listed}]))", f"must not set {what}")]}


_SPARK_CONF_RULE: Final = _without_keys(
    RESERVED_SPARK_KEYS,
    "what other fields decide (master, image, memory, cores, addresses)",
)
_CONFIG_RULE: Final = _without_keys(RESERVED_CONFIG_KEYS, "rest.port: it is part of the pod")


class StreamJobSpec(ApiModel):
    """What the job shall be."""

    model_config = ConfigDict(
        json_schema_extra={
            CEL_KEY: [
                cel(
                    "self.parallelism <= self.maxParallelism",
                    "must not be greater than maxParallelism",
                    field_path=".parallelism",
                )
            ]
        }
    )

    image: Annotated[str, Field(min_length=1, max_length=1024), Effect.UPGRADE]
    """Image of driver and executors: the runtime with the user's program and libraries."""
    image_pull_policy: Annotated[ImagePullPolicy | None, Effect.UPGRADE] = None
    """Kubernetes' default when absent: `Always` for tag `latest`, else `IfNotPresent`."""
    program: Annotated[ProgramSource, Effect.UPGRADE]
    """The program that builds the job."""
    args: Annotated[
        tuple[Annotated[str, Field(max_length=4096)], ...], Field(max_length=128), Effect.UPGRADE
    ] = ()
    """Arguments of the program."""
    parallelism: Annotated[int, Field(ge=1, le=MAX_PARALLELISM_LIMIT), Effect.SCALE] = 1
    """Slots that share the key groups; also set by `kubectl scale`."""
    max_parallelism: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_PARALLELISM_LIMIT,
            json_schema_extra={
                CEL_KEY: [
                    cel("self == oldSelf", "is immutable: stored state is divided into key groups")
                ]
            },
        ),
        Effect.UPGRADE,
    ] = MAX_PARALLELISM_DEFAULT
    """Number of key groups; the upper bound of parallelism, fixed for the life of the job."""
    state: Annotated[DesiredState, Effect.UPGRADE] = DesiredState.RUNNING
    """`suspended` stops driver and executors and keeps the state."""
    upgrade_mode: Annotated[UpgradeMode, Effect.IGNORE] = UpgradeMode.LAST_STATE
    """Where a new driver takes its state from after a change."""
    config: Annotated[
        dict[str, _OptionValue],
        Field(max_length=SETTINGS_MAX, json_schema_extra=_CONFIG_RULE),
        Effect.UPGRADE,
    ] = Field(default={})
    """Options by Flink's keys, e.g. `execution.checkpointing.interval: "30 s"`."""
    spark_conf: Annotated[
        dict[str, _OptionValue],
        Field(max_length=SETTINGS_MAX, json_schema_extra=_SPARK_CONF_RULE),
        Effect.UPGRADE,
    ] = Field(default={})
    """Options of Spark."""
    driver: Annotated[DriverSpec, Effect.UPGRADE] = DriverSpec()
    """The driver pod."""
    executor: Annotated[ExecutorSpec, Effect.UPGRADE] = ExecutorSpec()
    """The executor pods."""
    pod_template: Annotated[PodTemplate, Effect.UPGRADE] = PodTemplate()
    """What all pods of the job have in common."""
    service_account_name: Annotated[Name | None, Effect.UPGRADE] = None
    """Account of the driver, which must be allowed to manage executor pods; by default one is made
    for the job with exactly the rights that Spark needs."""
    restore_from: Annotated[RestoreFrom | None, Effect.REDEPLOY] = None
    """State to start from while the job has no checkpoint of its own."""
    allow_non_restored_state: Annotated[bool, Effect.UPGRADE] = False
    """Start although the program no longer has a place for some of the stored state."""
    restart_policy: Annotated[RestartPolicy, Effect.IGNORE] = RestartPolicy()
    """How a driver that went away is replaced."""

    @model_validator(mode="after")
    def _check(self) -> StreamJobSpec:
        if self.parallelism > self.max_parallelism:
            msg = (
                "parallelism must not be greater than maxParallelism; "
                f"parallelism={self.parallelism} maxParallelism={self.max_parallelism}"
            )
            raise ValueError(msg)
        for field, given, keys in (
            ("sparkConf", self.spark_conf, RESERVED_SPARK_KEYS),
            ("config", self.config, RESERVED_CONFIG_KEYS),
        ):
            reserved = sorted(set(given) & set(keys))
            if reserved:
                msg = f"{field} must not set what other fields decide; keys={reserved}"
                raise ValueError(msg)
        return self

    @property
    def executor_instances(self) -> int:
        """Executors that hold ``parallelism`` slots: parallelism / slots, rounded up."""
        return -(-self.parallelism // self.executor.slots)


def field_effects() -> dict[str, Effect]:
    """Return the effect of changing each field of `StreamJobSpec`, by its name in a manifest.

    Raises:
        TypeError: a field declares no effect or several.
    """
    effects: dict[str, Effect] = {}
    for name, field in StreamJobSpec.model_fields.items():
        declared = [item for item in field.metadata if isinstance(item, Effect)]
        if len(declared) != 1:
            msg = f"declare exactly one Effect; field={name} declared={declared}"
            raise TypeError(msg)
        effects[field.alias or name] = declared[0]
    return effects
