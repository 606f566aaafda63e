"""The life of the driver pod: when it is started, replaced, stopped, or left alone; pure.

One function for each situation. What the pod itself shows (its digest, its end, its deletion) comes
first; the record in status only adds what cannot be seen any more: whether a driver that is not
there was lost or stopped, how often it failed, and whether the job ended for good.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from headrace.api.v1alpha1 import (
    DesiredState,
    DriverPhase,
    DriverRecord,
    Effect,
    LifecycleState,
)
from headrace_operator.observe.facts import Facts, PodFacts
from headrace_operator.reconcile.actions import (
    Action,
    CreateDriver,
    EventReason,
    normal,
    warning,
)
from headrace_operator.reconcile.endings import (
    find_hang,
    plan_ended,
    plan_replacement,
    rest_ended,
)
from headrace_operator.reconcile.objects import plan_objects
from headrace_operator.reconcile.plan import (
    Loss,
    Plan,
    Problem,
    Wanted,
    absent,
    after_loss,
    delete_pod,
    delete_pods,
    identity_of,
    leftover_executors,
    present,
    stopping,
)
from headrace_operator.resources.driver_pod import build_driver_pod
from headrace_operator.settings import Settings

DRIVER_LOST: Final = "DriverLost"
DRIVER_DELETED: Final = "DriverDeleted"
JOB_HUNG: Final = "JobHung"


def plan_driver(facts: Facts, wanted: Wanted, settings: Settings) -> Plan:
    """Decide what happens to the driver of a job that is neither deleted nor paused."""
    status = facts.job.status
    record, lifecycle = status.driver, status.lifecycle_state
    if wanted.change.needs_restart and not wanted.is_new:
        record, lifecycle = _for_changed_spec(record, lifecycle, wanted.change.effect)
    driver = facts.driver
    if driver is not None and not facts.is_ours(driver):
        return _foreign_driver(record, lifecycle, driver)
    if driver is not None and driver.deletion_deadline is not None:
        return _terminating(facts, wanted, settings, record, lifecycle, driver)
    if wanted.spec.state is DesiredState.SUSPENDED:
        return _suspended(facts, record, settings)
    if driver is None:
        return _without_driver(facts, wanted, settings, record, lifecycle)
    return _with_driver(facts, wanted, settings, record, lifecycle, driver)


def _for_changed_spec(
    record: DriverRecord, lifecycle: LifecycleState, effect: Effect
) -> tuple[DriverRecord, LifecycleState]:
    """A changed spec is a new chance: how the old one ended or failed counts no more (OP8)."""
    cleared = record.model_copy(
        update={
            "outcome": None,
            "failures": 0,
            "retry_at": None,
            "recovering_since": None,
            "recovering_from": None,
            "chooses_state": record.chooses_state or effect is Effect.REDEPLOY,
        }
    )
    return cleared, LifecycleState.UPGRADING if record.attempt else lifecycle


def _foreign_driver(record: DriverRecord, lifecycle: LifecycleState, driver: PodFacts) -> Plan:
    problem = Problem(
        "NameConflict",
        "a pod of the driver's name exists and does not belong to the job, remove it or wait "
        f"until it is gone; name={driver.name}",
    )
    return Plan(lifecycle, record, "waiting for the driver's name", problem=problem)


def _terminating(
    facts: Facts,
    wanted: Wanted,
    settings: Settings,
    record: DriverRecord,
    lifecycle: LifecycleState,
    driver: PodFacts,
) -> Plan:
    """Wait until the name is free; a node that died never frees it by itself."""
    if wanted.spec.state is DesiredState.SUSPENDED:
        record, lifecycle = stopping(record, driver), LifecycleState.SUSPENDING
    elif record.phase is DriverPhase.PRESENT and not wanted.change.needs_restart:
        message = "the driver pod was deleted by somebody else"
        loss = Loss(driver.uid, DRIVER_DELETED, message, facts.now)
        record = after_loss(facts, record, wanted.spec.restart_policy, loss)
        lifecycle = LifecycleState.RECOVERING
    else:
        record = stopping(record, driver)
    plan = Plan(lifecycle, record, "waiting for the driver pod to stop")
    deadline = driver.deletion_deadline
    if deadline is None:
        return plan
    overdue_at = deadline + timedelta(seconds=settings.stop_overdue_s)
    if facts.now < overdue_at:
        return replace(plan, wake_at=overdue_at)
    event = warning(
        EventReason.DRIVER_FORCE_DELETED,
        "the driver pod did not stop and is removed by force, checkpoint storage fences it off; "
        f"pod={driver.name} node={driver.node}",
    )
    return replace(plan, actions=(delete_pod(driver, 0),)).with_event(event)


def _suspended(facts: Facts, record: DriverRecord, settings: Settings) -> Plan:
    """Driver first, so that it starts no more executors; then those that are left."""
    driver = facts.driver
    if driver is not None:
        return Plan(
            LifecycleState.SUSPENDING,
            stopping(record, driver),
            "stopping the driver",
            actions=(delete_pod(driver, settings.driver_grace_s),),
        )
    if facts.executors:
        return Plan(
            LifecycleState.SUSPENDING,
            absent(record),
            "waiting for the executors to stop",
            actions=delete_pods(facts.executors),
        )
    calm = absent(record).model_copy(
        update={"recovering_since": None, "recovering_from": None, "failures": 0, "retry_at": None}
    )
    return Plan(LifecycleState.SUSPENDED, calm, in_effect=True)


def _without_driver(
    facts: Facts,
    wanted: Wanted,
    settings: Settings,
    record: DriverRecord,
    lifecycle: LifecycleState,
) -> Plan:
    if record.outcome is not None and record.outcome.digest == wanted.digest.total:
        return rest_ended(facts, absent(record), record.outcome)
    if record.phase is DriverPhase.PRESENT and not wanted.change.needs_restart:
        loss = Loss(record.pod_uid or "", DRIVER_LOST, "the driver pod is gone", facts.now)
        record = after_loss(facts, record, wanted.spec.restart_policy, loss)
        lifecycle = LifecycleState.RECOVERING
    if record.phase is not DriverPhase.STARTING:
        record = absent(record)
    leftovers = leftover_executors(facts)
    if leftovers and lifecycle is LifecycleState.UPGRADING:
        return Plan(
            lifecycle,
            record,
            "waiting for the old executors to stop",
            actions=delete_pods(leftovers),
        )
    if record.retry_at is not None and facts.now < record.retry_at:
        progress = (
            f"the next driver starts at {record.retry_at:%H:%M:%S}; failures={record.failures}"
        )
        cleanup = delete_pods(leftovers)
        return Plan(lifecycle, record, progress, actions=cleanup, wake_at=record.retry_at)
    return _start(facts, wanted, settings, record, lifecycle)


def _start(
    facts: Facts,
    wanted: Wanted,
    settings: Settings,
    record: DriverRecord,
    lifecycle: LifecycleState,
) -> Plan:
    if not lifecycle.is_transition or lifecycle is LifecycleState.SUSPENDING:
        lifecycle = LifecycleState.UPGRADING if record.attempt else LifecycleState.DEPLOYING
    if lifecycle is LifecycleState.CREATED:
        lifecycle = LifecycleState.DEPLOYING
    objects = plan_objects(facts, wanted, first_time=True)
    if objects.problem is not None:
        return Plan(lifecycle, record, "waiting for a name", problem=objects.problem)
    forgets = record.chooses_state
    record = record.model_copy(update={"chooses_state": False})
    if record.phase is not DriverPhase.STARTING:
        record = record.model_copy(
            update={
                "phase": DriverPhase.STARTING,
                "attempt": record.attempt + 1,
                "started_at": facts.now,
                "pod_uid": None,
                "outcome": None,
                "restarts_before": max(record.restarts_before, facts.job.status.restarts),
            }
        )
    checkpoint = facts.job.status.last_checkpoint
    manifest = build_driver_pod(
        identity_of(facts),
        wanted.spec,
        spec_hash=wanted.digest.total,
        attempt=record.attempt,
        grace_s=settings.driver_grace_s,
        completed_checkpoint=None if checkpoint is None or forgets else checkpoint.id,
    )
    cleanup = delete_pods(leftover_executors(facts))
    actions: tuple[Action, ...] = (*cleanup, *objects.actions, CreateDriver(manifest))
    progress = "starting the driver"
    return Plan(lifecycle, record, progress, actions=actions, forgets_checkpoint=forgets)


def _with_driver(
    facts: Facts,
    wanted: Wanted,
    settings: Settings,
    record: DriverRecord,
    lifecycle: LifecycleState,
    driver: PodFacts,
) -> Plan:
    is_news = record.phase is DriverPhase.STARTING and record.pod_uid != driver.uid
    stale = _staleness(facts, wanted, driver)
    if stale is not None:
        return Plan(
            LifecycleState.UPGRADING,
            stopping(record, driver),
            "stopping the driver of the earlier spec",
            actions=(delete_pod(driver, settings.driver_grace_s),),
        ).with_event(normal(EventReason.DRIVER_STOPPED, f"{stale}; pod={driver.name}"))
    if driver.has_ended:
        return plan_ended(facts, wanted, record, driver)
    hung = find_hang(facts, wanted)
    if hung is not None:
        hang_loss = Loss(driver.uid, JOB_HUNG, hung, facts.now)
        return plan_replacement(facts, wanted, record, driver, hang_loss, settings.driver_grace_s)
    plan = _running(facts, wanted, present(record, driver), lifecycle)
    if is_news:
        created = f"driver created; pod={driver.name} attempt={record.attempt}"
        plan = plan.with_event(normal(EventReason.DRIVER_CREATED, created))
    return plan


def _staleness(facts: Facts, wanted: Wanted, driver: PodFacts) -> str | None:
    """Why a driver cannot go on, None when it can."""
    if driver.spec_hash != wanted.digest.total:
        return "stopping the driver: the spec changed"
    if facts.token_uid is not None and driver.token_uid != facts.token_uid:
        return "stopping the driver: the token was rotated"
    return None


def _running(facts: Facts, wanted: Wanted, record: DriverRecord, lifecycle: LifecycleState) -> Plan:
    """Leave the driver alone and keep what is around it as it should be."""
    objects = plan_objects(facts, wanted, first_time=False)
    actions = (*objects.actions, *delete_pods(leftover_executors(facts)))
    return Plan(
        lifecycle,
        record,
        in_effect=True,
        actions=actions,
        events=objects.events,
        problem=objects.problem,
    )
