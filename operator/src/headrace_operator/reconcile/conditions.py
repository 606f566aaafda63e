"""Conditions of a StreamJob from what is known of it; pure.

``lastTransitionTime`` moves only when ``status`` does. ``Ready`` and ``Stable`` speak of the spec
that runs, so their ``observedGeneration`` is that spec's: ``kubectl wait`` does not take the old
driver's readiness for the new spec's (OP1, OP2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from headrace.api.v1alpha1 import (
    Condition,
    ConditionStatus,
    ConditionType,
    LifecycleState,
    StreamJobStatus,
)
from headrace_operator.observe.facts import PodTrouble
from headrace_operator.reconcile.health import Readiness
from headrace_operator.reconcile.plan import Problem

MESSAGE_CHARS_MAX: Final = 2048
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")

_PROGRESSING: Final = frozenset(
    {
        LifecycleState.CREATED,
        LifecycleState.DEPLOYING,
        LifecycleState.RECOVERING,
        LifecycleState.UPGRADING,
        LifecycleState.SUSPENDING,
        LifecycleState.DELETING,
    }
)


@dataclass(frozen=True, slots=True)
class Health:
    """All that the conditions are made of."""

    lifecycle: LifecycleState
    readiness: Readiness
    is_stable: bool
    problem: Problem | None
    progress: str
    paused: bool
    generation: int
    """Of the spec in the manifest."""
    effective_generation: int
    """Of the spec that runs."""


def derive_conditions(
    before: StreamJobStatus, health: Health, now: datetime
) -> tuple[Condition, ...]:
    """Return all conditions, in a fixed order."""
    ready = health.readiness
    writer = _Writer(before, now)
    return (
        writer.write(
            ConditionType.READY,
            ready.status,
            ready.reason,
            ready.message,
            health.effective_generation,
        ),
        _progressing(writer, health),
        _degraded(writer, health),
        writer.write(
            ConditionType.STABLE,
            _truth(health.is_stable),
            "CheckpointsCompleted" if health.is_stable else "AwaitingCheckpoints",
            "several checkpoints in a row completed" if health.is_stable else "",
            health.effective_generation,
        ),
        _suspended(writer, health),
        writer.write(
            ConditionType.SAVEPOINT_IN_PROGRESS,
            ConditionStatus.FALSE,
            "NoSavepoint",
            "",
            health.generation,
        ),
    )


def sanitize_reason(text: str) -> str:
    """Return ``text`` if Kubernetes accepts it as a reason, else ``JobFailed``."""
    return text if _REASON.fullmatch(text) and len(text) <= 128 else "JobFailed"


def _truth(value: bool) -> ConditionStatus:
    return ConditionStatus.TRUE if value else ConditionStatus.FALSE


def _progressing(writer: _Writer, health: Health) -> Condition:
    if health.paused:
        return writer.write(
            ConditionType.PROGRESSING,
            ConditionStatus.FALSE,
            "Paused",
            "frozen by annotation headrace.dev/paused",
            health.generation,
        )
    is_moving = health.lifecycle in _PROGRESSING
    message = (health.progress or health.readiness.message) if is_moving else ""
    return writer.write(
        ConditionType.PROGRESSING,
        _truth(is_moving),
        health.lifecycle.value,
        message,
        health.generation,
    )


def _degraded(writer: _Writer, health: Health) -> Condition:
    kind, problem = ConditionType.DEGRADED, health.problem
    if problem is None:
        return writer.write(kind, ConditionStatus.FALSE, "AsExpected", "", health.generation)
    reason, message = sanitize_reason(problem.reason), problem.message
    before = writer.before(kind)
    if reason == PodTrouble.IMAGE_PULL_FAILED and before is not None and before.reason == reason:
        # The kubelet alternates between the cause and "back-off"; the first one is kept.
        message = before.message
    return writer.write(kind, ConditionStatus.TRUE, reason, message, health.generation)


def _suspended(writer: _Writer, health: Health) -> Condition:
    is_suspended = health.lifecycle is LifecycleState.SUSPENDED
    return writer.write(
        ConditionType.SUSPENDED,
        _truth(is_suspended),
        "SuspendedByUser" if is_suspended else "NotSuspended",
        "driver and executors are stopped, the state is kept" if is_suspended else "",
        health.generation,
    )


class _Writer:
    def __init__(self, before: StreamJobStatus, now: datetime) -> None:
        self._before = before
        self._now = now

    def before(self, kind: ConditionType) -> Condition | None:
        return self._before.condition(kind)

    def write(
        self,
        kind: ConditionType,
        status: ConditionStatus,
        reason: str,
        message: str,
        generation: int,
    ) -> Condition:
        before = self.before(kind)
        since = (
            before.last_transition_time
            if before is not None and before.status is status
            else self._now.replace(microsecond=0)
        )
        return Condition(
            type=kind.value,
            status=status,
            reason=reason,
            message=message[:MESSAGE_CHARS_MAX],
            observed_generation=generation,
            last_transition_time=since,
        )
