"""The way out: driver, executors, the rest, the finalizer; never later than a deadline.

Pure, and independent of spec and status: a job that was never valid can be deleted (OP51). Owner
references would do the same in the end; being explicit makes ``kubectl delete`` return only when
nothing is left (OP53) and keeps the driver from replacing executors that are being removed.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from headrace.api.names import token_secret_name
from headrace.api.v1alpha1 import DriverPhase, LifecycleState
from headrace_operator.kube.api import Kind, ObjectKey
from headrace_operator.observe.facts import Facts, PodFacts
from headrace_operator.reconcile.actions import (
    Action,
    DeleteObject,
    EventReason,
    RemoveFinalizer,
    warning,
)
from headrace_operator.reconcile.plan import Plan, delete_pod
from headrace_operator.resources.desired import owner_uids, uid_of
from headrace_operator.settings import Settings


def plan_deletion(facts: Facts, settings: Settings) -> Plan:
    """Decide the next step of removing the job."""
    record = facts.job.status.driver.model_copy(update={"phase": DriverPhase.STOPPING})
    if not facts.job.has_finalizer:
        return Plan(LifecycleState.DELETING, record, "waiting for other finalizers")
    requested_at = facts.job.deletion_requested_at or facts.now
    deadline = requested_at + timedelta(seconds=settings.deletion_timeout_s)
    pods = _own_pods(facts)
    if facts.now >= deadline:
        return Plan(
            LifecycleState.DELETING,
            record,
            "removing what is left by force",
            actions=(*_by_force(facts, pods), RemoveFinalizer()),
        ).with_event(
            warning(
                EventReason.DELETION_OVERDUE,
                "the job did not stop in time, its pods are killed; "
                f"pods={len(pods)} timeout={settings.deletion_timeout_s:.0f} s",
            )
        )
    stages: tuple[tuple[str, bool, tuple[Action, ...]], ...] = (
        ("stopping the driver", _has_driver(facts), _stop_driver(facts, settings)),
        ("stopping the executors", bool(pods), _stop(pods)),
        ("removing the job's objects", bool(_rest(facts)), _rest(facts)),
    )
    for progress, is_left, actions in stages:
        if is_left:
            return Plan(
                LifecycleState.DELETING, record, progress, actions=actions, wake_at=deadline
            )
    return Plan(LifecycleState.DELETING, record, "removed", actions=(RemoveFinalizer(),))


def _by_force(facts: Facts, pods: tuple[PodFacts, ...]) -> tuple[Action, ...]:
    """Nothing that cannot be deleted holds the finalizer any longer: owner references remain."""
    deletions = (*(delete_pod(pod, 0) for pod in pods), *_rest(facts))
    return tuple(replace(deletion, is_optional=True) for deletion in deletions)


def _has_driver(facts: Facts) -> bool:
    return facts.driver is not None and facts.is_ours(facts.driver)


def _own_pods(facts: Facts) -> tuple[PodFacts, ...]:
    driver = (facts.driver,) if facts.driver is not None and facts.is_ours(facts.driver) else ()
    return (*driver, *facts.executors)


def _stop_driver(facts: Facts, settings: Settings) -> tuple[Action, ...]:
    if facts.driver is None or facts.driver.deletion_deadline is not None:
        return ()
    return (delete_pod(facts.driver, settings.driver_grace_s),)


def _stop(pods: tuple[PodFacts, ...]) -> tuple[Action, ...]:
    return tuple(delete_pod(pod) for pod in pods if pod.deletion_deadline is None)


def _rest(facts: Facts) -> tuple[DeleteObject, ...]:
    owned = [
        DeleteObject(key, uid_of(live))
        for key, live in facts.objects.items()
        if facts.job.uid in owner_uids(live)
    ]
    if facts.token_uid is not None:
        secret = ObjectKey(Kind.SECRET, token_secret_name(facts.job.name))
        owned.append(DeleteObject(secret, facts.token_uid))
    return tuple(owned)
