"""Names that Kubernetes objects carry: API group, labels, annotations, finalizer, object names.

The only module that spells them (operator, driver, chart and tests import them), so that a selector
can never miss an object because two places disagree about a label. Pure constants and functions.
"""

from __future__ import annotations

from typing import Final

GROUP: Final = "headrace.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "headrace.dev/v1alpha1"
CATEGORY: Final = "headrace"

LABEL_JOB: Final = f"{GROUP}/job"
"""Name of the StreamJob; on every object that exists because of it, executor pods included."""
LABEL_ROLE: Final = f"{GROUP}/role"
"""What the object is to the job: ``driver`` or ``executor``."""
LABEL_CANARY: Final = f"{GROUP}/canary"
"""``"true"`` on a StreamJob makes it a canary: the operator is alive while it reconciles it."""
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
LABEL_APP_COMPONENT: Final = "app.kubernetes.io/component"
LABEL_APP_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

ROLE_DRIVER: Final = "driver"
ROLE_EXECUTOR: Final = "executor"

APP_NAME: Final = "headrace"
MANAGER: Final = "headrace-operator"
"""Value of ``app.kubernetes.io/managed-by`` and field manager of server-side apply."""

ANNOTATION_PAUSED: Final = f"{GROUP}/paused"
"""``"true"`` on a StreamJob freezes its reconciliation; deletion still works."""
ANNOTATION_RESTARTED_AT: Final = f"{GROUP}/restartedAt"
"""Any new value on a StreamJob restarts the job from its last state (OP12)."""
ANNOTATION_CANARY: Final = f"{GROUP}/canary-asked-at"
"""On a StreamJob with `LABEL_CANARY`: written by the operator, which must notice it itself."""
ANNOTATION_SPEC_HASH: Final = f"{GROUP}/spec-hash"
"""On a driver pod: digest of the spec that it runs."""
ANNOTATION_TOKEN_UID: Final = f"{GROUP}/token-uid"
"""On a driver pod: UID of the Secret whose token it started with."""
ANNOTATION_ATTEMPT: Final = f"{GROUP}/attempt"
"""On a driver pod: 1-based number of this driver in the life of the job."""

FINALIZER: Final = f"{GROUP}/teardown"
"""Held while driver and executors are being stopped, never longer than the deletion timeout."""

CONTAINER_DRIVER: Final = "driver"
CONTAINER_EXECUTOR: Final = "spark-kubernetes-executor"
"""Spark's own name for the executor container; a pod template must use it."""

JOB_NAME_LENGTH_MAX: Final = 45
"""A name below takes at most 18 characters more, and a Service's name may have 63."""


def driver_name(job: str) -> str:
    """Return the name of the job's driver pod, its Service, ConfigMap, ServiceAccount and Role.

    One fixed name a job is what makes two drivers impossible: the API server refuses the second.
    """
    return f"{job}-driver"


def token_secret_name(job: str) -> str:
    """Return the name of the Secret that holds the job's bearer token."""
    return f"{job}-token"


def job_selector(job: str) -> dict[str, str]:
    """Return the labels that select every object of the job."""
    return {LABEL_JOB: job}


def role_selector(job: str, role: str) -> dict[str, str]:
    """Return the labels that select the pods of one role of the job."""
    return {LABEL_JOB: job, LABEL_ROLE: role}


def selector_text(labels: dict[str, str]) -> str:
    """Return ``labels`` in the form of ``kubectl -l``."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def job_id_of(uid: str) -> str:
    """Return the job id of the StreamJob with this UID: 32 hexadecimal digits."""
    return uid.replace("-", "").lower()
