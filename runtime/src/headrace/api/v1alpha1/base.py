"""Foundations of the custom resources: model settings, effects of a change, rules, conditions.

The models are the only source of the CRDs, of the chart's values schema and of the reference page
(`headrace.api.crd`): the string under a field is its description there. A cross-field rule is
written twice, as a CEL rule for the API server and as a validator here, and tested on both sides,
because the operator also meets objects that were stored before a rule existed.
"""

from __future__ import annotations

import enum
from typing import Annotated, Final

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue
from pydantic.alias_generators import to_camel

CEL_KEY: Final = "x-kubernetes-validations"
PRESERVE_KEY: Final = "x-kubernetes-preserve-unknown-fields"
LIST_TYPE_KEY: Final = "x-kubernetes-list-type"
LIST_MAP_KEYS_KEY: Final = "x-kubernetes-list-map-keys"


class Effect(enum.IntEnum):
    """What the operator does when a field of a spec changes; of several the greatest counts."""

    IGNORE = 0
    """Recorded and used from now on; no process is touched."""
    SCALE = 1
    """The job is brought to another parallelism; program and configuration stay."""
    UPGRADE = 2
    """The driver is stopped and the new one continues from the last state."""
    REDEPLOY = 3
    """As `UPGRADE`, and the state to start from is chosen again."""


class ApiModel(BaseModel):
    """Base of everything that a user writes: unknown fields are errors, objects are immutable."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class StatusModel(BaseModel):
    """Base of everything that the operator writes.

    Unknown fields are ignored: after a downgrade the operator reads what a newer one wrote.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


def cel(rule: str, message: str, *, field_path: str | None = None) -> dict[str, JsonValue]:
    """Return one entry of ``x-kubernetes-validations``.

    Args:
        rule: CEL over ``self`` (and ``oldSelf``, which makes it a rule about changes).
        message: what is wrong and what to do; the API server puts the field's path before it.
        field_path: path below the annotated object to report, e.g. ``.parallelism``.
    """
    entry: dict[str, JsonValue] = {"rule": rule, "message": message}
    if field_path is not None:
        entry["fieldPath"] = field_path
    return entry


class ObjectMeta(BaseModel):
    """The part of Kubernetes' metadata that Headrace reads; the rest passes unseen."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", alias_generator=to_camel, populate_by_name=True
    )

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    deletion_timestamp: AwareDatetime | None = None
    finalizers: tuple[str, ...] = ()
    annotations: dict[str, str] = Field(default={})
    labels: dict[str, str] = Field(default={})


class ConditionStatus(enum.StrEnum):
    """Value of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(StatusModel):
    """One aspect of the resource's state, in Kubernetes' common form."""

    type: Annotated[str, Field(max_length=64)]
    """Name of the aspect."""
    status: ConditionStatus
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=128)]
    """Stable CamelCase word for programs; never parse the message."""
    message: Annotated[str, Field(max_length=4096)] = ""
    """For people: what happened, with values, and what to do."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """Generation of the spec that this condition speaks of."""
    last_transition_time: AwareDatetime
    """When `status` last changed."""


CONDITIONS_SCHEMA: Final[dict[str, JsonValue]] = {
    LIST_TYPE_KEY: "map",
    LIST_MAP_KEYS_KEY: ["type"],
}
"""Extra schema of every ``conditions`` list: one entry a type, merged by server-side apply."""
