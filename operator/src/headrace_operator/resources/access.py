"""ServiceAccount, Role and RoleBinding of the driver: what Spark's Kubernetes backend needs."""

from __future__ import annotations

from typing import Final

from headrace.api.names import driver_name
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.resources.identity import JobIdentity, head

DRIVER_RULES: Final[list[dict[str, list[str]]]] = [
    {
        "apiGroups": [""],
        "resources": ["configmaps", "persistentvolumeclaims", "pods", "services"],
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "watch"],
    }
]
"""Executors are pods with a ConfigMap each, and a claim each where volumes ask for one."""


def build_access(job: JobIdentity) -> list[Manifest]:
    """Return account, role and binding for the driver, in the order of their creation."""
    name = driver_name(job.name)
    account: Manifest = {**head(Kind.SERVICE_ACCOUNT), "metadata": job.metadata(name)}
    role: Manifest = {**head(Kind.ROLE), "metadata": job.metadata(name), "rules": DRIVER_RULES}
    binding: Manifest = {
        **head(Kind.ROLE_BINDING),
        "metadata": job.metadata(name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": job.namespace}],
    }
    return [account, role, binding]
