"""All objects that a job needs before its driver can start, and how a live one is compared."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from headrace.api.v1alpha1 import StreamJobSpec
from headrace_operator.kube.api import Manifest
from headrace_operator.resources.access import build_access
from headrace_operator.resources.configuration import build_config_map
from headrace_operator.resources.identity import JobIdentity
from headrace_operator.resources.network import build_service


def build_objects(
    job: JobIdentity, spec: StreamJobSpec, program: str | None = None
) -> tuple[Manifest, ...]:
    """Return the objects of a job in the order of their creation, without Secret and pods.

    They are compared with the live ones on every turn of every job, so the last results are kept.

    Args:
        job: owner.
        spec: validated.
        program: its text when it comes from a ConfigMap.
    """
    return _build_objects(job, spec.model_dump_json(), program)


@lru_cache(maxsize=2048)
def _build_objects(job: JobIdentity, spec_json: str, program: str | None) -> tuple[Manifest, ...]:
    spec = StreamJobSpec.model_validate_json(spec_json)
    access = [] if spec.service_account_name is not None else build_access(job)
    return (*access, build_service(job), build_config_map(job, spec, program))


def is_as_desired(live: object, desired: object) -> bool:
    """Return whether ``live`` has everything that ``desired`` says; more may be there.

    Lists must be equal element by element: the lists of our objects belong to us as a whole.
    """
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(
            is_as_desired(live.get(key), value) for key, value in desired.items()
        )
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(is_as_desired(a, b) for a, b in zip(live, desired, strict=True))
        )
    return live == desired


def owner_uids(manifest: Manifest) -> frozenset[str]:
    """Return the UIDs of the owners of a live object."""
    metadata = manifest.get("metadata")
    owners = metadata.get("ownerReferences") if isinstance(metadata, Mapping) else None
    if not isinstance(owners, list):
        return frozenset()
    return frozenset(str(owner["uid"]) for owner in owners if isinstance(owner, Mapping))


def uid_of(manifest: Manifest) -> str:
    """Return the UID of a live object."""
    return _metadata_text(manifest, "uid")


def version_of(manifest: Manifest) -> str:
    """Return the resource version of a live object."""
    return _metadata_text(manifest, "resourceVersion")


def _metadata_text(manifest: Manifest, name: str) -> str:
    metadata = manifest.get("metadata")
    return str(metadata.get(name, "")) if isinstance(metadata, Mapping) else ""
