"""Which program a job runs when it comes from a user's ConfigMap; pure.

A changed program is a changed spec: the job is upgraded, at once and with an event, not some day
when its driver happens to be replaced. So the driver never mounts the user's ConfigMap; it gets a
copy, in its own, and the digest of the text is part of the spec's digest. A user's ConfigMap that
is gone stops nothing: the copy goes on, and condition ``Degraded`` says what is missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.api.driver import INLINE_PROGRAM_FILE
from headrace.api.names import driver_name
from headrace_operator.diff.digests import PROGRAM_FIELD, digest_program
from headrace_operator.kube.api import Kind, ObjectKey
from headrace_operator.observe.facts import Facts
from headrace_operator.validate.spec import InvalidSpec

PROGRAM_MISSING: Final = "ProgramMissing"


@dataclass(frozen=True, slots=True)
class Program:
    """The text to run, and what is wrong with where it came from."""

    text: str | None = None
    """None: the program is no matter of a ConfigMap."""
    missing: str = ""
    """The user's ConfigMap is not there; the copy is used."""


def resolve_program(facts: Facts) -> Program | InvalidSpec:
    """Return the program of a job, or why there is none."""
    seen = facts.program
    if seen is None:
        return Program()
    if seen.text is not None:
        return Program(seen.text)
    copy, recorded = _copy(facts), facts.job.status.last_reconciled_spec
    if copy is None or recorded is None:
        return InvalidSpec(seen.missing, PROGRAM_MISSING)
    if digest_program(copy) != recorded.fields.get(PROGRAM_FIELD):
        return InvalidSpec(seen.missing, PROGRAM_MISSING)
    return Program(copy, missing=f"{seen.missing}; the job goes on with its copy of the program")


def _copy(facts: Facts) -> str | None:
    """The text that the last driver was started with."""
    key = ObjectKey(Kind.CONFIG_MAP, driver_name(facts.job.name))
    data = facts.objects.get(key, {}).get("data")
    text = data.get(INLINE_PROGRAM_FILE) if isinstance(data, Mapping) else None
    return text if isinstance(text, str) else None
