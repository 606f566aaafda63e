"""What the checkpoint coordinator decides; the engine executes each decision, in order.

Every decision names one checkpoint of the present generation, except `FailJob` and
`FailSavepoints`.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.protocol.types import SlotSnapshot
from headrace.ids import CheckpointId, Epoch, TriggerId


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
    """Send ``NotifyComplete`` to every slot, then run ``CheckpointStore.subsume`` in background.

    Attributes:
        held: a savepoint will be copied from it: before anything else, hold it
            (`headrace.checkpoint.held`) until its copies have ended or `FailSavepoints` came.
    """

    checkpoint_id: CheckpointId
    held: bool = False


@dataclass(frozen=True, slots=True)
class OutputCommitted:
    """Every slot has published the output up to this checkpoint; a final one ends the job."""

    checkpoint_id: CheckpointId


@dataclass(frozen=True, slots=True)
class CopySavepoint:
    """The checkpoint is complete and its output published: make these savepoints of it.

    Off the engine's thread; checkpoints and epochs go on meanwhile.
    """

    checkpoint_id: CheckpointId
    trigger_ids: tuple[TriggerId, ...]


@dataclass(frozen=True, slots=True)
class FailSavepoints:
    """These savepoints will not be made; whoever asked may ask again."""

    trigger_ids: tuple[TriggerId, ...]
    reason: str


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
    | CopySavepoint
    | FailSavepoints
    | AbortCheckpoint
    | FailJob
)
