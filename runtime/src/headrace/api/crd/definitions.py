"""Names, printer columns and subresources of each custom resource, around its schema.

Root objects: ``apiVersion``, ``kind`` and ``metadata`` belong to the API server, so only ``spec``
and ``status`` come from the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import yaml
from pydantic import BaseModel, JsonValue

from headrace.api.crd.structural import Schema, structural_schema
from headrace.api.names import CATEGORY, GROUP, VERSION
from headrace.api.v1alpha1 import Rescale, Savepoint, StreamJob
from headrace.errors import InternalError

SIZE_BYTES_MAX: Final = 200 * 1024
"""Below the 256 KiB of an annotation, so that a plain ``kubectl apply`` works (OP6)."""

HEADER: Final = (
    "# Generated from headrace.api.v1alpha1 by `python -m headrace.api.crd`; do not edit.\n"
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of ``kubectl get``; priority 1 is shown with ``-o wide`` only."""

    name: str
    json_path: str
    type: str = "string"
    priority: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """What a definition needs besides the schema of its model."""

    model: type[BaseModel]
    plural: str
    short_names: tuple[str, ...]
    columns: tuple[Column, ...]
    scale: dict[str, str] | None = None


_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")

RESOURCES: Final = (
    Resource(
        model=StreamJob,
        plural="streamjobs",
        short_names=("sj",),
        columns=(
            Column("State", ".status.lifecycleState", description="Where the job is in its life."),
            Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
            Column("Parallelism", ".status.parallelism", "integer", description="Actual slots."),
            Column("Desired", ".spec.parallelism", "integer", description="Slots asked for."),
            Column("Lag", ".status.sourceLag", "integer", description="Records not read yet."),
            Column(
                "Checkpoint",
                ".status.lastCheckpoint.completedAt",
                "date",
                description="Age of the last completed checkpoint.",
            ),
            Column("Restarts", ".status.restarts", "integer"),
            _AGE,
            Column("Savepoint", ".status.lastSavepoint", priority=1),
            Column("Image", ".spec.image", priority=1),
            Column("Cause", '.status.conditions[?(@.type=="Degraded")].message', priority=1),
        ),
        scale={
            "specReplicasPath": ".spec.parallelism",
            "statusReplicasPath": ".status.parallelism",
            "labelSelectorPath": ".status.selector",
        },
    ),
    Resource(
        model=Savepoint,
        plural="savepoints",
        short_names=("sp",),
        columns=(
            Column("Job", ".spec.jobRef.name"),
            Column("Phase", ".status.phase"),
            Column("Format", ".spec.format"),
            Column("Size", ".status.sizeBytes", "integer"),
            Column("Seconds", ".status.durationSeconds", "number"),
            _AGE,
            Column("Location", ".status.location", priority=1),
        ),
    ),
    Resource(
        model=Rescale,
        plural="rescales",
        short_names=("rsl",),
        columns=(
            Column("Job", ".spec.jobRef.name"),
            Column("Phase", ".status.phase"),
            Column("From", ".status.fromParallelism", "integer"),
            Column("To", ".spec.parallelism", "integer"),
            Column("Pause-ms", ".status.pauseMs", "integer"),
            _AGE,
        ),
    ),
)


class _PlainDumper(yaml.SafeDumper):
    """Writes shared values out in full: an anchor in a manifest is a riddle."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - yaml's signature
        return True


def build_definitions() -> dict[str, Schema]:
    """Return every CustomResourceDefinition by the name of its file."""
    return {f"{GROUP}_{resource.plural}.yaml": _definition(resource) for resource in RESOURCES}


def render_definition(definition: Schema) -> str:
    """Return the file content of one definition.

    Raises:
        InternalError: it is too large for a plain ``kubectl apply``.
    """
    text = HEADER + yaml.dump(
        definition, Dumper=_PlainDumper, sort_keys=False, width=100, allow_unicode=True
    )
    if len(text.encode()) >= SIZE_BYTES_MAX:
        msg = f"definition is too large for kubectl apply, shorten it; bytes={len(text.encode())}"
        raise InternalError(msg)
    return text


def _definition(resource: Resource) -> Schema:
    kind = resource.model.__name__
    names: Schema = {
        "plural": resource.plural,
        "singular": kind.lower(),
        "kind": kind,
        "listKind": f"{kind}List",
        "shortNames": list(resource.short_names),
        "categories": [CATEGORY],
    }
    subresources: Schema = {"status": {}}
    if resource.scale is not None:
        subresources["scale"] = dict(resource.scale)
    version: Schema = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": subresources,
        "additionalPrinterColumns": [_column(column) for column in resource.columns],
        "schema": {"openAPIV3Schema": _root_schema(resource.model)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def _metadata_schema(schema: JsonValue) -> Schema:
    """Of metadata the API server lets a schema restrict the name alone."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    name = properties.get("name") if isinstance(properties, dict) else None
    if not isinstance(name, dict) or name.keys() == {"type"}:
        return {"type": "object"}
    return {"type": "object", "properties": {"name": name}}


def _column(column: Column) -> JsonValue:
    entry: dict[str, JsonValue] = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.json_path,
    }
    if column.description:
        entry["description"] = column.description
    if column.priority:
        entry["priority"] = column.priority
    return entry


def _root_schema(model: type[BaseModel]) -> Schema:
    schema = structural_schema(model.model_json_schema(by_alias=True))
    properties = schema["properties"]
    if not isinstance(properties, dict):
        raise InternalError(f"model has no properties; model={model.__name__}")
    schema["properties"] = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": _metadata_schema(properties["metadata"]),
        "spec": properties["spec"],
        "status": properties["status"],
    }
    schema["required"] = ["spec"]
    return schema
