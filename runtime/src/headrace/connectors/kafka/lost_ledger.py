"""Decision about one spool from its checkpoint id and its ledger; pure.

An absent ledger means that the broker forgot it, never that nothing was published: a slot writes
its ledger before it seals its first spool (docs/adr/0007-exactly-once-sinks.md).
"""

from __future__ import annotations

import enum

from headrace.ids import CheckpointId


class LostLedgerPolicy(enum.Enum):
    """What to do with a spool whose ledger the broker forgot; chosen by a person, never guessed."""

    FAIL = "fail"
    """Stop and report (default)."""

    PUBLISH = "publish"
    """Publish; its rows appear twice if they had been published."""

    DISCARD = "discard"
    """Do not publish; its rows are missing if they had not been published."""


class Decision(enum.Enum):
    """What to do with one spool."""

    PUBLISH = "publish"
    ALREADY_PUBLISHED = "already-published"
    STOP = "stop"


def decide(
    ledger: CheckpointId | None, checkpoint_id: CheckpointId, policy: LostLedgerPolicy
) -> Decision:
    """Decide about a spool with output, from the ledger as read after a claim."""
    if ledger is not None:
        return Decision.ALREADY_PUBLISHED if ledger >= checkpoint_id else Decision.PUBLISH
    return {
        LostLedgerPolicy.FAIL: Decision.STOP,
        LostLedgerPolicy.PUBLISH: Decision.PUBLISH,
        LostLedgerPolicy.DISCARD: Decision.ALREADY_PUBLISHED,
    }[policy]
