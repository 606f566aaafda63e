"""Names of spools and who publishes them after a rescale; pure functions, used by driver and slots.

A spool is the stream of sealed files of one sink in one slot. Its name is stored in checkpoints and
is part of the ledger's and the transaction's identity, so it never changes meaning: ``slot-0003``
is the spool of slot 3, whatever the parallelism is today (DESIGN 7).
"""

from __future__ import annotations

import re

from headrace.errors import CorruptStateError
from headrace.ids import SlotIndex

_SPOOL_ID = re.compile(r"slot-(\d{4,5})")


def spool_id_of(slot: SlotIndex) -> str:
    """Return the name of a slot's own spool, e.g. ``slot-0003``."""
    return f"slot-{slot:04d}"


def slot_of_spool(spool_id: str) -> SlotIndex:
    """Return the slot that a spool is named after.

    Raises:
        CorruptStateError: not a spool's name.
    """
    match = _SPOOL_ID.fullmatch(spool_id)
    if match is None:
        msg = f"checkpoint names a spool that no slot can own; spool={spool_id!r}"
        raise CorruptStateError(msg)
    return SlotIndex(int(match[1]))


def owner_of_spool(spool_id: str, parallelism: int) -> SlotIndex:
    """Return the slot that publishes a restored spool: its own where it exists, else by remainder.

    Every spool has exactly one owner for a given parallelism, so no two slots ever publish the same
    one in one generation.
    """
    return SlotIndex(slot_of_spool(spool_id) % parallelism)


def spools_to_fence(slot: SlotIndex, parallelism: int, restored_parallelism: int) -> list[str]:
    """Return the vanished spools whose lingering transactions ``slot`` aborts at start (H6).

    Those are the spools of slots that existed in the restored checkpoint and exist no longer,
    divided over today's slots by `owner_of_spool`. The slot's own spool is not among them: taking
    it over is part of every start.
    """
    return [
        spool_id_of(SlotIndex(old))
        for old in range(parallelism, restored_parallelism)
        if old % parallelism == slot
    ]
