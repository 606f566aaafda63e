"""Validation of a StreamJob's spec; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from headrace.api.v1alpha1 import StreamJobSpec, UpgradeMode
from headrace_operator.kube.api import Manifest

SKEW_PERCENT_MAX: Final = 10
"""Above this the busiest slot's share is worth a warning."""


@dataclass(frozen=True, slots=True)
class InvalidSpec:
    """The spec cannot be acted on; what runs is left alone."""

    message: str
    """Every field that is wrong, with the reason."""
    reason: str = "InvalidSpec"
    """Reason of condition ``Degraded`` and of an event."""


def validate_spec(manifest: Manifest) -> StreamJobSpec | InvalidSpec:
    """Return the spec, or what is wrong with it."""
    try:
        return StreamJobSpec.model_validate(manifest)
    except ValidationError as error:
        problems = [
            f"spec.{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
            for problem in error.errors(include_url=False, include_input=False)
        ]
        return InvalidSpec("; ".join(problems))


def derive_warnings(spec: StreamJobSpec) -> tuple[str, ...]:
    """Return what is allowed but should be looked at (OP38)."""
    found = (_skew(spec), _upgrade_mode(spec))
    return tuple(text for text in found if text is not None)


def _skew(spec: StreamJobSpec) -> str | None:
    groups, slots = spec.max_parallelism, spec.parallelism
    most = -(-groups // slots)
    over_percent = round((most * slots / groups - 1) * 100)
    if over_percent <= SKEW_PERCENT_MAX:
        return None
    return (
        "key groups spread unevenly over the slots: the busiest owns "
        f"{over_percent} % more than the mean, choose a divisor of maxParallelism; "
        f"parallelism={slots} maxParallelism={groups} groups_per_slot={groups // slots}..{most}"
    )


def _upgrade_mode(spec: StreamJobSpec) -> str | None:
    if spec.upgrade_mode is UpgradeMode.LAST_STATE:
        return None
    return (
        "this release upgrades every job from its last completed checkpoint, as with "
        f"upgradeMode=last-state; upgradeMode={spec.upgrade_mode}"
    )
