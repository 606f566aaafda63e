"""The result of a run, as one line of JSON and for people."""

from __future__ import annotations

import msgspec


class Report(msgspec.Struct, frozen=True):
    """What `headrace demo --json` prints; names and meaning are stable."""

    exact: bool
    """Whether every record of the output is there exactly once, and no other."""
    events: int
    """Payments written, and records that the output must have."""
    keys: int
    """Merchants among them."""
    kills: int
    duplicates: int
    missing: int
    unexpected: int
    checkpoints: int
    """Completed checkpoints."""
    recovery_s: dict[str, float]
    """For each kill: until the first epoch after it, or until the new operator works."""
    events_per_s: float
    """Payments by the time from the first one until the last record was published."""
    wall_s: float
    """The whole run, from nothing to the comparison."""
    seed: int


def render_json(report: Report) -> str:
    """Returns the report as one line of JSON."""
    return msgspec.json.encode(report).decode()
