"""The decision about one job: (spec, observed) -> (status, actions, events); pure.

Status is the intent: it is written before the actions are done, on the version of the object that
the decision was made on. Deciding again on the same facts gives the same decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from headrace.api.names import ROLE_EXECUTOR, role_selector, selector_text
from headrace.api.v1alpha1 import (
    CheckpointStatus,
    DesiredState,
    DriverRecord,
    LifecycleState,
    ReconciledSpec,
    RecoveryStatus,
    RestartPolicy,
    StreamJobStatus,
)
from headrace_operator.diff.changes import diff_specs
from headrace_operator.diff.digests import digest_spec
from headrace_operator.observe.facts import DriverAnswer, Facts, ProgramFacts
from headrace_operator.reconcile.actions import (
    Action,
    AddFinalizer,
    Event,
    EventReason,
    normal,
)
from headrace_operator.reconcile.conditions import Health, derive_conditions
from headrace_operator.reconcile.deletion import plan_deletion
from headrace_operator.reconcile.drivers import plan_driver
from headrace_operator.reconcile.errors import derive_last_error
from headrace_operator.reconcile.health import (
    Readiness,
    derive_problem,
    derive_readiness,
    is_stable,
    last_answer,
    ready_since,
)
from headrace_operator.reconcile.plan import Plan, Problem, Wanted
from headrace_operator.reconcile.program import PROGRAM_MISSING, Program, resolve_program
from headrace_operator.reconcile.transitions import derive_events
from headrace_operator.settings import Settings
from headrace_operator.validate.spec import InvalidSpec, derive_warnings, validate_spec

_MIN_WAKE_S: Final = 0.2
_AT_REST: Final = frozenset(
    {LifecycleState.SUSPENDED, LifecycleState.FINISHED, LifecycleState.FAILED}
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write, what to do, what to tell."""

    status: StreamJobStatus
    actions: tuple[Action, ...]
    events: tuple[Event, ...]
    wake_after_s: float
    """Decide again after this time at the latest."""
    resync_after_s: float
    """Read everything anew at this age."""


def decide(facts: Facts, settings: Settings) -> Decision:
    """Decide about one job."""
    wanted = _want(facts)
    plan = _plan(facts, wanted, settings)
    readiness = derive_readiness(facts, plan, settings)
    status = _status(facts, plan, wanted, readiness)
    events = (*plan.events, *derive_events(facts.job.status, status))
    is_calm = is_stable(facts, readiness) or status.lifecycle_state in _AT_REST
    resync_after_s = settings.calm_resync_interval_s if is_calm else settings.resync_interval_s
    wake_after_s = min(resync_after_s, _wake_after_s(facts, plan, settings, is_calm=is_calm))
    return Decision(status, plan.actions, events, wake_after_s, resync_after_s)


def _want(facts: Facts) -> Wanted | InvalidSpec:
    spec = validate_spec(facts.job.spec)
    if isinstance(spec, InvalidSpec):
        return spec
    program = resolve_program(facts)
    if isinstance(program, InvalidSpec):
        if spec.state is not DesiredState.SUSPENDED:
            return program
        program = Program(missing=program.message)  # to stop takes no program
    digest = digest_spec(spec, restarted_at=facts.job.restarted_at, program=program.text)
    recorded = facts.job.status.last_reconciled_spec
    change = diff_specs(recorded or ReconciledSpec(generation=0, digest=""), digest)
    return Wanted(spec, digest, change, is_new=recorded is None, program=program)


def _plan(facts: Facts, wanted: Wanted | InvalidSpec, settings: Settings) -> Plan:
    status = facts.job.status
    if facts.job.deletion_requested_at is not None:
        return plan_deletion(facts, settings)
    if facts.job.paused:
        return Plan(status.lifecycle_state, status.driver, in_effect=_is_settled(wanted))
    if isinstance(wanted, InvalidSpec):
        problem = Problem(wanted.reason, wanted.message)
        return Plan(status.lifecycle_state, status.driver, problem=problem)
    plan = plan_driver(facts, wanted, settings)
    if wanted.program.missing and plan.problem is None:
        plan = replace(plan, problem=Problem(PROGRAM_MISSING, wanted.program.missing))
    if not facts.job.has_finalizer:
        # First of all, and nothing after it when it fails: what is made must be removed again.
        plan = replace(plan, actions=(AddFinalizer(), *plan.actions))
    if wanted.change.fields and not wanted.is_new:
        fields = ", ".join(wanted.change.fields)
        effect = wanted.change.effect.name.lower()
        text = f"the spec changed; fields={fields} effect={effect}"
        plan = plan.with_event(normal(EventReason.SPEC_CHANGED, text))
    return plan


def _is_settled(wanted: Wanted | InvalidSpec) -> bool:
    return isinstance(wanted, Wanted) and not wanted.change.fields and not wanted.is_new


def _status(
    facts: Facts, plan: Plan, wanted: Wanted | InvalidSpec, readiness: Readiness
) -> StreamJobStatus:
    before, job = facts.job.status, facts.job
    lifecycle = _lifecycle(plan, readiness)
    record, recovery = _recovery(facts, plan, readiness, wanted)
    generation = job.generation if plan.in_effect else before.observed_generation
    problem = derive_problem(facts, plan, readiness)
    health = Health(
        lifecycle=lifecycle,
        readiness=readiness,
        is_stable=is_stable(facts, readiness),
        problem=problem,
        progress=plan.progress,
        paused=job.paused,
        generation=job.generation,
        effective_generation=generation,
    )
    answer = last_answer(facts)
    return StreamJobStatus(
        observed_generation=generation,
        lifecycle_state=lifecycle,
        conditions=derive_conditions(before, health, facts.now),
        job_id=job.job_id,
        parallelism=answer.parallelism if answer is not None else 0,
        selector=selector_text(role_selector(job.name, ROLE_EXECUTOR)),
        # Never less than before: the count of a driver that is gone is not seen any more.
        restarts=max(
            before.restarts,
            record.restarts_before + (answer.restarts if answer is not None else 0),
        ),
        last_checkpoint=None if plan.forgets_checkpoint else _last_checkpoint(facts),
        last_savepoint=before.last_savepoint,
        last_error=derive_last_error(facts, plan),
        last_recovery=recovery,
        source_lag=answer.source_lag if answer is not None else None,
        warnings=_warnings(facts, wanted),
        last_reconciled_spec=_reconciled(facts, wanted),
        driver=record,
    )


def _lifecycle(plan: Plan, readiness: Readiness) -> LifecycleState:
    """A plan that leaves the driver alone leaves it to the job's readiness what state this is."""
    if readiness.is_ready and plan.lifecycle in {
        LifecycleState.CREATED,
        LifecycleState.DEPLOYING,
        LifecycleState.UPGRADING,
        LifecycleState.RECOVERING,
    }:
        return LifecycleState.RUNNING
    if not readiness.is_ready and plan.lifecycle is LifecycleState.RUNNING:
        return LifecycleState.RECOVERING
    return plan.lifecycle


def _recovery(
    facts: Facts, plan: Plan, readiness: Readiness, wanted: Wanted | InvalidSpec
) -> tuple[DriverRecord, RecoveryStatus | None]:
    """Close an open recovery once the job is ready, and forget failures after a healthy time."""
    record, last = plan.record, facts.job.status.last_recovery
    if not readiness.is_ready:
        return record, last
    now = facts.now
    internal = _internal_recovery(facts)
    if record.recovering_since is not None:
        seconds = round((now - record.recovering_since).total_seconds(), 1)
        cause = record.recovering_from or "unknown"
        last = RecoveryStatus(seconds=seconds, cause=cause, at=now)
        record = record.model_copy(update={"recovering_since": None, "recovering_from": None})
    elif internal is not None:
        last = internal
    policy = wanted.spec.restart_policy if isinstance(wanted, Wanted) else RestartPolicy()
    since = ready_since(facts)
    if since is not None and now - since >= timedelta(seconds=policy.reset_after_seconds):
        record = record.model_copy(update={"failures": 0, "retry_at": None})
    return record, last


def _internal_recovery(facts: Facts) -> RecoveryStatus | None:
    """A failover that the driver survived, seen by its count of restarts."""
    if not isinstance(facts.rest, DriverAnswer):
        return None
    job = facts.rest.status
    known = facts.job.status.restarts - facts.job.status.driver.restarts_before
    if job.last_recovery_s is None or job.restarts <= known:
        return None
    cause = job.last_error.kind if job.last_error is not None else "Failover"
    return RecoveryStatus(seconds=round(job.last_recovery_s, 1), cause=cause, at=facts.now)


def _last_checkpoint(facts: Facts) -> CheckpointStatus | None:
    before, answer = facts.job.status.last_checkpoint, last_answer(facts)
    newest = answer.last_checkpoint if answer is not None else None
    if newest is None or newest.status != "COMPLETED":
        return before
    completed = newest.completed_ms
    return CheckpointStatus(
        id=newest.id,
        path=newest.path,
        completed_at=None
        if completed is None
        else datetime.fromtimestamp(completed // 1000, tz=UTC),
        duration_ms=newest.duration_ms,
        state_size_bytes=newest.state_size_bytes,
        uploaded_bytes=newest.uploaded_bytes,
        epoch=newest.epoch,
        generation=newest.generation,
    )


def _warnings(facts: Facts, wanted: Wanted | InvalidSpec) -> tuple[str, ...]:
    if isinstance(wanted, InvalidSpec):
        return facts.job.status.warnings
    answer = last_answer(facts)
    return (*derive_warnings(wanted.spec), *(answer.warnings if answer is not None else ()))


def _reconciled(facts: Facts, wanted: Wanted | InvalidSpec) -> ReconciledSpec | None:
    """Record the spec that this decision acts on; frozen jobs act on none."""
    job = facts.job
    frozen = job.paused or job.deletion_requested_at is not None
    if isinstance(wanted, InvalidSpec) or frozen:
        return job.status.last_reconciled_spec
    return ReconciledSpec(
        generation=job.generation, digest=wanted.digest.total, fields=wanted.digest.fields
    )


def _wake_after_s(facts: Facts, plan: Plan, settings: Settings, *, is_calm: bool) -> float:
    wake_s = settings.calm_resync_interval_s
    if facts.driver is not None and facts.driver.phase == "Running":
        wake_s = settings.calm_poll_interval_s if is_calm else settings.poll_interval_s
    pods = (*facts.executors, *((facts.driver,) if facts.driver is not None else ()))
    if any(pod.waiting_for_volumes for pod in pods):
        wake_s = min(wake_s, settings.pod_trouble_delay_s)  # the cause is looked for then
    if facts.program is not None:
        wake_s = min(wake_s, program_interval_s(settings, facts.program))
    if plan.wake_at is not None:
        wake_s = min(wake_s, (plan.wake_at - facts.now).total_seconds())
    return max(wake_s, _MIN_WAKE_S)


def program_interval_s(settings: Settings, program: ProgramFacts | None) -> float:
    """Return how often a program's ConfigMap is looked at; one that is missing will soon be there.

    Args:
        settings: of the operator.
        program: what was seen of it last.
    """
    is_missing = program is not None and program.text is None
    return settings.retry_interval_s if is_missing else settings.resync_interval_s
