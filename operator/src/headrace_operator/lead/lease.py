"""A Lease, and whether to take it; pure.

As in Kubernetes' own components, clocks are never compared: a lease has run out when this process
has not seen it change for its whole duration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from headrace.api.names import APP_NAME, LABEL_APP_NAME, MANAGER
from headrace_operator.kube.api import Kind, Manifest

LEASE_NAME: Final = MANAGER


@dataclass(frozen=True, slots=True)
class Timing:
    """Times of the election, seconds.

    A leader that cannot renew stops ``duration_s - renew_deadline_s`` before anybody else starts.
    """

    duration_s: float = 15.0
    """A lease that nobody renews is free after this time."""
    renew_deadline_s: float = 10.0
    """A leader that could not renew for this long leads no more."""
    retry_s: float = 2.0
    """Pause between two looks at the lease."""


TIMING: Final = Timing()


@dataclass(frozen=True, slots=True)
class Lease:
    """What a Lease says."""

    holder: str
    """Empty: it was given back."""
    renewed_at: str
    """Only compared with itself."""
    transitions: int

    @classmethod
    def of(cls, manifest: Manifest) -> Lease:
        """Return what a live Lease says, whoever wrote it."""
        spec = manifest.get("spec")
        fields = spec if isinstance(spec, Mapping) else {}
        transitions = fields.get("leaseTransitions")
        return cls(
            holder=str(fields.get("holderIdentity") or ""),
            renewed_at=str(fields.get("renewTime") or ""),
            transitions=transitions if isinstance(transitions, int) else 0,
        )


def may_take(lease: Lease, me: str, unchanged_s: float, timing: Timing) -> bool:
    """Return whether ``me`` may write itself into the lease.

    Args:
        lease: as it was just read.
        me: identity of this process.
        unchanged_s: for how long this process has seen it as it is.
        timing: of the election.
    """
    return lease.holder in {"", me} or unchanged_s >= timing.duration_s


def build_lease(
    name: str, namespace: str, lease: Lease, now: datetime, timing: Timing
) -> dict[str, object]:
    """Return the manifest of a Lease that is held, or given back, since ``now``."""
    time = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return {
        "apiVersion": Kind.LEASE.api_version,
        "kind": Kind.LEASE.kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {LABEL_APP_NAME: APP_NAME}},
        "spec": {
            "holderIdentity": lease.holder,
            "leaseDurationSeconds": int(timing.duration_s),
            "renewTime": time,
            "leaseTransitions": lease.transitions,
        },
    }
