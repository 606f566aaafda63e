"""The life of a job over its generations: claim, run, fail over, until it ends (Flink's JobMaster).

One thread. Every failure ends a generation; the restart strategy says whether and when the next one
is claimed. The state of record is what storage holds: a new generation never continues from memory.
"""

from __future__ import annotations

import logging
import queue
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.api.driver import JobState
from headrace.checkpoint.coordinator import CheckpointCoordinator
from headrace.checkpoint.settings import ExternalizedRetention
from headrace.checkpoint.storage.opening import open_store
from headrace.checkpoint.store import ObjectCheckpointStore
from headrace.driver.deployment import local_volume
from headrace.driver.events import SlotGone, SlotSaid, StopRequested
from headrace.driver.generation import GenerationRun, Outcome
from headrace.driver.parts import JobParts
from headrace.driver.progress import JobProgress
from headrace.driver.rescaling import RescaleService
from headrace.driver.restart import GiveUp, PastFailure
from headrace.driver.restoring import starting_point
from headrace.driver.savepoints import SavepointService, SavepointSettings
from headrace.driver.slot_service import SlotService
from headrace.engine.exchange import SlotExchange
from headrace.errors import FencedError, HeadraceError, InternalError
from headrace.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.checkpoint.contract import ClaimedGeneration
    from headrace.checkpoint.held import HeldCheckpoints
    from headrace.clock import Clock
    from headrace.driver.events import Event
    from headrace.driver.rescaling import Layout
    from headrace.driver.settings import JobSettings
    from headrace.driver.status import StatusBoard
    from headrace.graph.job_graph import JobGraph
    from headrace.ids import AttemptId
    from headrace.slot.messages import FromSlot, Output

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JobResult:
    """How a job ended without failing."""

    state: JobState
    records_in: int
    runtime_ms: int


def open_checkpoint_store(
    settings: JobSettings, clock: Clock, held: HeldCheckpoints | None = None
) -> ObjectCheckpointStore:
    """Return the job's checkpoints for one life of a coordinator; opens no connection."""
    return ObjectCheckpointStore(
        open_store(settings.checkpoints_uri, settings.storage_options),
        settings.job_id,
        clock=clock,
        open_elsewhere=lambda uri: open_store(uri, settings.storage_options),
        held=held,
    )


class JobMaster:
    """Runs one job on one Spark session. `run` blocks; `stop` may be called from any thread."""

    def __init__(
        self,
        settings: JobSettings,
        graph: JobGraph,
        spark: SparkSession,
        status: StatusBoard,
        clock: Clock,
        output: Callable[[Output], None],
    ) -> None:
        self._settings = settings
        self._graph = graph
        self._spark = spark
        self._status = status
        self._clock = clock
        self._output = output
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._failures: list[PastFailure] = []
        self._stop: StopRequested | None = None
        self._slots = SlotService(settings.job_id, settings.token, self, clock)
        self.rescales = RescaleService(
            clock, parallelism=graph.parallelism, max_parallelism=graph.max_parallelism
        )
        self.savepoints = SavepointService(
            SavepointSettings(
                job_id=settings.job_id,
                checkpoints_uri=settings.checkpoints_uri,
                savepoints_uri=settings.savepoints_uri,
                scratch_dir=local_volume(),
                form=settings.savepoint_format,
                source_uids=tuple(source.uid for source in graph.sources()),
            ),
            clock,
            open_store=lambda uri: open_store(uri, settings.storage_options),
            completed=lambda location: status.update(last_savepoint=location),
        )

    def stop(self, *, cancel: bool) -> None:
        """Ask the job to end between two epochs; ``cancel`` also applies the retention policy."""
        self._stop = StopRequested(cancel)
        self._events.put(self._stop)

    # --- SlotListener -----------------------------------------------------------------------

    def slot_message(self, slot: int, attempt: AttemptId, message: FromSlot) -> None:
        """Queue what a slot said."""
        self._events.put(SlotSaid(slot, attempt, message))

    def slot_lost(self, slot: int, attempt: AttemptId) -> None:
        """Queue that a slot is gone."""
        self._events.put(SlotGone(slot, attempt))

    # --- life -------------------------------------------------------------------------------

    def run(self) -> JobResult:
        """Run the job to its end.

        Raises:
            HeadraceError: the job has failed for good; the status holds the same error.
        """
        started = self._clock.monotonic_s()
        parts = self._build_parts()
        finished = False
        try:
            outcome = self._run_generations(parts)
            finished = outcome is Outcome.FINISHED
        finally:
            self._slots.stop()
            self.savepoints.close(finish_copies=finished)
        state = JobState.FINISHED if outcome is Outcome.FINISHED else JobState.CANCELED
        self._status.update(state=state)
        runtime_ms = int((self._clock.monotonic_s() - started) * 1000)
        return JobResult(state, self._status.get().records_in, runtime_ms)

    def _build_parts(self) -> JobParts:
        settings = self._settings
        coordinator = CheckpointCoordinator(settings.checkpoint, root_uri=settings.checkpoints_uri)
        self._slots.start(settings.control_host, settings.control_port)
        return JobParts(
            settings=settings,
            graph=self._graph,
            clock=self._clock,
            spark=self._spark,
            exchange=SlotExchange(self._spark, self._graph.parallelism),
            slots=self._slots,
            store=self._new_store(),
            coordinator=coordinator,
            savepoints=self.savepoints,
            rescales=self.rescales,
            status=self._status,
            progress=JobProgress(self._status, self._clock),
            output=self._output,
            events=self._events,
        )

    def _new_store(self) -> ObjectCheckpointStore:
        return open_checkpoint_store(self._settings, self._clock, self.savepoints.held)

    def _run_generations(self, parts: JobParts) -> Outcome:
        while True:
            try:
                claimed = self._claim(parts)
                generation = GenerationRun(parts, claimed)
                outcome = generation.run()
            except FencedError as error:
                self._status.fail(JobState.FAILED, error)
                raise
            except HeadraceError as error:
                if self._undo_switch(parts, error):
                    continue
                self._recover(parts, error)
                if self._stop is not None:
                    return Outcome.STOPPED
                continue
            if outcome is Outcome.RESCALED and generation.switch is not None:
                self.rescales.switch = generation.switch
                self._use(parts, generation.switch.new)
                continue
            if outcome is Outcome.RESUMED:
                continue
            if outcome is Outcome.STOPPED and self._stop is not None and self._stop.cancel:
                self._apply_retention(parts)
            return outcome

    def _use(self, parts: JobParts, layout: Layout) -> None:
        """Run the next generation on a layout."""
        parts.graph, parts.exchange = layout.graph, layout.exchange
        self._slots.switch(layout.number)
        self._status.update(parallelism=layout.graph.parallelism)

    def _undo_switch(self, parts: JobParts, error: HeadraceError) -> bool:
        """Return to the old parallelism when the new one has not proved itself.

        Returns whether there was something to undo. That is no restart of the job's own: whatever
        failed, the next generation runs what ran before the rescale.
        """
        switch, self.rescales.switch = self.rescales.switch, None
        if switch is None:
            return False
        parts.progress.failed()
        self._use(parts, switch.old)
        self._slots.drop_layout(switch.new.number, "the rescale has failed")
        switch.new.exchange.close()
        self.rescales.failed(f"the job failed at the new parallelism: {error.kind}: {error}")
        return True

    def _claim(self, parts: JobParts) -> ClaimedGeneration:
        parts.store = self._new_store()
        claimed, warnings = starting_point(
            parts.store, parts.store.claim_generation(), self._settings
        )
        self._warn(warnings)
        restore = claimed.restore
        log.info(
            "generation claimed generation=%s checkpoint=%s",
            claimed.generation,
            restore.checkpoint_id if restore else None,
        )
        if self.rescales.switch is None:
            parts.clean_orphans()  # a hand-over's changes belong to no checkpoint
        reach("driver.after-claim")
        parts.progress.generation_started()
        self._status.update(
            state=JobState.RUNNING,
            generation=int(claimed.generation),
            restored_from=restore.checkpoint_id if restore else None,
            epochs_committed=0,
        )
        return claimed

    def _warn(self, warnings: list[str]) -> None:
        """Show warnings in the job's status, each once."""
        shown = self._status.get().warnings
        new = [warning for warning in warnings if warning not in shown]
        for warning in new:
            log.warning("%s", warning)
        self._status.update(warnings=[*shown, *new])

    def _recover(self, parts: JobParts, error: HeadraceError) -> None:
        """Note a failure and wait as the restart strategy says, or raise it for good."""
        parts.progress.failed()
        now_ms = self._clock.now_ms()
        if isinstance(error, InternalError) or not error.restartable:
            final = _unless_fenced(parts, error)
            self._status.fail(JobState.FAILED, final)
            raise final
        decision = self._settings.restart.next_delay(self._failures, now_ms)
        if isinstance(decision, GiveUp):
            error.add_note(f"the job is not restarted: {decision.reason}")
            self._status.fail(JobState.FAILED, error)
            raise error
        self._failures.append(PastFailure(now_ms, decision.delay_ms))
        self._status.fail(JobState.RESTARTING, error)
        self._status.update(restarts=len(self._failures))
        log.warning(
            "failing over restarts=%s delay_ms=%s kind=%s cause=%s",
            len(self._failures),
            decision.delay_ms,
            error.kind,
            error,
        )
        deadline = self._clock.monotonic_s() + decision.delay_ms / 1000
        while (left := deadline - self._clock.monotonic_s()) > 0 and self._stop is None:
            event = parts.next_event(timeout_s=min(left, 0.2))
            if isinstance(event, StopRequested):
                return

    def _apply_retention(self, parts: JobParts) -> None:
        retention = self._settings.checkpoint.externalized_retention
        if retention is ExternalizedRetention.DELETE_ON_CANCELLATION:
            deleted = parts.store.discard_all()
            log.info("checkpoints deleted on cancellation objects=%s", deleted)


def _unless_fenced(parts: JobParts, error: HeadraceError) -> HeadraceError:
    """Return the error, or the fence: storage changes under a deposed driver, nothing is lost."""
    try:
        parts.store.check_fence()
    except FencedError as fenced:
        return fenced
    except HeadraceError as unknown:
        log.warning("whether this driver is deposed cannot be told: %s", unknown)
    return error
