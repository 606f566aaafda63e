"""The operator's own objects: namespace, account, roles, Deployment, metrics Service; pure.

Rights follow from what it does. It may create and read single Secrets but not list them, and it
holds the rights that it grants to drivers, because Kubernetes lets nobody grant more than he has.
"""

from __future__ import annotations

from typing import Final

from headrace.api.names import (
    APP_NAME,
    GROUP,
    LABEL_APP_COMPONENT,
    LABEL_APP_NAME,
    MANAGER,
)
from headrace_operator.kube.api import Manifest
from headrace_operator.lead.lease import LEASE_NAME
from headrace_operator.resources.access import DRIVER_RULES
from headrace_operator.resources.security import (
    container_security_context,
    pod_security_context,
)
from headrace_operator.settings import Settings

DEFAULT_IMAGE: Final = "registry.local/headrace-operator:dev"
DEFAULT_NAMESPACE: Final = "headrace-system"

_LABELS: Final = {LABEL_APP_NAME: APP_NAME, LABEL_APP_COMPONENT: "operator"}
_RBAC: Final = "rbac.authorization.k8s.io"
_COORDINATION: Final = "coordination.k8s.io"

JOB_RULES: Final[list[dict[str, list[str]]]] = [
    {"apiGroups": [GROUP], "resources": ["streamjobs"], "verbs": ["get", "list", "patch", "watch"]},
    {"apiGroups": [GROUP], "resources": ["streamjobs/status"], "verbs": ["get", "patch", "update"]},
    {"apiGroups": [GROUP], "resources": ["streamjobs/finalizers"], "verbs": ["update"]},
    *DRIVER_RULES,
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "delete", "get"]},
    {
        "apiGroups": [""],
        "resources": ["serviceaccounts"],
        "verbs": ["create", "delete", "get", "list", "patch", "watch"],
    },
    {
        "apiGroups": [_RBAC],
        "resources": ["rolebindings", "roles"],
        "verbs": ["create", "delete", "get", "list", "patch", "watch"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "get", "list", "patch"]},
]
"""What reconciling jobs takes, in each namespace that is served."""

ELECTION_RULES: Final[list[dict[str, list[str]]]] = [
    # A name cannot restrict a creation.
    {"apiGroups": [_COORDINATION], "resources": ["leases"], "verbs": ["create"]},
    {
        "apiGroups": [_COORDINATION],
        "resources": ["leases"],
        "resourceNames": [LEASE_NAME],
        "verbs": ["get", "update"],
    },
]
"""What standing for election takes, in the operator's own namespace."""

CLUSTER_RULES: Final[list[dict[str, list[str]]]] = [
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
]
"""What noticing new namespaces and definitions takes; only when the whole cluster is served."""


def build_install(
    *,
    image: str = DEFAULT_IMAGE,
    install_namespace: str = DEFAULT_NAMESPACE,
    namespaces: tuple[str, ...] = (),
    pull_policy: str = "IfNotPresent",
    replicas: int = 1,
) -> tuple[Manifest, ...]:
    """Return everything that installs the operator, without the CRDs.

    Args:
        image: of the operator.
        install_namespace: where it lives.
        namespaces: namespaces to serve by Roles alone; none = the whole cluster.
        pull_policy: of the image.
        replicas: operators; with more than one, one is elected and the others stand by.
    """
    elects = replicas > 1
    return (
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": install_namespace, "labels": _LABELS},
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _metadata(install_namespace),
        },
        *_access(install_namespace, namespaces),
        *(_election(install_namespace) if elects else ()),
        _deployment(image, install_namespace, namespaces, pull_policy, replicas),
        _metrics_service(install_namespace),
    )


def _metadata(namespace: str | None) -> dict[str, object]:
    metadata: dict[str, object] = {"name": MANAGER, "labels": dict(_LABELS)}
    if namespace is not None:
        metadata["namespace"] = namespace
    return metadata


def _access(install_namespace: str, namespaces: tuple[str, ...]) -> list[Manifest]:
    if not namespaces:
        rules = [*JOB_RULES, *CLUSTER_RULES]
        return _role_and_binding("ClusterRole", None, rules, install_namespace)
    return [
        manifest
        for namespace in namespaces
        for manifest in _role_and_binding("Role", namespace, JOB_RULES, install_namespace)
    ]


def _election(install_namespace: str) -> list[Manifest]:
    """Return the right to stand for election: one Lease, by its name."""
    return _role_and_binding(
        "Role", install_namespace, ELECTION_RULES, install_namespace, name=f"{MANAGER}-election"
    )


def _role_and_binding(
    kind: str,
    namespace: str | None,
    rules: list[dict[str, list[str]]],
    install_namespace: str,
    *,
    name: str = MANAGER,
) -> list[Manifest]:
    metadata = {**_metadata(namespace), "name": name}
    subject = {"kind": "ServiceAccount", "name": MANAGER, "namespace": install_namespace}
    return [
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": kind,
            "metadata": metadata,
            "rules": rules,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": f"{kind}Binding",
            "metadata": metadata,
            "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
            "subjects": [subject],
        },
    ]


def _deployment(
    image: str,
    install_namespace: str,
    namespaces: tuple[str, ...],
    pull_policy: str,
    replicas: int,
) -> Manifest:
    options = [f"--namespace={namespace}" for namespace in namespaces] or ["--all-namespaces"]
    if replicas > 1:
        options.append(f"--election-namespace={install_namespace}")
    settings = Settings()
    container: dict[str, object] = {
        "name": "operator",
        "image": image,
        "imagePullPolicy": pull_policy,
        "args": ["headrace", "operator", "run", *options],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "ports": [
            {"name": "health", "containerPort": settings.health_port},
            {"name": "metrics", "containerPort": settings.metrics_port},
        ],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "failureThreshold": 6,
        },
        "readinessProbe": {
            "httpGet": {"path": "/healthz", "port": "health"},
            "periodSeconds": 5,
            "timeoutSeconds": 5,
        },
        "resources": {
            "requests": {"cpu": "50m", "memory": "192Mi"},
            "limits": {"memory": "512Mi"},
        },
        "securityContext": {**container_security_context(), "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - a volume
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(install_namespace),
        "spec": {
            "replicas": replicas,
            # Two at once do no harm; without an election they would do the same work twice.
            "strategy": {"type": "RollingUpdate" if replicas > 1 else "Recreate"},
            "selector": {"matchLabels": dict(_LABELS)},
            "template": {
                "metadata": {"labels": dict(_LABELS)},
                "spec": {
                    "serviceAccountName": MANAGER,
                    # One node takes down one of them, where there is another node.
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": dict(_LABELS)},
                        }
                    ],
                    "enableServiceLinks": False,
                    "securityContext": pod_security_context(),
                    "containers": [container],
                    "volumes": [{"name": "tmp", "emptyDir": {}}],
                },
            },
        },
    }


def _metrics_service(install_namespace: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(install_namespace),
        "spec": {
            "selector": dict(_LABELS),
            "ports": [
                {"name": "metrics", "port": Settings().metrics_port, "targetPort": "metrics"}
            ],
        },
    }
