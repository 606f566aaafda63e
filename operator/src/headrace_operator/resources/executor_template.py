"""Pod template of the executors: Spark creates the pods, this says what they have in common.

Spark adds names, resources, its own environment and local directories. Executors run user code, so
they get no token of the Kubernetes API.
"""

from __future__ import annotations

from headrace.api.names import CONTAINER_EXECUTOR, ROLE_EXECUTOR
from headrace.api.v1alpha1 import StreamJobSpec
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.resources.identity import JobIdentity, head
from headrace_operator.resources.pod_parts import (
    build_env,
    build_env_from,
    build_placement,
    state_mount,
    state_volume,
)
from headrace_operator.resources.security import (
    container_security_context,
    pod_security_context,
)


def build_executor_template(job: JobIdentity, spec: StreamJobSpec) -> Manifest:
    """Return the template for ``spark.kubernetes.executor.podTemplateFile``."""
    template = spec.pod_template
    container: dict[str, object] = {
        "name": CONTAINER_EXECUTOR,
        "env": build_env(job, template.env, spec.executor.env),
        "securityContext": container_security_context(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [state_mount(), *(dict(mount) for mount in template.volume_mounts)],
    }
    if template.env_from:
        container["envFrom"] = build_env_from(template)
    return {
        **head(Kind.POD),
        "metadata": {
            "labels": {**template.labels, **job.labels(ROLE_EXECUTOR)},
            "annotations": dict(template.annotations),
        },
        "spec": {
            **build_placement(template),
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": pod_security_context(),
            "containers": [container],
            "volumes": [state_volume(), *(dict(volume) for volume in template.volumes)],
        },
    }
