"""The attacks: which pod is killed, and when the job has recovered from it. Pure, but for `strike`.

Pods are deleted with no grace: the kubelet ends their processes with SIGKILL and nobody is asked.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from headrace.api.driver import JobState
from headrace_demo.errors import DemoFailedError
from headrace_demo.installation import OPERATOR_NAMESPACE
from headrace_demo.observation import Observed, Observer


class Target(enum.StrEnum):
    """What is killed."""

    EXECUTOR = "executor"
    DRIVER = "driver"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill, and what was the case just before it."""

    target: Target
    pod: str
    uid: str
    at_s: float
    generation: int
    driver_uid: str
    checkpoint: int


def plan_kill(target: Target, seen: Observed) -> Kill:
    """Chooses the pod.

    Raises:
        DemoFailedError: There is none to kill.
    """
    candidates = {
        Target.EXECUTOR: [pod for pod in seen.executors if pod.ready],
        Target.DRIVER: [seen.driver] if seen.driver is not None else [],
        Target.OPERATOR: [pod for pod in seen.operators if not pod.terminating],
    }[target]
    if not candidates or seen.job is None or seen.driver is None:
        raise DemoFailedError(f"there is no pod to kill: look at the pods target={target}")
    return Kill(
        target=target,
        pod=candidates[0].name,
        uid=candidates[0].uid,
        at_s=seen.at_s,
        generation=seen.job.generation,
        driver_uid=seen.driver.uid,
        checkpoint=seen.last_checkpoint,
    )


def strike(kill: Kill, observer: Observer) -> None:
    """Kills the pod."""
    path = (
        f"/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{kill.pod}"
        if kill.target is Target.OPERATOR
        else observer.pod_path(kill.pod)
    )
    observer.api.delete(path, grace_s=0)


def has_recovered(kill: Kill, seen: Observed) -> bool:
    """Whether the job is back.

    After the loss of an executor or the driver: a newer generation has finished an epoch. After
    the loss of the operator: another one is ready and has written a newer checkpoint into the
    status, which takes a working watch, poll and write.

    Raises:
        DemoFailedError: The loss of the operator has touched the job.
    """
    if kill.target is Target.OPERATOR:
        _require_untouched(kill, seen)
        replaced = any(pod.uid != kill.uid and pod.ready for pod in seen.operators)
        known = seen.status.last_checkpoint if seen.status is not None else None
        return replaced and known is not None and known.id > kill.checkpoint
    job = seen.job
    return (
        job is not None
        and job.generation > kill.generation
        and job.state is JobState.RUNNING
        and job.epochs_committed > 0
    )


def _require_untouched(kill: Kill, seen: Observed) -> None:
    """A job does not need its operator: same driver, same generation."""
    if seen.driver is None or seen.driver.uid != kill.driver_uid:
        raise DemoFailedError("the driver was replaced because the operator restarted")
    if seen.job is not None and seen.job.generation != kill.generation:
        raise DemoFailedError(
            "the job failed over because the operator restarted "
            f"generation={seen.job.generation} before={kill.generation}"
        )
