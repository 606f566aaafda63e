"""Whether a job is ready, stable, and what is wrong with it; pure.

Ready means what a user means: rows are processed and safe. The query runs, an epoch was committed
*and* a checkpoint of the present generation completed (OP1).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from headrace.api.driver import JobError, JobState, JobStatus
from headrace.api.v1alpha1 import (
    ConditionStatus,
    ConditionType,
    DriverPhase,
    LifecycleState,
)
from headrace_operator.observe.facts import (
    DriverAnswer,
    DriverSilence,
    Facts,
    PodFacts,
    PodProblem,
)
from headrace_operator.reconcile.plan import Plan, Problem
from headrace_operator.settings import Settings

DRIVER_UNREACHABLE: Final = "DriverUnreachable"
STABLE_CHECKPOINTS: Final = 3
"""Checkpoints of a generation after which the job counts as stable."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Value of condition ``Ready``."""

    status: ConditionStatus
    reason: str
    message: str

    @property
    def is_ready(self) -> bool:
        """Whether the job does what it is for."""
        return self.status is ConditionStatus.TRUE


def _not_ready(reason: str, message: str) -> Readiness:
    return Readiness(ConditionStatus.FALSE, reason, message)


def derive_readiness(facts: Facts, plan: Plan, settings: Settings) -> Readiness:
    """Return whether the job is ready, and if not, what it is waiting for."""
    driver = facts.driver
    if plan.lifecycle in {
        LifecycleState.SUSPENDED,
        LifecycleState.FINISHED,
        LifecycleState.FAILED,
        LifecycleState.DELETING,
    }:
        return _not_ready(plan.lifecycle.value, f"the job is {plan.lifecycle.value.lower()}")
    if driver is None or plan.record.phase is not DriverPhase.PRESENT:
        return _not_ready("DriverAbsent", plan.progress or "there is no driver")
    if driver.phase != "Running":
        return _not_ready("DriverPending", f"the driver pod is not running; phase={driver.phase}")
    if isinstance(facts.rest, DriverAnswer):
        return _readiness_of_job(facts.rest.status)
    if isinstance(facts.rest, DriverSilence) and facts.rest.last is not None:
        return _readiness_in_silence(facts, facts.rest, settings)
    return _not_ready("DriverStarting", "the driver runs and does not answer yet")


def _readiness_of_job(job: JobStatus) -> Readiness:
    if job.state is not JobState.RUNNING:
        return _not_ready(f"Job{job.state.capitalize()}", f"the job is {job.state.lower()}")
    if job.epochs_committed < 1:
        return _not_ready("AwaitingEpoch", "no epoch of this generation was committed yet")
    checkpoint = job.last_checkpoint
    completed = checkpoint is not None and checkpoint.status == "COMPLETED"
    if checkpoint is None or not completed or checkpoint.generation != job.generation:
        return _not_ready(
            "AwaitingCheckpoint", "no checkpoint of this generation has completed yet"
        )
    return Readiness(
        ConditionStatus.TRUE,
        "JobRunning",
        f"epochs are committed and checkpoints complete; generation={job.generation}",
    )


def _readiness_in_silence(facts: Facts, silence: DriverSilence, settings: Settings) -> Readiness:
    """A short silence changes nothing: a driver may be busy or the network slow."""
    before = facts.job.status.condition(ConditionType.READY)
    is_short = facts.now - silence.since < timedelta(seconds=settings.unreachable_grace_s)
    if is_short and before is not None:
        return Readiness(before.status, before.reason, before.message)
    return _not_ready(DRIVER_UNREACHABLE, f"the driver does not answer; cause={silence.cause}")


def is_stable(facts: Facts, readiness: Readiness) -> bool:
    """Return whether several checkpoints of the present generation completed in a row."""
    if not readiness.is_ready or not isinstance(facts.rest, DriverAnswer):
        before = facts.job.status.condition(ConditionType.STABLE)
        return readiness.is_ready and before is not None and before.status is ConditionStatus.TRUE
    job = facts.rest.status
    first = job.restored_from or 0
    return job.last_checkpoint is not None and job.last_checkpoint.id >= first + STABLE_CHECKPOINTS


def derive_problem(facts: Facts, plan: Plan, readiness: Readiness) -> Problem | None:
    """Return the most telling thing that is wrong, None when nothing is.

    Order: what stops the operator itself, how the job ended, the driver pod, the job's own error,
    the way to the driver, executors that cannot start, the loss that the job recovers from,
    executors that ended. An earlier one explains the later ones.
    """
    if plan.lifecycle is LifecycleState.DELETING:
        return _refused(facts)
    candidates = (
        plan.problem,
        _refused(facts),
        _outcome(plan),
        _driver_pod(facts, plan),
        _job_error(facts, readiness),
        _unreachable(facts, readiness),
        _waiting_executor(facts, plan),
        _last_loss(plan, readiness),
        _ended_executor(facts, plan, readiness),
    )
    return next((problem for problem in candidates if problem is not None), None)


def _refused(facts: Facts) -> Problem | None:
    refusal = facts.refusal
    if refusal is None:
        return None
    return Problem("ActionRefused", f"{refusal.action} was refused: {refusal.message}")


def _outcome(plan: Plan) -> Problem | None:
    outcome = plan.record.outcome
    if outcome is None or plan.lifecycle is not LifecycleState.FAILED:
        return None
    return Problem(outcome.reason or "JobFailed", outcome.message or "the job failed")


def _driver_pod(facts: Facts, plan: Plan) -> Problem | None:
    driver = facts.driver
    if driver is None or driver.has_ended or plan.record.phase is not DriverPhase.PRESENT:
        return None
    return _problem_of(driver.problem)


def _problem_of(problem: PodProblem | None) -> Problem | None:
    return Problem(problem.reason.value, problem.message) if problem is not None else None


def _job_error(facts: Facts, readiness: Readiness) -> Problem | None:
    """The job's last error counts until a checkpoint completed after it."""
    job = last_answer(facts)
    error = job.last_error if job is not None else None
    if job is None or error is None or readiness.is_ready:
        return None
    checkpoint = job.last_checkpoint
    if checkpoint is not None and (checkpoint.completed_ms or 0) > error.at_ms > 0:
        return None
    return Problem(error.kind, error_text(error))


def last_answer(facts: Facts) -> JobStatus | None:
    """Return the last thing that the present driver said about the job."""
    if isinstance(facts.rest, DriverAnswer):
        return facts.rest.status
    return facts.rest.last if isinstance(facts.rest, DriverSilence) else None


def error_text(error: JobError) -> str:
    """Return the message of a job's error, with what will be done about it."""
    return error.message if error.restartable else f"{error.message} (a restart will not help)"


def _unreachable(facts: Facts, readiness: Readiness) -> Problem | None:
    """A driver that answers its kubelet and not us is nothing that a restart would help."""
    silence, driver = facts.rest, facts.driver
    if not isinstance(silence, DriverSilence) or driver is None or not driver.ready:
        return None
    if readiness.is_ready:
        return None
    return Problem(
        DRIVER_UNREACHABLE,
        "the driver answers its kubelet and not the operator, look for a NetworkPolicy between "
        f"them; pod={driver.name} ip={driver.ip} cause={silence.cause}",
    )


def _own_executors(facts: Facts, plan: Plan) -> tuple[PodFacts, ...]:
    if facts.driver is None or plan.record.phase is not DriverPhase.PRESENT:
        return ()
    return tuple(pod for pod in facts.executors if facts.driver.uid in pod.owner_uids)


def _waiting_executor(facts: Facts, plan: Plan) -> Problem | None:
    """An executor that cannot start counts also while the job runs on the others."""
    waiting = [pod.problem for pod in _own_executors(facts, plan) if not pod.has_ended]
    return next((_problem_of(problem) for problem in waiting if problem is not None), None)


def _ended_executor(facts: Facts, plan: Plan, readiness: Readiness) -> Problem | None:
    """One that ended counts until the job has recovered from it."""
    if readiness.is_ready:
        return None
    ended = [pod.problem for pod in _own_executors(facts, plan) if pod.has_ended]
    seen = [problem for problem in (*ended, *facts.sightings) if problem is not None]
    return _problem_of(seen[0]) if seen else None


def _last_loss(plan: Plan, readiness: Readiness) -> Problem | None:
    """While a lost driver is being replaced, why it was lost."""
    failure = plan.record.last_failure
    if failure is None or readiness.is_ready or plan.record.recovering_since is None:
        return None
    return Problem(failure.reason, failure.message)


def ready_since(facts: Facts) -> datetime | None:
    """Return since when the job has been ready, as written in its status."""
    condition = facts.job.status.condition(ConditionType.READY)
    is_ready = condition is not None and condition.status is ConditionStatus.TRUE
    return condition.last_transition_time if condition is not None and is_ready else None
