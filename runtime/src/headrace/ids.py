"""Identifiers that cross module borders, so that no bare ``int`` or ``str`` does.

Every identifier has one meaning and one legal range; GLOSSARY.md defines the words.
"""

from __future__ import annotations

import re
import uuid
from typing import NewType

JobId = NewType("JobId", str)
"""32 lower-case hexadecimal digits, as Flink's JobID. Stays the same over every failover."""

KeyGroup = NewType("KeyGroup", int)
"""0 <= key group < max parallelism <= 32768."""

SlotIndex = NewType("SlotIndex", int)
"""0 <= slot < parallelism. Slot i owns the contiguous key groups given by `headrace.keygroups`."""

Level = NewType("Level", int)
"""1-based depth of an exchange: operators of level k have k exchanges on their longest path."""

EdgeTag = NewType("EdgeTag", int)
"""Index of an edge among those carried by one exchange; 0 <= tag < 255."""

Epoch = NewType("Epoch", int)
"""Spark batch id of one micro-batch; strictly increasing within a generation."""

CheckpointId = NewType("CheckpointId", int)
"""Positive, strictly increasing over the life of a job, failovers included."""

Generation = NewType("Generation", int)
"""Fencing number of a job's coordinator; positive; every driver start and failover claims one."""

AttemptId = NewType("AttemptId", str)
"""One life of one slot process (Flink's ExecutionAttemptID): a random hexadecimal string."""

OperatorUid = NewType("OperatorUid", str)
"""The user's ``uid(...)`` or a generated one; identifies an operator's state for ever."""

TriggerId = NewType("TriggerId", str)
"""One request for a savepoint: 32 lower-case hexadecimal digits, as Flink's TriggerId."""

_HEX_32 = re.compile(r"[0-9a-f]{32}")


def new_job_id() -> JobId:
    """Return a fresh random job id."""
    return JobId(uuid.uuid4().hex)


def new_trigger_id() -> TriggerId:
    """Return a fresh random trigger id."""
    return TriggerId(uuid.uuid4().hex)


def new_attempt_id() -> AttemptId:
    """Return a fresh random attempt id."""
    return AttemptId(uuid.uuid4().hex[:16])


def parse_job_id(text: str) -> JobId:
    """Return ``text`` as a job id.

    Raises:
        ValueError: ``text`` is not 32 lower-case hexadecimal digits.
    """
    if not _HEX_32.fullmatch(text):
        msg = f"a job id is 32 lower-case hexadecimal digits; got={text!r}"
        raise ValueError(msg)
    return JobId(text)


def parse_trigger_id(text: str) -> TriggerId:
    """Return ``text`` as a trigger id.

    Raises:
        ValueError: ``text`` is not 32 lower-case hexadecimal digits.
    """
    if not _HEX_32.fullmatch(text):
        msg = f"a trigger id is 32 lower-case hexadecimal digits; got={text!r}"
        raise ValueError(msg)
    return TriggerId(text)
