"""Whose an object is: owner references, labels and metadata of everything a job needs."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.names import (
    API_VERSION,
    APP_NAME,
    LABEL_APP_COMPONENT,
    LABEL_APP_INSTANCE,
    LABEL_APP_MANAGED_BY,
    LABEL_APP_NAME,
    LABEL_JOB,
    LABEL_ROLE,
    MANAGER,
    job_id_of,
)
from headrace_operator.kube.api import Kind, Manifest, ObjectKey


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """The StreamJob that owns an object."""

    name: str
    namespace: str
    uid: str

    @property
    def job_id(self) -> str:
        """The job's id: the same for every driver."""
        return job_id_of(self.uid)

    @property
    def owner_reference(self) -> dict[str, object]:
        """Makes Kubernetes remove the object with the StreamJob, operator or not."""
        return {
            "apiVersion": API_VERSION,
            "kind": "StreamJob",
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def labels(self, role: str | None = None) -> dict[str, str]:
        """Return the labels of an object, or of a pod of ``role``."""
        labels = {
            LABEL_JOB: self.name,
            LABEL_APP_NAME: APP_NAME,
            LABEL_APP_INSTANCE: self.name,
            LABEL_APP_MANAGED_BY: MANAGER,
        }
        if role is not None:
            labels |= {LABEL_ROLE: role, LABEL_APP_COMPONENT: role}
        return labels

    def metadata(self, name: str, role: str | None = None) -> dict[str, object]:
        """Return the metadata of an object that the job owns."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": self.labels(role),
            "ownerReferences": [self.owner_reference],
        }


def head(kind: Kind) -> dict[str, object]:
    """Return ``apiVersion`` and ``kind`` of a manifest."""
    return {"apiVersion": kind.api_version, "kind": kind.kind}


def key_of(manifest: Manifest) -> ObjectKey:
    """Return kind and name of a manifest."""
    metadata = manifest["metadata"]
    if not isinstance(metadata, dict):
        msg = f"a manifest has metadata; kind={manifest.get('kind')}"
        raise TypeError(msg)
    return ObjectKey(Kind.of(manifest), str(metadata["name"]))
