"""What the checkpoint coordinator decides; the engine executes each decision, in order.

Every decision names one checkpoint of the present generation, except `FailJob`.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.protocol.types import SlotSnapshot
from headrace.ids import CheckpointId, Epoch


@dataclass(frozen=True, slots=True)
class TriggerCheckpoint:
    """Send ``TriggerCheckpoint`` to every slot and start no epoch before `ResumeEpochs`.

    The source position of ``epoch`` must be captured now: it belongs to this checkpoint.
    """

    checkpoint_id: CheckpointId
    epoch: Epoch
    forced: bool


@dataclass(frozen=True, slots=True)
class ResumeEpochs:
    """Every slot has frozen its state, or the checkpoint was given up: epochs may go on."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class PublishCheckpoint:
    """All slots have acknowledged: call ``CheckpointStore.publish`` off the engine's thread.

    Report the outcome with `CheckpointCoordinator.published`, `publish_failed` or
    `number_taken`. On FencedError stop the driver; there is nothing to report. An outcome that
    arrives after a failover is ignored: the new generation has decided from storage.
    """

    checkpoint_id: CheckpointId
    epoch: Epoch
    slots: tuple[SlotSnapshot, ...]


@dataclass(frozen=True, slots=True)
class CompleteCheckpoint:
    """Send ``NotifyComplete`` to every slot, then run ``CheckpointStore.subsume`` in background."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class OutputCommitted:
    """Every slot has published the output up to this checkpoint; a final one ends the job."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class AbortCheckpoint:
    """Send ``NotifyAborted`` to every slot. Files are removed by a later ``subsume``, not now."""

    checkpoint_id: CheckpointId
    reason: str


@dataclass(frozen=True, slots=True)
class FailJob:
    """Too many checkpoints failed in a row: fail over from the last completed one (I10)."""

    reason: str


Decision = (
    TriggerCheckpoint
    | ResumeEpochs
    | PublishCheckpoint
    | CompleteCheckpoint
    | OutputCommitted
    | AbortCheckpoint
    | FailJob
)
