"""One generation of a job: slots restored, epochs run, checkpoints taken, until it ends.

Runs on the job master's thread; everything that happens arrives as an event
(`headrace.driver.events`). A generation ends by returning how, or by raising the error that failed
it; the job master decides what comes after. Nothing of it survives except what is durable and the
slot processes, which roll back by themselves when the next generation restores them.
"""

from __future__ import annotations

import enum
import logging
from typing import TYPE_CHECKING

from headrace.checkpoint.coordinator import Instant
from headrace.checkpoint.decisions import (
    AbortCheckpoint,
    CompleteCheckpoint,
    CopySavepoint,
    FailJob,
    FailSavepoints,
    OutputCommitted,
    PublishCheckpoint,
    ResumeEpochs,
    TriggerCheckpoint,
)
from headrace.driver.admission import EpochAdmission
from headrace.driver.events import (
    EpochFinished,
    FinalEpochFinished,
    LayoutStarted,
    PublishDone,
    QueryEnded,
    SavepointEnded,
    SlotGone,
    SlotSaid,
    SlotsStarted,
    StopRequested,
    Tick,
)
from headrace.driver.failures import check_progress, typed_failure
from headrace.driver.publishing import CheckpointPublisher
from headrace.driver.rescale_duty import RescaleDuty
from headrace.driver.restoring import SlotRestoration, position_to_continue
from headrace.driver.savepoint_duty import SavepointDuty
from headrace.driver.stream_query import StreamQuery, describe_failure
from headrace.engine.epochs import EpochPlan, EpochRunner, empty_rows
from headrace.engine.read_limits import ReadLimits
from headrace.errors import (
    EpochAbortedError,
    FencedError,
    InternalError,
    ObjectExistsError,
    SlotLostError,
)
from headrace.ids import Epoch, SlotIndex
from headrace.slot.messages import (
    Ack,
    Committed,
    Decline,
    Failed,
    NotifyAborted,
    NotifyComplete,
    Output,
    Restored,
    SyncDone,
)
from headrace.slot.messages import TriggerCheckpoint as TriggerOrder
from headrace.slot.wire_errors import from_error_info

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.checkpoint.contract import ClaimedGeneration
    from headrace.checkpoint.decisions import Decision
    from headrace.driver.events import EpochReply, Event
    from headrace.driver.parts import JobParts
    from headrace.driver.rescaling import Switch
    from headrace.engine.source_frames import SourceStream
    from headrace.ids import AttemptId, CheckpointId, OperatorUid
    from headrace.slot.messages import FromSlot, ToSlot

log = logging.getLogger(__name__)


class Outcome(enum.Enum):
    """How a generation ended without failing."""

    FINISHED = "finished"
    STOPPED = "stopped"
    RESCALED = "rescaled"  # state was handed over: the next generation runs the new layout
    RESUMED = "resumed"  # a stop failed: the next generation goes on from the last checkpoint


class _Phase(enum.Enum):
    RUNNING = "running"
    DRAINING = "draining"  # no more epochs, but one final epoch may be to come
    FINAL_EPOCH = "final epoch"  # event time moves to its end
    FINAL_CHECKPOINT = "final checkpoint"
    SAVING = "saving"  # the last savepoint is being copied: slots are no longer needed
    STOPPING = "stopping"


class GenerationRun:
    """Runs one generation; `run` is called once."""

    def __init__(self, parts: JobParts, claimed: ClaimedGeneration) -> None:
        self._parts = parts
        self._settings = parts.settings
        self._graph = parts.graph
        self._claimed = claimed
        self._generation = claimed.generation
        self._coordinator = parts.coordinator
        self._phase = _Phase.RUNNING
        self._query: StreamQuery | None = None
        self._source_ends: Mapping[OperatorUid, str] = {}
        self._reply: EpochReply | None = None
        self._last_epoch: Epoch | None = None
        self._position_epoch: Epoch | None = None
        self._final_checkpoint: CheckpointId | None = None
        self._duty = SavepointDuty(parts, claimed.generation)
        self._rescale = RescaleDuty(parts, claimed.generation)
        self._ends_time = False
        """Whether the last epoch is followed by the end of event time; settled at its barrier."""
        self.switch: Switch | None = None
        """What follows after `Outcome.RESCALED`."""
        self._scratch = parts.settings.scratch_dir / f"generation-{claimed.generation}"
        self._publisher = CheckpointPublisher(parts, claimed, self._scratch)
        self._restored: set[int] = set()
        self._attempts: dict[int, AttemptId] = {}
        self._watermark_ms: int | None = None
        self._barrier_watermark_ms: int | None = None

    # --- life -------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Run until the job finishes, is stopped or fails.

        Raises:
            HeadraceError: what failed the generation.
        """
        restore = self._claimed.restore
        final = restore if restore is not None and restore.finished else None
        if final is not None:
            log.info("the job had finished before checkpoint=%s", final.checkpoint_id)
            if not any(slot.committables for slot in final.slots):
                return Outcome.FINISHED
        try:
            stream = self._restore_slots()
            if stream is None:
                return Outcome.STOPPED
            if final is not None:
                return Outcome.FINISHED  # restoring it has published its pending output
            self._start_query(stream)
            self._parts.rescales.generation_runs(running=True)
            return self._loop()
        finally:
            self._parts.rescales.generation_runs(running=False)
            if self.switch is None:
                self._rescale.give_up("the job failed over or ended")
            self._duty.generation_ended(switched=self.switch is not None)
            self._stop_query()

    def _loop(self) -> Outcome:
        while True:
            outcome = self._handle(self._parts.next_event())
            if outcome is not None:
                return outcome

    def _stop_query(self) -> None:
        if self._reply is not None:
            self._reply.release()
        if self._query is not None and not self._query.stop():
            msg = "Spark's query cannot be stopped, the driver must restart"
            raise InternalError(msg)

    # --- slots ------------------------------------------------------------------------------

    def _restore_slots(self) -> SourceStream | None:
        """Have every slot hold the checkpoint's state.

        Returns the sources, or None when the job is to stop instead.
        """
        restoration = SlotRestoration(self._parts, self._claimed)
        if not restoration.start_slots():
            return None
        self._attempts, stream = restoration.order_restore()
        self._restored = set()
        while len(self._restored) < self._graph.parallelism:
            self._handle(self._parts.next_event())
            if self._phase is _Phase.STOPPING:
                return None
        restore = self._claimed.restore
        log.info(
            "all slots restored generation=%s checkpoint=%s slots=%s",
            self._generation,
            restore.checkpoint_id if restore else None,
            self._graph.parallelism,
        )
        return stream

    # --- epochs -----------------------------------------------------------------------------

    def _start_query(self, stream: SourceStream) -> None:
        parts, settings = self._parts, self._settings
        live = parts.slots.live()
        plan = EpochPlan(
            settings.job_id,
            self._generation,
            len(self._graph.levels) - 1,
            tuple((live[s].address, live[s].unix_name) for s in range(self._graph.parallelism)),
        )
        self._source_ends = stream.ends.stored
        now = Instant.read(parts.clock)
        self._execute(
            self._coordinator.start_generation(
                self._generation,
                next_checkpoint_id=self._claimed.next_checkpoint_id,
                parallelism=self._graph.parallelism,
                restored=self._claimed.restore is not None,
                now=now,
            )
        )
        position = position_to_continue(self._claimed.restore, self._graph, settings)
        if position is not None:
            self._position_epoch = position.epoch
        admission = EpochAdmission(ReadLimits(parts.spark), settings.epoch_size)
        self._query = StreamQuery(
            self._generation,
            EpochRunner(parts.exchange, plan),
            admission,
            stream.ends,
            parts.post,
            parts.clock,
        )
        self._query.start(stream.rows, self._scratch, position, settings.min_epoch_s)

    def _handle(self, event: Event) -> Outcome | None:  # noqa: C901, PLR0911, PLR0912 - one case an event
        if getattr(event, "generation", self._generation) != self._generation:
            return None
        if isinstance(event, (SlotSaid, SlotGone)) and self._rescale.is_about_next_layout(event):
            self._rescale.take(event)
            return None
        if self._phase is _Phase.SAVING and isinstance(event, (SlotSaid, SlotGone, Tick)):
            return None
        match event:
            case EpochFinished():
                self._epoch_finished(event)
            case QueryEnded():
                return self._query_ended(event)
            case FinalEpochFinished():
                return self._final_epoch_finished(event)
            case SlotSaid():
                return self._slot_said(event)
            case SlotGone():
                self._slot_gone(event)
            case PublishDone():
                return self._published(event)
            case SavepointEnded():
                is_made = self._duty.stop_ended(event)
                if is_made is not None:
                    return Outcome.FINISHED if is_made else Outcome.RESUMED
            case StopRequested():
                return self._stop_requested(event)
            case SlotsStarted():
                if event.error is not None:
                    raise describe_failure(event.error)
            case LayoutStarted():
                self._rescale.layout_started(event)
            case Tick():
                self._rescale.tick()
                check_progress(self._parts, self._query.running_s() if self._query else 0.0)
                return self._execute(self._coordinator.tick(Instant.read(self._parts.clock)))
        return None

    def _epoch_finished(self, event: EpochFinished) -> None:
        self._last_epoch = event.epoch
        self._position_epoch = event.epoch
        self._reply = event.reply
        self._parts.progress.epoch_finished(event)
        self._watermark_ms = event.results[0].watermark_ms
        if self._phase is _Phase.RUNNING:
            self._duty.take_orders()
            self._rescale.first_epoch()
        if self._phase is _Phase.RUNNING and self._is_last_epoch(event):
            self._ends_time = self._duty.runs_to_the_end and not self._rescale.is_switching
            # Let Spark commit this epoch, then take no more: the final epoch runs outside it.
            log.info("no more epochs epoch=%s stop=%s", event.epoch, self._duty.stop is not None)
            self._phase = _Phase.DRAINING
            if self._query is not None:
                self._query.request_stop()
            event.reply.release()
            return
        now = Instant.read(self._parts.clock)
        self._execute(self._coordinator.epoch_finished(event.epoch, now))
        if not self._coordinator.holds_epochs:
            event.reply.release()

    def _query_ended(self, event: QueryEnded) -> Outcome | None:
        if event.error is not None:
            raise typed_failure(self._parts, self._generation, event.error)
        if self._phase is _Phase.STOPPING:
            return Outcome.STOPPED
        if self._phase is not _Phase.DRAINING:
            msg = "Spark's query ended by itself"
            raise EpochAbortedError(msg)
        if not self._ends_time:
            self._phase = _Phase.FINAL_CHECKPOINT
            return self._try_final_checkpoint()
        if self._query is None or self._last_epoch is None:
            msg = "a final epoch before the first one"
            raise InternalError(msg)
        self._phase = _Phase.FINAL_EPOCH
        self._query.run_final(empty_rows(self._parts.spark), Epoch(self._last_epoch + 1))
        return None

    def _final_epoch_finished(self, event: FinalEpochFinished) -> Outcome | None:
        if self._phase is not _Phase.FINAL_EPOCH:
            return None
        self._parts.progress.records(event.results)
        self._watermark_ms = event.results[0].watermark_ms
        self._phase = _Phase.FINAL_CHECKPOINT
        return self._try_final_checkpoint()

    def _is_last_epoch(self, event: EpochFinished) -> bool:
        """Whether the barrier that stands is the last one of this generation's epochs."""
        return self._duty.stop is not None or event.input_ended or self._rescale.at_barrier()

    def _try_final_checkpoint(self) -> Outcome | None:
        if self._final_checkpoint is not None or self._last_epoch is None:
            return None
        if self._duty.stop is None:
            self._coordinator.force()  # the last one, also before a switch
        now = Instant.read(self._parts.clock)
        decisions = self._coordinator.epoch_finished(self._last_epoch, now)
        for decision in decisions:
            if isinstance(decision, TriggerCheckpoint):
                self._final_checkpoint = decision.checkpoint_id
        return self._execute(decisions)

    def _stop_requested(self, event: StopRequested) -> Outcome | None:
        if self._phase in {_Phase.FINAL_EPOCH, _Phase.FINAL_CHECKPOINT, _Phase.SAVING}:
            return Outcome.STOPPED  # the query has ended, there is nothing to wait for
        self._phase = _Phase.STOPPING
        if self._query is not None:
            self._query.request_stop()
        if self._reply is not None:
            self._reply.release()
        log.info("stopping generation=%s cancel=%s", self._generation, event.cancel)
        return None

    # --- slots' messages --------------------------------------------------------------------

    def _slot_said(self, event: SlotSaid) -> Outcome | None:  # noqa: PLR0911 - one case a message
        message: FromSlot = event.message
        slot = SlotIndex(event.slot)
        now = Instant.read(self._parts.clock)
        if isinstance(message, Output):
            self._parts.output(message)
            return None
        if getattr(message, "generation", self._generation) != self._generation:
            return None
        match message:
            case Restored():
                self._restored.add(event.slot)
                self._parts.progress.restored(event.slot, message)
            case SyncDone():
                return self._execute(self._coordinator.slot_synced(slot, message.checkpoint_id))
            case Ack():
                self._rescale.acked(event.slot, message)
                return self._execute(
                    self._coordinator.slot_acked(slot, message.checkpoint_id, message.snapshot)
                )
            case Decline():
                reason = f"{message.error.kind}: {message.error.message}"
                return self._execute(
                    self._coordinator.slot_declined(slot, message.checkpoint_id, reason, now)
                )
            case Committed():
                return self._execute(self._coordinator.slot_committed(slot, message.checkpoint_id))
            case Failed():
                raise from_error_info(message.error)
        return None

    def _slot_gone(self, event: SlotGone) -> None:
        if self._attempts.get(event.slot) != event.attempt:
            return  # an attempt of an earlier generation
        msg = f"a slot process went away; slot={event.slot} attempt={event.attempt}"
        raise SlotLostError(msg)

    def _tell_slots(self, order: ToSlot) -> None:
        for slot in range(self._graph.parallelism):
            self._parts.slots.send(slot, order)

    # --- checkpoints ------------------------------------------------------------------------

    def _execute(self, decisions: list[Decision]) -> Outcome | None:  # noqa: C901, PLR0912 - one case a decision
        outcome: Outcome | None = None
        for decision in decisions:
            match decision:
                case TriggerCheckpoint(checkpoint_id, epoch):
                    self._barrier_watermark_ms = self._watermark_ms
                    purpose = self._rescale.triggered(checkpoint_id)
                    self._tell_slots(TriggerOrder(self._generation, checkpoint_id, epoch, purpose))
                case ResumeEpochs():
                    if self._reply is not None:
                        self._reply.release()
                case PublishCheckpoint():
                    is_final = decision.checkpoint_id == self._final_checkpoint
                    finished = is_final and self._ends_time
                    self._publisher.publish(
                        decision, self._barrier_watermark_ms, self._source_ends, finished=finished
                    )
                case CompleteCheckpoint(checkpoint_id, held):
                    if held:
                        self._parts.savepoints.hold(checkpoint_id)
                    self.switch = self._rescale.completed(checkpoint_id)
                    if self.switch is not None:
                        # Output is published by its new owners: to tell the old ones would only
                        # have both claim the same transactions.
                        outcome = Outcome.RESCALED
                        continue
                    self._tell_slots(NotifyComplete(self._generation, checkpoint_id))
                    if not self._rescale.is_catching_up:  # slots still read files of its round
                        self._parts.subsume()
                case AbortCheckpoint(checkpoint_id, reason):
                    log.warning("checkpoint failed checkpoint=%s reason=%s", checkpoint_id, reason)
                    self._tell_slots(NotifyAborted(self._generation, checkpoint_id))
                    self._rescale.aborted(checkpoint_id)
                    self._final_checkpoint = None
                case OutputCommitted(checkpoint_id):
                    if checkpoint_id == self._final_checkpoint and self._duty.stop is None:
                        outcome = Outcome.FINISHED
                case CopySavepoint():
                    if self._duty.copy(decision):
                        self._phase = _Phase.SAVING
                case FailSavepoints():
                    if self._duty.fail(decision):
                        outcome = Outcome.RESUMED
                case FailJob(reason):
                    raise EpochAbortedError(reason)
        self._parts.progress.checkpoints(self._coordinator.history)
        if self._phase is _Phase.FINAL_CHECKPOINT and outcome is None:
            return self._try_final_checkpoint() if self._final_checkpoint is None else None
        return outcome

    def _published(self, event: PublishDone) -> Outcome | None:
        now = Instant.read(self._parts.clock)
        match event.error:
            case None:
                if event.metadata is not None:
                    self._rescale.published(event.metadata)
                return self._execute(self._coordinator.published(event.checkpoint_id, now))
            case FencedError() as fenced:
                raise fenced
            case ObjectExistsError():
                return self._execute(self._coordinator.number_taken(event.checkpoint_id, now))
            case error:
                reason = f"{type(error).__name__}: {error}"
                return self._execute(
                    self._coordinator.publish_failed(event.checkpoint_id, reason, now)
                )
