"""Slots of a generation: started where they are missing, then restored from its checkpoint.

The first half of a generation's life, before any epoch. What a slot restores is decided by
`headrace.checkpoint.restore.assign_restore`; this module asks, orders and waits.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

import cloudpickle
import msgspec

from headrace.checkpoint.protocol.savepoints import CHECKPOINT
from headrace.checkpoint.restore import RestoreTarget, assign_restore
from headrace.driver.events import SlotsStarted, StopRequested
from headrace.driver.stream_query import describe_failure
from headrace.engine.epochs import start_slots
from headrace.engine.pump import SlotStarter
from headrace.engine.source_alignment import align_position
from headrace.engine.source_frames import build_source_frame
from headrace.engine.source_readers import SourceLimits
from headrace.errors import IncompatibleStateError, NoRestorableStateError, SlotLostError
from headrace.graph.stream_graph import OperatorKind
from headrace.ids import Epoch, SlotIndex
from headrace.slot.job import WATERMARK_UID
from headrace.slot.messages import Restore

if TYPE_CHECKING:
    from headrace.checkpoint.contract import CheckpointStore, ClaimedGeneration
    from headrace.checkpoint.protocol.types import CheckpointMetadata, SourcePosition
    from headrace.checkpoint.restore import SlotRestore
    from headrace.driver.parts import JobParts
    from headrace.driver.settings import JobSettings
    from headrace.engine.source_frames import SourceStream
    from headrace.graph.job_graph import JobGraph
    from headrace.ids import AttemptId, JobId
    from headrace.slot.messages import HandOver

log = logging.getLogger(__name__)

REGISTRATION_S: Final = 30.0
"""A slot process that has not registered so long after its start has died at it."""


def read_starting_point(
    store: CheckpointStore, path: str, job_id: JobId
) -> tuple[CheckpointMetadata, list[str]]:
    """Read what a job without checkpoints of its own is told to start from (D18, E8).

    Returns:
        the metadata with absolute file URIs, and warnings for the job's status.

    Raises:
        NoRestorableStateError, CorruptStateError: see `CheckpointStore.read_checkpoint`.
        IncompatibleStateError: nothing can follow the checkpoint.
    """
    metadata = store.read_checkpoint(path)
    if metadata.finished:
        msg = (
            "the job had come to its end there, so nothing can follow: start from a checkpoint or "
            f"savepoint that was taken before, or stop without drain next time; path={path}"
        )
        raise IncompatibleStateError(msg)
    warnings = []
    if metadata.kind == CHECKPOINT and metadata.job_id != job_id:
        warnings.append(
            "started from a checkpoint of another job, which that job may delete at any time and "
            "whose unpublished output is published here; take a savepoint instead; "
            f"path={path} other_job={metadata.job_id}"
        )
    return metadata, warnings


def starting_point(
    store: CheckpointStore, claimed: ClaimedGeneration, settings: JobSettings
) -> tuple[ClaimedGeneration, list[str]]:
    """Decide what a generation restores: the job's own state, else what it is told to start from.

    Returns:
        the claim with that, and warnings for the job's status.

    Raises:
        NoRestorableStateError: the state that must be there is not.
        CorruptStateError, IncompatibleStateError: it cannot be read, or nothing can follow it.
    """
    own, path = claimed.restore, settings.restore_path
    check_continuity(own, settings)
    if path is None:
        return claimed, []
    if own is not None:
        log.info(
            "going on from the job's own checkpoint, the path to start from is for its beginning "
            "checkpoint=%s path=%s",
            own.checkpoint_id,
            path,
        )
        return claimed, []
    given, warnings = read_starting_point(store, path, settings.job_id)
    log.info("starting from given checkpoint path=%s", path)
    return claimed.starting_from(given), warnings


def check_continuity(restore: CheckpointMetadata | None, settings: JobSettings) -> None:
    """Check that a job that has completed a checkpoint continues from it or a later one (OP14).

    Storage alone cannot tell: an emptied or a mistyped directory looks like that of a new job.

    Raises:
        NoRestorableStateError: it is not there.
    """
    known = settings.completed_checkpoint
    if known is None or (restore is not None and restore.checkpoint_id >= known):
        return
    found = "none" if restore is None else str(restore.checkpoint_id)
    msg = (
        "the job had completed a checkpoint that is not here, nothing is started: bring the "
        "checkpoints back or correct execution.checkpointing.dir; to start from other state, "
        f"change spec.restoreFrom; completed={known} newest_found={found} "
        f"directory={settings.checkpoints_uri}"
    )
    raise NoRestorableStateError(msg)


def position_to_continue(
    restore: CheckpointMetadata | None, graph: JobGraph, settings: JobSettings
) -> SourcePosition | None:
    """Return where the program's sources go on, None for their beginnings.

    Raises:
        IncompatibleStateError: the program's sources are not the checkpoint's.
    """
    if restore is None or restore.source is None:
        return None
    uids = [source.uid for source in graph.sources()]
    may_drop = settings.allow_non_restored_state
    position, dropped = align_position(restore.source, uids, may_drop=may_drop)
    if dropped:
        log.warning("offsets are left behind sources=%s", dropped)
    return position


def restore_target(graph: JobGraph, settings: JobSettings) -> RestoreTarget:
    """Return what a checkpoint is assigned to."""
    operators = list(graph.operators())
    return RestoreTarget(
        graph.parallelism,
        graph.max_parallelism,
        {operator.uid for operator in operators} | {WATERMARK_UID},
        settings.allow_non_restored_state,
        keyed_uids={operator.uid for operator in operators if operator.kind.is_keyed},
        sink_uids={operator.uid for operator in operators if operator.kind is OperatorKind.SINK},
        parallelism_by_uid={operator.uid: graph.parallelism_of(operator) for operator in operators},
    )


class SlotRestoration:
    """Brings the slots of one generation to the state of its checkpoint."""

    def __init__(self, parts: JobParts, claimed: ClaimedGeneration) -> None:
        self._parts = parts
        self._claimed = claimed
        self._graph = parts.graph
        self._starting = False
        self._counted_on: frozenset[int] = frozenset()
        self._launched_s = 0.0

    def start_slots(self) -> bool:
        """Have a live process for every slot; returns False when the job is to stop instead.

        Raises:
            SlotLostError: not enough of them in time; the message says which are missing.
            HeadraceError: Spark could not run the task that starts them.
        """
        parts, parallelism = self._parts, self._graph.parallelism
        for slot in parts.slots.live():
            if slot >= parallelism:
                parts.slots.drop(slot, "the job has fewer slots now")
        live = frozenset(parts.slots.live())
        parts.status.update(slots_registered=len(live))
        if len(live) < parallelism:
            self._launch(live)
        return self._wait_registered()

    def _launch(self, live: frozenset[int]) -> None:
        """Run the task that starts every slot but ``live`` ones; `SlotsStarted` follows."""
        self._starting, self._counted_on = True, live
        self._launched_s = self._parts.clock.monotonic_s()
        parts, settings = self._parts, self._parts.settings
        starter = SlotStarter(
            job_id=settings.job_id,
            coordinator=f"{settings.control_host}:{parts.slots.port}",
            live=live,
            layout=parts.slots.layout,
            local_dir=settings.local_dir,
        )
        generation = self._claimed.generation

        def start() -> None:
            error: BaseException | None = None
            try:
                start_slots(parts.exchange, starter)
            except Exception as raised:  # noqa: BLE001 - Spark reports every failure this way
                error = raised
            parts.post(SlotsStarted(generation, error))

        threading.Thread(target=start, name="start-slots", daemon=True).start()

    def _wait_registered(self) -> bool:
        parts, parallelism = self._parts, self._graph.parallelism
        timeout_s = parts.settings.slot_request_timeout_s
        deadline = parts.clock.monotonic_s() + timeout_s
        while len(parts.slots.live()) < parallelism:
            if parts.clock.monotonic_s() > deadline:
                missing = sorted(set(range(parallelism)) - set(parts.slots.live()))
                msg = (
                    "not enough slots in time, check executors, their resources and their logs; "
                    f"missing_slots={missing} timeout_s={timeout_s}"
                )
                raise SlotLostError(msg)
            event = parts.next_event()
            if isinstance(event, StopRequested):
                return False
            if isinstance(event, SlotsStarted) and event.generation == self._claimed.generation:
                self._starting = False
                if event.error is not None:
                    raise describe_failure(event.error)
            self._launch_again_if_needed()
            parts.status.update(slots_registered=len(parts.slots.live()))
        return True

    def _launch_again_if_needed(self) -> None:
        """Start slots again that went away while others were started, or died at their start.

        A second process for a slot is harmless: the coordinator admits one and ends the other.
        """
        live = frozenset(self._parts.slots.live())
        missing = frozenset(range(self._graph.parallelism)) - live
        waited_s = self._parts.clock.monotonic_s() - self._launched_s
        overdue = waited_s > REGISTRATION_S
        if missing and not self._starting and (missing & self._counted_on or overdue):
            log.warning("starting slots again missing=%s", sorted(missing))
            self._launch(live)

    def order_restore(self) -> tuple[dict[int, AttemptId], SourceStream]:
        """Send every slot its state.

        Returns:
            the attempt that serves each slot from now on, and the sources: what they ship to
            tasks is built together with what is sent to slots.

        Raises:
            IncompatibleStateError: the program does not fit the checkpoint.
            InvalidConfigError, SourceUnavailableError: a source cannot be read.
            SlotLostError: a slot went away meanwhile.
        """
        settings, graph = self._parts.settings, self._graph
        position = position_to_continue(self._claimed.restore, graph, settings)
        stream = build_source_frame(
            self._parts.spark,
            graph,
            (settings.job_id, self._claimed.generation),
            self._parts.exchange.representatives,
            SourceLimits(settings.max_epoch_rows, graph.parallelism, settings.first_epoch_rows),
            position.ends if position else {},
        )
        pickled = cloudpickle.dumps(stream.shipped)
        assigned = self._assign()
        registered = self._parts.slots.live()
        for slot in range(graph.parallelism):
            order = self._order(SlotIndex(slot), pickled, assigned[slot] if assigned else None)
            if slot not in registered or not self._parts.slots.send(slot, order):
                msg = f"a slot went away before it was restored; slot={slot}"
                raise SlotLostError(msg)
        return {slot: registered[slot].attempt for slot in range(graph.parallelism)}, stream

    def _assign(self) -> tuple[SlotRestore, ...] | None:
        metadata, graph = self._claimed.restore, self._graph
        if metadata is None:
            return None
        plan = assign_restore(metadata, restore_target(graph, self._parts.settings))
        if plan.dropped:
            log.warning("state is left behind operators=%s", list(plan.dropped))
        return plan.slots

    def _order(self, slot: SlotIndex, job_graph: bytes, assigned: SlotRestore | None) -> Restore:
        metadata, graph = self._claimed.restore, self._graph
        first = Epoch(metadata.source.epoch + 1 if metadata and metadata.source else 0)
        return Restore(
            generation=self._claimed.generation,
            parallelism=graph.parallelism,
            max_parallelism=graph.max_parallelism,
            job_graph=job_graph,
            settings=msgspec.msgpack.encode(self._parts.settings.slots),
            checkpoint_id=metadata.checkpoint_id if metadata else None,
            checkpoint_generation=metadata.generation if metadata else None,
            restored_parallelism=metadata.parallelism if metadata else None,
            keyed=list(assigned.keyed) if assigned else [],
            operator=list(assigned.operator) if assigned else [],
            committables=list(assigned.committables) if assigned else [],
            first_epoch=first,
            watermark_ms=metadata.watermark_ms if metadata else None,
            hand_over=self._hand_over(slot),
        )

    def _hand_over(self, slot: SlotIndex) -> HandOver | None:
        """Return how prepared slots take over, if this very checkpoint is what they wait for."""
        switch, metadata = self._parts.rescales.switch, self._claimed.restore
        if switch is None or metadata is None or metadata.checkpoint_id != switch.checkpoint_id:
            return None
        return switch.hand_over_to(slot)
