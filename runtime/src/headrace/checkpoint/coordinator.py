"""The checkpoint coordinator of one job: a state machine without threads, clock or I/O.

The engine calls one method for each thing that happened and executes the returned decisions in
order (`headrace.checkpoint.decisions`). All calls come from one thread. One coordinator lives as
long as the driver; every failover calls `start_generation`, so history and counters survive it.

Phases of checkpoint n (D2; Flink's ``CheckpointCoordinator`` and ``PendingCheckpoint``)::

    trigger   epoch_finished(e)        -> TriggerCheckpoint(n, e)     no epoch runs from here ...
    sync      slot_synced(every slot)  -> ResumeEpochs(n)             ... to here (milliseconds)
    async     (slots upload)
    ack       slot_acked(every slot)   -> PublishCheckpoint(n, snapshots)
    complete  published(n)             -> CompleteCheckpoint(n)       slots publish their output
              slot_committed(every)    -> OutputCommitted(n)

    any       slot_declined, tick past the timeout, publish_failed -> AbortCheckpoint(n) [FailJob]

A savepoint is a checkpoint of which a copy is made when its output is published::

    request_savepoint(t) -> the next barrier takes a checkpoint n, whatever interval and pause say
    ... as above, then     OutputCommitted(n), CopySavepoint(n, [t])
    n is given up          AbortCheckpoint(n), FailSavepoints([t])
    the generation ends    withdraw_savepoints gives t back unless n has begun
    the next one begins    FailSavepoints([t]) when n had

The barrier of n is the end of epoch e: everything of epochs <= e and nothing of later ones is in n.

Invariants:
- one checkpoint at a time; numbers strictly increase, an aborted number is not used again;
- `ResumeEpochs` follows every `TriggerCheckpoint` exactly once (unless the generation ends first);
- min-pause runs from the end of a checkpoint, completed or aborted (D13, T16);
- once `PublishCheckpoint` was decided the timeout no longer aborts: whether the checkpoint exists
  is then only known from storage, which has timeouts of its own. A publication that failed counts
  as a failed checkpoint; its output stays pending in the slots and travels with the next one;
- messages about another checkpoint than the present one are late and ignored;
- every requested savepoint ends in exactly one `CopySavepoint` or `FailSavepoints`. A checkpoint
  that was taken for savepoints alone is no sign of a sick job: its failure is not counted.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.api.driver import CheckpointSummary
from headrace.checkpoint.decisions import (
    AbortCheckpoint,
    CompleteCheckpoint,
    CopySavepoint,
    Decision,
    FailJob,
    FailSavepoints,
    OutputCommitted,
    PublishCheckpoint,
    ResumeEpochs,
    TriggerCheckpoint,
)
from headrace.checkpoint.history import CheckpointHistory
from headrace.checkpoint.protocol.paths import checkpoint_dir
from headrace.checkpoint.savepoint_requests import SavepointRequests
from headrace.errors import InternalError
from headrace.ids import CheckpointId, Epoch, Generation, SlotIndex

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import SlotSnapshot
    from headrace.checkpoint.settings import CheckpointSettings
    from headrace.clock import Clock
    from headrace.ids import TriggerId


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment on both clocks: durations use ``monotonic_ms``, reports use ``wall_ms``."""

    monotonic_ms: int
    wall_ms: int

    @classmethod
    def read(cls, clock: Clock) -> Instant:
        """Return the present moment."""
        return cls(monotonic_ms=int(clock.monotonic_s() * 1000), wall_ms=clock.now_ms())


class CheckpointPhase(enum.StrEnum):
    """Where the pending checkpoint stands."""

    SYNC = "SYNC"
    ASYNC = "ASYNC"
    PUBLISHING = "PUBLISHING"


@dataclass(slots=True)
class _Pending:
    checkpoint_id: CheckpointId
    epoch: Epoch
    forced: bool
    counts: bool
    """Whether its failure is one of the tolerated ones."""
    triggered: Instant
    phase: CheckpointPhase = CheckpointPhase.SYNC
    synced: set[SlotIndex] = field(default_factory=set)
    acks: dict[SlotIndex, SlotSnapshot] = field(default_factory=dict)


class CheckpointCoordinator:
    """Decides when checkpoints begin, complete and fail; see the module docstring."""

    def __init__(self, settings: CheckpointSettings, *, root_uri: str) -> None:
        """Create a coordinator that does nothing before `start_generation`.

        Args:
            settings: interval, pauses, timeout, tolerated failures.
            root_uri: the job's checkpoint directory, for the paths that are reported.
        """
        self._settings = settings
        self._root_uri = root_uri.rstrip("/")
        self.history = CheckpointHistory()
        self._generation = Generation(0)
        self._next_id = CheckpointId(1)
        self._slots: frozenset[SlotIndex] = frozenset()
        self._pending: _Pending | None = None
        self._forced = False
        self._consecutive_failures = 0
        self._last_trigger_ms = 0
        self._last_end_ms: int | None = None
        self._committing: dict[CheckpointId, set[SlotIndex]] = {}
        self._savepoints = SavepointRequests()

    @property
    def pending_phase(self) -> CheckpointPhase | None:
        """Phase of the checkpoint in progress, None when there is none."""
        return self._pending.phase if self._pending else None

    @property
    def holds_epochs(self) -> bool:
        """Whether the next epoch must wait for `ResumeEpochs`."""
        return self._pending is not None and self._pending.phase is CheckpointPhase.SYNC

    def start_generation(
        self,
        generation: Generation,
        *,
        next_checkpoint_id: CheckpointId,
        parallelism: int,
        restored: bool,
        now: Instant,
    ) -> list[Decision]:
        """Begin a new coordinator life: forget what was in progress, keep history and counters.

        The first periodic checkpoint is due one interval from ``now``; failures are counted anew.
        """
        if self._pending is not None:
            self._record_failure(self._pending, "the job failed over", now)
        self._generation = generation
        self._next_id = max(self._next_id, next_checkpoint_id)
        self._slots = frozenset(SlotIndex(i) for i in range(parallelism))
        self._pending = None
        self._forced = False
        self._committing = {}
        self._consecutive_failures = 0
        self._last_trigger_ms = now.monotonic_ms
        self._last_end_ms = None
        if restored:
            self.history.restored()
        return self._fail_savepoints(self._savepoints.take_all_attached(), "the job failed over")

    def force(self) -> None:
        """Ask for a checkpoint at the next barrier, whatever interval and min-pause say.

        For the final checkpoint. It waits for the one in progress.
        """
        self._forced = True

    def request_savepoint(self, trigger_id: TriggerId) -> None:
        """Ask for a savepoint at the next barrier at which no checkpoint is in progress."""
        self._savepoints.add(trigger_id)

    def withdraw_savepoints(self, *, begun: bool) -> tuple[TriggerId, ...]:
        """Give back requests, for the next generation to ask for them again.

        Args:
            begun: also those whose checkpoint has begun: the generation ends on purpose, so that it
                was no fault of theirs.
        """
        attached = self._savepoints.take_all_attached() if begun else ()
        return (*attached, *self._savepoints.take_waiting())

    def epoch_finished(self, epoch: Epoch, now: Instant) -> list[Decision]:
        """Say that a barrier stands: ``epoch`` has ended in all slots and no other has begun.

        May be called again for the same epoch while no later one has begun, which is how a final
        checkpoint is awaited when another one was in progress at the last barrier.
        """
        counts = self._forced or self._is_due(now)
        if self._pending is not None or not (counts or self._savepoints.wanted):
            return []
        pending = _Pending(self._next_id, epoch, self._forced, counts, now)
        self._savepoints.attach(pending.checkpoint_id)
        self._next_id = CheckpointId(self._next_id + 1)
        self._pending = pending
        self._forced = False
        self._last_trigger_ms = now.monotonic_ms
        self.history.triggered(self._summary(pending, "IN_PROGRESS"))
        forced = pending.forced or self._savepoints.is_attached(pending.checkpoint_id)
        return [TriggerCheckpoint(pending.checkpoint_id, epoch, forced)]

    def tick(self, now: Instant) -> list[Decision]:
        """Abort the checkpoint in progress when past its timeout; call it every 100 ms or so."""
        pending = self._pending
        if pending is None or pending.phase is CheckpointPhase.PUBLISHING:
            return []
        elapsed_ms = now.monotonic_ms - pending.triggered.monotonic_ms
        if elapsed_ms < self._settings.timeout_ms:
            return []
        missing = sorted(self._slots - pending.acks.keys())
        return self._abort(
            f"checkpoint expired before all slots acknowledged; timeout_ms="
            f"{self._settings.timeout_ms} phase={pending.phase} missing_slots={missing}",
            now,
        )

    def slot_synced(self, slot: SlotIndex, checkpoint_id: CheckpointId) -> list[Decision]:
        """Say that a slot has frozen its state (message ``SyncDone``)."""
        pending = self._current(checkpoint_id)
        if pending is None or pending.phase is not CheckpointPhase.SYNC:
            return []
        pending.synced.add(self._known(slot))
        if pending.synced != self._slots:
            return []
        pending.phase = CheckpointPhase.ASYNC
        return [ResumeEpochs(checkpoint_id)]

    def slot_acked(
        self, slot: SlotIndex, checkpoint_id: CheckpointId, snapshot: SlotSnapshot
    ) -> list[Decision]:
        """Say that everything of a slot is durable (message ``Ack``); implies `slot_synced`."""
        decisions = self.slot_synced(slot, checkpoint_id)
        pending = self._current(checkpoint_id)
        if pending is None or pending.phase is CheckpointPhase.PUBLISHING:
            return decisions
        pending.acks[self._known(slot)] = snapshot
        if pending.acks.keys() != self._slots:
            return decisions
        pending.phase = CheckpointPhase.PUBLISHING
        snapshots = tuple(pending.acks[index] for index in sorted(pending.acks))
        return [*decisions, PublishCheckpoint(checkpoint_id, pending.epoch, snapshots)]

    def slot_declined(
        self, slot: SlotIndex, checkpoint_id: CheckpointId, reason: str, now: Instant
    ) -> list[Decision]:
        """Say that a slot could not take the checkpoint (message ``Decline``)."""
        pending = self._current(checkpoint_id)
        if pending is None or pending.phase is CheckpointPhase.PUBLISHING:
            return []
        return self._abort(f"slot declined the checkpoint; slot={slot} reason={reason}", now)

    def slot_lost(self, slot: SlotIndex, now: Instant) -> list[Decision]:
        """Say that a slot went away. Not counted as a failure: the failover is under way."""
        pending = self._pending
        if pending is None or pending.phase is CheckpointPhase.PUBLISHING:
            return []
        return self._abort(f"slot was lost; slot={slot}", now, counts=False)

    def published(self, checkpoint_id: CheckpointId, now: Instant) -> list[Decision]:
        """Say that ``CheckpointStore.publish`` has returned: the checkpoint exists and is ours."""
        pending = self._publishing(checkpoint_id)
        if pending is None:
            return []
        self._end(now)
        self._consecutive_failures = 0
        self._committing[checkpoint_id] = set()
        self.history.completed(self._summary(pending, "COMPLETED", ended=now))
        return [CompleteCheckpoint(checkpoint_id, self._savepoints.is_attached(checkpoint_id))]

    def publish_failed(
        self, checkpoint_id: CheckpointId, reason: str, now: Instant
    ) -> list[Decision]:
        """Say that ``CheckpointStore.publish`` raised StorageUnavailableError."""
        if self._publishing(checkpoint_id) is None:
            return []
        return self._abort(f"checkpoint could not be published; reason={reason}", now)

    def number_taken(self, checkpoint_id: CheckpointId, now: Instant) -> list[Decision]:
        """Say that ``publish`` raised ObjectExistsError: a deposed coordinator used the number.

        Not counted as a failure; the next barrier takes a checkpoint with the next number.
        """
        if self._publishing(checkpoint_id) is None:
            return []
        self._savepoints.detach(checkpoint_id)
        decisions = self._abort("number was taken by a deposed coordinator", now, counts=False)
        self._forced = True
        return decisions

    def slot_committed(self, slot: SlotIndex, checkpoint_id: CheckpointId) -> list[Decision]:
        """Say that a slot has published everything up to ``checkpoint_id`` (``Committed``)."""
        decisions: list[Decision] = []
        for committing, slots in sorted(self._committing.items()):
            if committing > checkpoint_id:
                break
            slots.add(self._known(slot))
            if slots == self._slots:
                del self._committing[committing]
                decisions.append(OutputCommitted(committing))
                if trigger_ids := self._savepoints.take(committing):
                    decisions.append(CopySavepoint(committing, trigger_ids))
        return decisions

    def _is_due(self, now: Instant) -> bool:
        interval_ms = self._settings.interval_ms
        if interval_ms is None or now.monotonic_ms - self._last_trigger_ms < interval_ms:
            return False
        return (
            self._last_end_ms is None
            or now.monotonic_ms - self._last_end_ms >= self._settings.min_pause_ms
        )

    def _current(self, checkpoint_id: CheckpointId) -> _Pending | None:
        pending = self._pending
        return pending if pending and pending.checkpoint_id == checkpoint_id else None

    def _publishing(self, checkpoint_id: CheckpointId) -> _Pending | None:
        pending = self._current(checkpoint_id)
        if pending is not None and pending.phase is not CheckpointPhase.PUBLISHING:
            msg = f"a checkpoint was published too early; checkpoint={checkpoint_id}"
            raise InternalError(msg)
        return pending

    def _known(self, slot: SlotIndex) -> SlotIndex:
        if slot not in self._slots:
            msg = f"no such slot in this generation; slot={slot} slots={len(self._slots)}"
            raise InternalError(msg)
        return slot

    def _abort(self, reason: str, now: Instant, *, counts: bool = True) -> list[Decision]:
        pending = self._pending
        if pending is None:
            return []
        held = self.holds_epochs
        self._record_failure(pending, reason, now)
        self._end(now)
        # A forced checkpoint was asked for by somebody who waits for it: it stays asked for.
        self._forced = self._forced or pending.forced
        decisions: list[Decision] = [AbortCheckpoint(pending.checkpoint_id, reason)]
        if held:
            decisions.append(ResumeEpochs(pending.checkpoint_id))
        decisions += self._fail_savepoints(self._savepoints.take(pending.checkpoint_id), reason)
        if counts and pending.counts:
            self._consecutive_failures += 1
        if self._consecutive_failures > self._settings.tolerable_failures:
            decisions.append(
                FailJob(
                    "too many checkpoints failed in a row; "
                    f"failed={self._consecutive_failures} "
                    f"tolerated={self._settings.tolerable_failures} last={reason}"
                )
            )
        return decisions

    def _fail_savepoints(self, trigger_ids: tuple[TriggerId, ...], reason: str) -> list[Decision]:
        return [FailSavepoints(trigger_ids, reason)] if trigger_ids else []

    def _end(self, now: Instant) -> None:
        self._pending = None
        self._last_end_ms = now.monotonic_ms

    def _record_failure(self, pending: _Pending, reason: str, now: Instant) -> None:
        self.history.failed(self._summary(pending, "FAILED", ended=now, failure=reason))

    def _summary(
        self,
        pending: _Pending,
        status: str,
        *,
        ended: Instant | None = None,
        failure: str | None = None,
    ) -> CheckpointSummary:
        acks = pending.acks.values()
        duration_ms = (
            ended.monotonic_ms - pending.triggered.monotonic_ms if ended is not None else None
        )
        return CheckpointSummary(
            id=pending.checkpoint_id,
            status=status,
            generation=self._generation,
            epoch=pending.epoch,
            path=f"{self._root_uri}/{checkpoint_dir(pending.checkpoint_id)}",
            trigger_ms=pending.triggered.wall_ms,
            completed_ms=ended.wall_ms if ended is not None and failure is None else None,
            duration_ms=duration_ms,
            sync_ms=max((ack.sync_ms for ack in acks), default=None),
            async_ms=max((ack.async_ms for ack in acks), default=None),
            state_size_bytes=sum(ack.state_size_bytes for ack in acks),
            uploaded_bytes=sum(ack.uploaded_bytes for ack in acks),
            failure=failure,
        )
