"""The last error of a job as its status shows it (OP10); pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from headrace.api.driver import JobError
from headrace.api.v1alpha1 import ErrorStatus
from headrace_operator.observe.facts import Facts
from headrace_operator.reconcile.health import last_answer
from headrace_operator.reconcile.plan import Plan

FRAMES_MAX: Final = 5
_MESSAGE_CHARS_MAX: Final = 4096
_TRACEBACK_CHARS_MAX: Final = 8192
_FRAME = re.compile(r'^\s*File "', re.MULTILINE)


def last_frames(traceback: str, frames: int = FRAMES_MAX) -> str:
    """Return the last frames of a Python traceback, with what follows them."""
    starts = [match.start() for match in _FRAME.finditer(traceback)]
    cut = traceback[starts[-frames] :] if len(starts) > frames else traceback
    return cut.strip("\n")[-_TRACEBACK_CHARS_MAX:]


def derive_last_error(facts: Facts, plan: Plan) -> ErrorStatus | None:
    """Return the newest error known; an old one stays after recovery."""
    before = facts.job.status.last_error
    said = _said_by_driver(facts)
    if said is not None:
        return _converted(said)
    failure = plan.record.last_failure
    if failure is None or (
        before is not None and before.at is not None and before.at >= failure.at
    ):
        return before
    if failure != facts.job.status.driver.last_failure:
        return ErrorStatus(kind=failure.reason, message=failure.message, at=failure.at)
    return before


def _said_by_driver(facts: Facts) -> JobError | None:
    driver = facts.driver
    if driver is not None and driver.termination is not None:
        return driver.termination.error
    answer = last_answer(facts)
    return answer.last_error if answer is not None else None


def _converted(error: JobError) -> ErrorStatus:
    at = datetime.fromtimestamp(error.at_ms / 1000, tz=UTC) if error.at_ms else None
    return ErrorStatus(
        kind=error.kind,
        message=error.message[:_MESSAGE_CHARS_MAX],
        traceback=last_frames(error.traceback),
        at=at,
    )
