"""A cluster that the user has: checked, used, and left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from headrace_devcluster.errors import ClusterFailedError, MissingToolError
from headrace_devcluster.kubectl import Kubectl
from headrace_devcluster.settings import Settings

REQUIRED_RIGHTS: tuple[tuple[str, str], ...] = (
    ("create", "namespaces"),
    ("create", "customresourcedefinitions.apiextensions.k8s.io"),
    ("create", "clusterroles.rbac.authorization.k8s.io"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
    ("create", "deployments.apps"),
    ("create", "pods"),
    ("delete", "pods"),
    ("create", "services"),
    ("create", "configmaps"),
    ("create", "secrets"),
)
"""What the demo and the end-to-end tests do: verb and resource."""


def find_kubectl(settings: Settings) -> tuple[str, ...]:
    """Finds kubectl on PATH, else takes the one built for the embedded cluster.

    Raises:
        MissingToolError: There is neither.
    """
    found = shutil.which("kubectl", path=settings.environment.get("PATH"))
    if found is not None:
        return (found,)
    built = sorted((settings.cache / "bin").glob("kube-*/kube"))
    if built:
        return (str(built[-1]), "kubectl")
    raise MissingToolError(
        "kubectl is needed to use another cluster: install it and have it on PATH "
        f"PATH={settings.environment.get('PATH', '')}"
    )


def check_external_cluster(kubectl: Kubectl) -> str:
    """Checks that a cluster can be reached and used.

    Returns:
        The Kubernetes version of its API server.

    Raises:
        ClusterFailedError: It does not answer, or rights are missing; the message lists them.
    """
    answer = kubectl.attempt("version", "-o", "json", "--request-timeout=10s")
    if answer.returncode != 0:
        raise ClusterFailedError(
            "the cluster of KUBECONFIG does not answer: check it with 'kubectl version' "
            f"kubeconfig={kubectl.kubeconfig} output={answer.stderr.strip()!r}"
        )
    missing = [
        f"{verb} {resource}"
        for verb, resource in REQUIRED_RIGHTS
        if not _may(kubectl, verb, resource)
    ]
    if missing:
        raise ClusterFailedError(
            "rights are missing in the cluster of KUBECONFIG: use an administrator's kubeconfig "
            f"kubeconfig={kubectl.kubeconfig} missing={', '.join(missing)}"
        )
    return parse_server_version(answer.stdout)


def _may(kubectl: Kubectl, verb: str, resource: str) -> bool:
    done = kubectl.attempt("auth", "can-i", verb, resource, "--all-namespaces")
    return done.stdout.strip() == "yes"


class _Info(msgspec.Struct, frozen=True, rename="camel"):
    git_version: str = "unknown"


class _Version(msgspec.Struct, frozen=True, rename="camel"):
    server_version: _Info = _Info()


def parse_server_version(version_json: str) -> str:
    """Reads the server's version from ``kubectl version -o json``."""
    return msgspec.json.decode(version_json, type=_Version).server_version.git_version


def use_external_cluster(kubeconfig: Path, settings: Settings) -> Kubectl:
    """Binds kubectl to a cluster that the user has."""
    return Kubectl(find_kubectl(settings), kubeconfig)
