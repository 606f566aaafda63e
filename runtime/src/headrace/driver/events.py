"""What can happen to a running job; all of it goes through one queue to one thread."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import CheckpointMetadata
    from headrace.driver.admission import AdmissionStatus
    from headrace.driver.rescaling import Layout
    from headrace.ids import AttemptId, CheckpointId, Epoch, Generation, TriggerId
    from headrace.slot.messages import EpochResult, FromSlot


class EpochReply:
    """How the job master lets the stream thread go on after an epoch."""

    def __init__(self) -> None:
        self._answered = threading.Event()

    def release(self) -> None:
        """Let the next epoch begin."""
        self._answered.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for `release`; returns whether it came."""
        return self._answered.wait(timeout_s)


@dataclass(frozen=True, slots=True)
class EpochFinished:
    """An epoch has ended in all slots; the stream thread waits for ``reply``.

    ``input_ended``: all sources are bounded, and this epoch has read the last of them to its end.
    """

    generation: Generation
    epoch: Epoch
    results: tuple[EpochResult, ...]
    duration_ms: float
    admission: AdmissionStatus
    input_ended: bool
    reply: EpochReply = field(default_factory=EpochReply)


@dataclass(frozen=True, slots=True)
class FinalEpochFinished:
    """Event time is at its end in all slots, and every timer has fired."""

    generation: Generation
    results: tuple[EpochResult, ...]


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """Spark's query has ended; ``error`` is None when it was stopped on purpose."""

    generation: Generation
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class SlotSaid:
    """A registered slot sent a message."""

    slot: int
    attempt: AttemptId
    message: FromSlot


@dataclass(frozen=True, slots=True)
class SlotGone:
    """A registered slot's stream has ended."""

    slot: int
    attempt: AttemptId


@dataclass(frozen=True, slots=True)
class PublishDone:
    """The publication of a checkpoint has ended; ``error`` is None when it exists."""

    generation: Generation
    checkpoint_id: CheckpointId
    error: BaseException | None
    metadata: CheckpointMetadata | None = None


@dataclass(frozen=True, slots=True)
class SavepointEnded:
    """A savepoint was made or has failed; its outcome is with the service."""

    generation: Generation
    trigger_id: TriggerId


@dataclass(frozen=True, slots=True)
class SlotsStarted:
    """The Spark job that starts slot processes has ended."""

    generation: Generation
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class LayoutStarted:
    """The Spark job that starts the slots of a rescale has ended; ``layout`` is None if badly."""

    generation: Generation
    layout: Layout | None
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody wants the job to end; ``cancel`` also applies the retention policy."""

    cancel: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passes."""


Event = (
    EpochFinished
    | FinalEpochFinished
    | QueryEnded
    | SlotSaid
    | SlotGone
    | PublishDone
    | SavepointEnded
    | SlotsStarted
    | LayoutStarted
    | StopRequested
    | Tick
)
