"""The driver pod: one fixed name a job, never restarted in place, replaced by the operator.

``restartPolicy: Never``: a container restarted in place would keep its scratch volumes and its IP
while the operator counts it as the same driver; a replacement is a new pod with a new generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from headrace.api.driver import (
    CONFIG_DIR,
    CONFIG_FILE,
    ENV_COMPLETED_CHECKPOINT,
    SCRATCH_DIR,
    TERMINATION_LOG,
)
from headrace.api.names import (
    ANNOTATION_ATTEMPT,
    ANNOTATION_SPEC_HASH,
    ANNOTATION_TOKEN_UID,
    CONTAINER_DRIVER,
    ROLE_DRIVER,
    driver_name,
)
from headrace.api.v1alpha1 import StreamJobSpec
from headrace.api.v1alpha1.quantities import memory_mib
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.resources.identity import JobIdentity, head
from headrace_operator.resources.network import PORTS
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

SCRATCH_MIB: Final = 64
"""Two offset-log and commit-log entries of a few KiB each live there."""
STARTUP_S: Final = 300
"""A cold JVM and its imports on a node with several times more work than cores."""
PROBE_PERIOD_S: Final = 5
LIVENESS_FAILURES: Final = 12
"""One minute without an answer from the process: it hangs."""

_CONFIG_VOLUME: Final = "headrace-config"
_SCRATCH_VOLUME: Final = "headrace-scratch"


def build_driver_pod(
    job: JobIdentity,
    spec: StreamJobSpec,
    *,
    spec_hash: str,
    attempt: int,
    grace_s: int,
    completed_checkpoint: int | None = None,
) -> Manifest:
    """Return the driver pod.

    Args:
        job: owner.
        spec: validated spec.
        spec_hash: digest of the spec; a pod with another one is replaced.
        attempt: 1-based number of this driver in the life of the job.
        grace_s: seconds that the driver gets to end its epoch when it is stopped.
        completed_checkpoint: the driver must find this checkpoint or a later one (OP14).
    """
    metadata = job.metadata(driver_name(job.name), ROLE_DRIVER)
    metadata["labels"] = {**spec.pod_template.labels, **job.labels(ROLE_DRIVER)}
    metadata["annotations"] = {
        **spec.pod_template.annotations,
        ANNOTATION_SPEC_HASH: spec_hash,
        ANNOTATION_ATTEMPT: str(attempt),
    }
    return {
        **head(Kind.POD),
        "metadata": metadata,
        "spec": {
            **build_placement(spec.pod_template),
            "serviceAccountName": spec.service_account_name or driver_name(job.name),
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": grace_s,
            "enableServiceLinks": False,
            "securityContext": pod_security_context(),
            "containers": [_container(job, spec, completed_checkpoint)],
            "volumes": _volumes(job, spec),
        },
    }


def with_token(pod: Manifest, token_uid: str) -> Manifest:
    """Return the driver pod, marked with the Secret whose token it starts with.

    Args:
        pod: of `build_driver_pod`.
        token_uid: UID of the Secret; a pod that carries another one is replaced.
    """
    metadata = cast("Mapping[str, Mapping[str, str]]", pod["metadata"])
    annotations = {**metadata["annotations"], ANNOTATION_TOKEN_UID: token_uid}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def _container(
    job: JobIdentity, spec: StreamJobSpec, completed_checkpoint: int | None
) -> dict[str, object]:
    env = build_env(job, spec.pod_template.env, spec.driver.env)
    if completed_checkpoint is not None:
        env.append({"name": ENV_COMPLETED_CHECKPOINT, "value": str(completed_checkpoint)})
    container: dict[str, object] = {
        "name": CONTAINER_DRIVER,
        "image": spec.image,
        # Arguments to the image's entrypoint, as for the executors that Spark creates: the init
        # process there hands signals on and reaps what is orphaned.
        "args": ["headrace", "driver", "--config", f"{CONFIG_DIR}/{CONFIG_FILE}"],
        "env": env,
        "ports": [{"name": name, "containerPort": port} for name, port in PORTS.items()],
        "resources": _resources(spec),
        "securityContext": container_security_context(),
        "volumeMounts": _mounts(spec),
        "terminationMessagePath": TERMINATION_LOG,
        # A process that died without a word leaves the end of its log as the cause.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "startupProbe": _probe("/healthz", STARTUP_S // PROBE_PERIOD_S),
        "livenessProbe": _probe("/healthz", LIVENESS_FAILURES),
        "readinessProbe": _probe("/readyz", 1),
    }
    if spec.image_pull_policy is not None:
        container["imagePullPolicy"] = spec.image_pull_policy.value
    if spec.pod_template.env_from:
        container["envFrom"] = build_env_from(spec.pod_template)
    return container


def _probe(path: str, failures: int) -> dict[str, object]:
    return {
        "httpGet": {"path": path, "port": "rest"},
        "periodSeconds": PROBE_PERIOD_S,
        "timeoutSeconds": PROBE_PERIOD_S,
        "failureThreshold": failures,
    }


def _resources(spec: StreamJobSpec) -> dict[str, object]:
    driver = spec.driver
    total_mib = memory_mib(driver.memory) + memory_mib(driver.memory_overhead) + SCRATCH_MIB
    limits = {"memory": f"{total_mib}Mi"}
    if driver.cpu_limit is not None:
        limits["cpu"] = driver.cpu_limit
    return {"requests": {"cpu": driver.cpu, "memory": f"{total_mib}Mi"}, "limits": limits}


def _volumes(job: JobIdentity, spec: StreamJobSpec) -> list[dict[str, object]]:
    volumes: list[dict[str, object]] = [
        {"name": _CONFIG_VOLUME, "configMap": {"name": driver_name(job.name)}},
        state_volume(),
        {
            "name": _SCRATCH_VOLUME,
            # In memory: Spark syncs two small files an epoch, 130 ms on a disk.
            "emptyDir": {"medium": "Memory", "sizeLimit": f"{SCRATCH_MIB}Mi"},
        },
    ]
    volumes += [dict(volume) for volume in spec.pod_template.volumes]
    return volumes


def _mounts(spec: StreamJobSpec) -> list[dict[str, object]]:
    mounts: list[dict[str, object]] = [
        {"name": _CONFIG_VOLUME, "mountPath": CONFIG_DIR, "readOnly": True},
        state_mount(),
        {"name": _SCRATCH_VOLUME, "mountPath": SCRATCH_DIR},
    ]
    mounts += [dict(mount) for mount in spec.pod_template.volume_mounts]
    return mounts
