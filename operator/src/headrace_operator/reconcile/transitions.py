"""Events that follow from the difference between two statuses; pure.

An event is a transition, so it is derived from one: nothing is reported twice while it lasts, and
the condition and the event can never tell different stories.
"""

from __future__ import annotations

from headrace.api.v1alpha1 import (
    Condition,
    ConditionStatus,
    ConditionType,
    LifecycleState,
    StreamJobStatus,
)
from headrace_operator.reconcile.actions import Event, EventReason, normal, warning


def derive_events(before: StreamJobStatus, after: StreamJobStatus) -> tuple[Event, ...]:
    """Return the events of going from one status to the next."""
    return (
        *_lifecycle_events(before, after),
        *_ready_events(before, after),
        *_degraded_events(before, after),
        *_warning_events(before, after),
    )


def _lifecycle_events(before: StreamJobStatus, after: StreamJobStatus) -> tuple[Event, ...]:
    if before.lifecycle_state is after.lifecycle_state:
        return ()
    outcome = after.driver.outcome
    match after.lifecycle_state:
        case LifecycleState.DEPLOYING:
            return (normal(EventReason.SUBMITTED, f"deploying the job; job_id={after.job_id}"),)
        case LifecycleState.SUSPENDED:
            where = after.last_checkpoint.path if after.last_checkpoint is not None else "none"
            return (normal(EventReason.SUSPENDED, f"the job is suspended; checkpoint={where}"),)
        case LifecycleState.FINISHED:
            return (normal(EventReason.FINISHED, "the end of all bounded sources was reached"),)
        case LifecycleState.FAILED:
            cause = f"{outcome.reason}: {outcome.message}" if outcome is not None else "unknown"
            return (warning(EventReason.FAILED, f"the job failed for good: {cause}"),)
        case _:
            return ()


def _ready_events(before: StreamJobStatus, after: StreamJobStatus) -> tuple[Event, ...]:
    if _is_true(before.condition(ConditionType.READY)) or not _is_true(
        after.condition(ConditionType.READY)
    ):
        return ()
    checkpoint = after.last_checkpoint.id if after.last_checkpoint is not None else "none"
    if after.last_recovery is not None and after.last_recovery != before.last_recovery:
        seconds, cause = after.last_recovery.seconds, after.last_recovery.cause
        text = f"the job is back after {seconds:.1f} s; cause={cause} checkpoint={checkpoint}"
        return (normal(EventReason.RECOVERED, text),)
    return (normal(EventReason.READY, f"the job is ready; checkpoint={checkpoint}"),)


def _degraded_events(before: StreamJobStatus, after: StreamJobStatus) -> tuple[Event, ...]:
    old, new = before.condition(ConditionType.DEGRADED), after.condition(ConditionType.DEGRADED)
    if new is None or not _is_true(new):
        return ()
    if old is not None and (old.status, old.reason, old.message) == (
        new.status,
        new.reason,
        new.message,
    ):
        return ()
    return (warning(new.reason, new.message),)


def _warning_events(before: StreamJobStatus, after: StreamJobStatus) -> tuple[Event, ...]:
    fresh = [text for text in after.warnings if text not in before.warnings]
    return tuple(warning(EventReason.WARNING, text) for text in fresh)


def _is_true(condition: Condition | None) -> bool:
    return condition is not None and condition.status is ConditionStatus.TRUE
