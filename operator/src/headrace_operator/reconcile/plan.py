"""The result of planning, and the small steps on the driver's record that plans are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headrace.api.names import driver_name
from headrace.api.v1alpha1 import (
    DriverFailure,
    DriverPhase,
    DriverRecord,
    LifecycleState,
    RestartPolicy,
    StreamJobSpec,
)
from headrace_operator.diff.changes import SpecChange
from headrace_operator.diff.digests import SpecDigest
from headrace_operator.kube.api import Kind, ObjectKey
from headrace_operator.observe.facts import Facts, PodFacts
from headrace_operator.reconcile.actions import Action, DeleteObject, Event
from headrace_operator.reconcile.backoff import restart_delay
from headrace_operator.reconcile.program import Program
from headrace_operator.resources.identity import JobIdentity


@dataclass(frozen=True, slots=True)
class Wanted:
    """The validated spec, its digests, and how it differs from what was last acted on."""

    spec: StreamJobSpec
    digest: SpecDigest
    change: SpecChange
    is_new: bool
    """Nothing was ever acted on."""
    program: Program
    """What a ConfigMap says the program is."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong: reason of condition ``Degraded`` and of an event."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do about the driver, and where that leaves the job."""

    lifecycle: LifecycleState
    record: DriverRecord
    progress: str = ""
    """What is being waited for, for people."""
    in_effect: bool = False
    """The wanted spec is the one that runs, or that is suspended."""
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    problem: Problem | None = None
    forgets_checkpoint: bool = False
    """The state to start from was chosen again: what was completed before counts no more."""
    wake_at: datetime | None = None
    """Nothing can happen before this time, but something must then."""

    def with_event(self, *events: Event) -> Plan:
        """Return the plan with events before its own."""
        return replace(self, events=(*events, *self.events))


def identity_of(facts: Facts) -> JobIdentity:
    """Return the owner of everything that belongs to the job."""
    return JobIdentity(facts.job.name, facts.job.namespace, facts.job.uid)


def driver_key(facts: Facts) -> ObjectKey:
    """Return the key of the job's driver pod."""
    return ObjectKey(Kind.POD, driver_name(facts.job.name))


def delete_pod(pod: PodFacts, grace_s: int | None = None) -> DeleteObject:
    """Return the deletion of this very pod."""
    return DeleteObject(ObjectKey(Kind.POD, pod.name), pod.uid, grace_s)


def delete_pods(pods: tuple[PodFacts, ...]) -> tuple[DeleteObject, ...]:
    """Return the deletion of those pods that are not being deleted yet."""
    return tuple(delete_pod(pod) for pod in pods if pod.deletion_deadline is None)


def leftover_executors(facts: Facts) -> tuple[PodFacts, ...]:
    """Return executors of a driver that is not there any more."""
    uid = facts.driver.uid if facts.driver is not None else None
    return tuple(pod for pod in facts.executors if uid not in pod.owner_uids)


def absent(record: DriverRecord) -> DriverRecord:
    """Return the record once the driver is gone."""
    return record.model_copy(update={"phase": DriverPhase.ABSENT, "started_at": None})


def stopping(record: DriverRecord, pod: PodFacts) -> DriverRecord:
    """Return the record with the intent to delete ``pod``."""
    return record.model_copy(update={"phase": DriverPhase.STOPPING, "pod_uid": pod.uid})


def present(record: DriverRecord, pod: PodFacts) -> DriverRecord:
    """Return the record once ``pod`` was seen."""
    return record.model_copy(update={"phase": DriverPhase.PRESENT, "pod_uid": pod.uid})


@dataclass(frozen=True, slots=True)
class Loss:
    """A driver that went away without being asked to."""

    pod_uid: str
    reason: str
    message: str
    at: datetime


def after_loss(
    facts: Facts, record: DriverRecord, policy: RestartPolicy, loss: Loss
) -> DriverRecord:
    """Return the record with one more failure; the same pod never counts twice.

    Counting is part of the intent: it is written before the pod is deleted, so that an operator
    that is killed in between does not count it again.
    """
    if record.last_failure is not None and record.last_failure.pod_uid == loss.pod_uid:
        return record.model_copy(update={"phase": DriverPhase.STOPPING})
    failures = record.failures + 1
    delay: timedelta = restart_delay(policy, failures, facts.job.uid)
    return record.model_copy(
        update={
            "phase": DriverPhase.STOPPING,
            "pod_uid": loss.pod_uid,
            "failures": failures,
            "retry_at": facts.now + delay if delay else None,
            "last_failure": DriverFailure(
                pod_uid=loss.pod_uid, reason=loss.reason, message=loss.message, at=facts.now
            ),
            "restarts_before": facts.job.status.restarts + 1,
            "recovering_since": record.recovering_since or loss.at,
            "recovering_from": record.recovering_from or loss.reason,
        }
    )
