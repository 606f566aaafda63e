"""Parts that driver and executor pods share: environment, volumes, placement."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pydantic import BaseModel

from headrace.api.driver import (
    ENV_POD_IP,
    ENV_POD_NAME,
    ENV_POD_NAMESPACE,
    ENV_TOKEN,
    LOCAL_STATE_DIR,
)
from headrace.api.names import token_secret_name
from headrace.api.v1alpha1 import EnvVar, PodTemplate
from headrace_operator.resources.identity import JobIdentity
from headrace_operator.resources.secrets import TOKEN_KEY

STATE_VOLUME = "headrace-state"


def to_manifest(model: BaseModel) -> dict[str, object]:
    """Return a part of the spec in the form of Kubernetes' API."""
    dumped: dict[str, object] = model.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return dumped


def build_env(job: JobIdentity, *groups: Iterable[EnvVar]) -> list[dict[str, object]]:
    """Return the environment of a container; of equal names the last group's counts.

    The product's own variables come last: a job cannot run with another token than its own.
    """
    variables = {variable.name: to_manifest(variable) for group in groups for variable in group}
    fields = {
        ENV_POD_IP: "status.podIP",
        ENV_POD_NAME: "metadata.name",
        ENV_POD_NAMESPACE: "metadata.namespace",
    }
    for name, path in fields.items():
        variables[name] = {
            "name": name,
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}},
        }
    secret = {"name": token_secret_name(job.name), "key": TOKEN_KEY}
    variables[ENV_TOKEN] = {"name": ENV_TOKEN, "valueFrom": {"secretKeyRef": secret}}
    return list(variables.values())


NODE_LOSS_S: Final = 30
"""How long pods wait for a node that went away; Kubernetes' own default is five minutes."""

_NODE_LOSS_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _tolerations(template: PodTemplate) -> list[dict[str, object]]:
    """The user's tolerations, and short ones for a lost node where he has no opinion."""
    given = {toleration.key for toleration in template.tolerations}
    short: list[dict[str, object]] = [
        {
            "key": taint,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": NODE_LOSS_S,
        }
        for taint in _NODE_LOSS_TAINTS
        if taint not in given
    ]
    return [*(to_manifest(item) for item in template.tolerations), *short]


def build_env_from(template: PodTemplate) -> list[dict[str, object]]:
    """Return the environment from whole ConfigMaps and Secrets."""
    return [to_manifest(source) for source in template.env_from]


def state_volume() -> dict[str, object]:
    """Return the volume for local state: a cache of checkpoints, lost with the pod."""
    return {"name": STATE_VOLUME, "emptyDir": {}}


def state_mount() -> dict[str, object]:
    """Return the mount of `state_volume`."""
    return {"name": STATE_VOLUME, "mountPath": LOCAL_STATE_DIR}


def build_placement(template: PodTemplate) -> dict[str, object]:
    """Return the fields of a pod spec that say where it may run."""
    placement: dict[str, object] = {}
    if template.node_selector:
        placement["nodeSelector"] = dict(template.node_selector)
    placement["tolerations"] = _tolerations(template)
    if template.affinity is not None:
        placement["affinity"] = dict(template.affinity)
    if template.priority_class_name is not None:
        placement["priorityClassName"] = template.priority_class_name
    if template.image_pull_secrets:
        placement["imagePullSecrets"] = [to_manifest(item) for item in template.image_pull_secrets]
    return placement
