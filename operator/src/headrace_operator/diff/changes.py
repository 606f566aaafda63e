"""Which fields changed, and the greatest effect among them; pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.api.v1alpha1 import Effect, ReconciledSpec
from headrace_operator.diff.digests import EFFECTS, SpecDigest


@dataclass(frozen=True, slots=True)
class SpecChange:
    """Difference between two specs of a job."""

    fields: tuple[str, ...]
    """Names of the changed fields, sorted."""
    effect: Effect
    """The greatest effect among them; `Effect.IGNORE` when nothing changed."""

    @property
    def needs_restart(self) -> bool:
        """Whether processes must be replaced to bring the change into effect."""
        return self.effect is not Effect.IGNORE


def diff_specs(recorded: ReconciledSpec, wanted: SpecDigest) -> SpecChange:
    """Compare the spec that was last acted on with the wanted one."""
    names = recorded.fields.keys() | wanted.fields.keys()
    changed = sorted(n for n in names if recorded.fields.get(n) != wanted.fields.get(n))
    # A field of a newer release that this one does not know: assume the strongest effect but one.
    effects = [EFFECTS.get(name, Effect.UPGRADE) for name in changed]
    return SpecChange(tuple(changed), max(effects, default=Effect.IGNORE))
