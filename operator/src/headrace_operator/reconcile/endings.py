"""What the end of a driver means: the job's own end, or one more driver to replace it; pure.

A driver says in its termination message how the job ended. ``FINISHED`` and ``FAILED`` are final
until the spec changes; after any other end, and after none at all, a new driver goes on.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from headrace.api.driver import JobState, TerminationMessage
from headrace.api.v1alpha1 import DriverRecord, LifecycleState, Outcome
from headrace_operator.observe.facts import DriverAnswer, DriverSilence, Facts, PodFacts
from headrace_operator.reconcile.actions import EventReason, warning
from headrace_operator.reconcile.backoff import is_budget_spent
from headrace_operator.reconcile.plan import (
    Loss,
    Plan,
    Wanted,
    after_loss,
    delete_pod,
    delete_pods,
    present,
)

DRIVER_EXITED: Final = "DriverExited"
MESSAGE_CHARS_MAX: Final = 4096
"""As the API models bound the messages of failures and outcomes."""


def find_hang(facts: Facts, wanted: Wanted) -> str | None:
    """Why the job counts as hung, None when it does not (OP48)."""
    timeout_s = wanted.spec.restart_policy.progress_timeout_seconds
    if timeout_s == 0:
        return None
    since: datetime | None = None
    what = "no epoch was committed and no checkpoint completed"
    if isinstance(facts.rest, DriverAnswer):
        since = facts.rest.stalled_since
    elif isinstance(facts.rest, DriverSilence) and facts.rest.last is not None:
        if facts.driver is not None and facts.driver.ready:
            return None  # the kubelet gets answers: it is the way to us that is broken
        since, what = facts.rest.since, "the driver does not answer"
    if since is None or facts.now - since < timedelta(seconds=timeout_s):
        return None
    return f"{what} for {int((facts.now - since).total_seconds())} s; progressTimeout={timeout_s} s"


def plan_ended(facts: Facts, wanted: Wanted, record: DriverRecord, driver: PodFacts) -> Plan:
    """Decide after the driver's process ended: the job's own end, or a replacement."""
    outcome = _outcome(facts, wanted, driver)
    if outcome is not None:
        known = record.outcome is not None and record.outcome.state is outcome.state
        final = record.outcome if known and record.outcome is not None else outcome
        updated = present(record, driver).model_copy(
            update={"outcome": final, "recovering_since": None, "recovering_from": None}
        )
        return rest_ended(facts, updated, final)
    loss = _loss_of(facts, driver)
    return plan_replacement(facts, wanted, record, driver, loss, 0)


def _outcome(facts: Facts, wanted: Wanted, driver: PodFacts) -> Outcome | None:
    """How the job ended for good; None when a new driver shall go on with it."""
    said: TerminationMessage | None = driver.termination
    if said is None or said.state not in {JobState.FINISHED, JobState.FAILED}:
        return None
    error = said.error
    return Outcome(
        state=LifecycleState.FINISHED if said.state is JobState.FINISHED else LifecycleState.FAILED,
        digest=wanted.digest.total,
        reason=error.kind if error is not None else "",
        message=error.message[:MESSAGE_CHARS_MAX] if error is not None else "",
        at=driver.exit.finished_at or facts.now if driver.exit is not None else facts.now,
    )


def _loss_of(facts: Facts, driver: PodFacts) -> Loss:
    at = driver.exit.finished_at if driver.exit is not None else None
    if driver.termination is not None and driver.termination.error is not None:
        error = driver.termination.error
        return Loss(driver.uid, error.kind, error.message[:MESSAGE_CHARS_MAX], at or facts.now)
    if driver.problem is not None:
        return Loss(driver.uid, driver.problem.reason, driver.problem.message, at or facts.now)
    code = driver.exit.exit_code if driver.exit is not None else "unknown"
    message = f"the driver ended without saying why; exit_code={code}"
    return Loss(driver.uid, DRIVER_EXITED, message, at or facts.now)


def plan_replacement(
    facts: Facts,
    wanted: Wanted,
    record: DriverRecord,
    driver: PodFacts,
    loss: Loss,
    grace_s: int,
) -> Plan:
    """Count a failed driver and put the next one in its place, or give up on the job.

    Args:
        facts: observed.
        wanted: validated spec, with the restart policy.
        record: of the drivers so far.
        driver: the pod that is to go.
        loss: why.
        grace_s: seconds that it gets, 0 when nothing in it runs any more.
    """
    policy = wanted.spec.restart_policy
    counted = record.last_failure is not None and record.last_failure.pod_uid == driver.uid
    failed = after_loss(facts, record, policy, loss)
    if is_budget_spent(policy, failed.failures):
        outcome = record.outcome or Outcome(
            state=LifecycleState.FAILED,
            digest=wanted.digest.total,
            reason=loss.reason,
            message=f"gave up after {failed.failures} failed drivers in a row: {loss.message}"[
                :4096
            ],
            at=facts.now,
        )
        given_up = present(failed, driver).model_copy(
            update={"outcome": outcome, "recovering_since": None, "recovering_from": None}
        )
        return rest_ended(facts, given_up, outcome)
    plan = Plan(
        LifecycleState.RECOVERING,
        failed,
        "replacing the driver",
        actions=(delete_pod(driver, grace_s), *delete_pods(facts.executors)),
    )
    if counted:
        return plan
    text = f"replacing the driver: {loss.message}; reason={loss.reason} failures={failed.failures}"
    return plan.with_event(warning(EventReason.DRIVER_REPLACED, text))


def rest_ended(facts: Facts, record: DriverRecord, outcome: Outcome) -> Plan:
    """The ended pod stays for its log; executors that outlived it do not."""
    return Plan(outcome.state, record, in_effect=True, actions=delete_pods(facts.executors))
