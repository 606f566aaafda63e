"""What one generation does about a live rescale: base, preparation, switch, verification.

Runs on the job master's thread; `headrace.driver.rescaling` tells the whole story. A failure here
never fails the generation: the rescale is given up and the job goes on.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import sys
import threading
from typing import TYPE_CHECKING, Final

import cloudpickle
import msgspec

from headrace.checkpoint.restore import assign_restore
from headrace.driver.events import LayoutStarted, SlotGone
from headrace.driver.rescaling import Layout, RescalePhase, Switch, changes_for
from headrace.driver.restoring import REGISTRATION_S, restore_target
from headrace.engine.epochs import start_slots
from headrace.engine.exchange import SlotExchange
from headrace.engine.pump import SlotStarter
from headrace.ids import SlotIndex
from headrace.slot.messages import AbandonRescale, CatchUp, HandOver, Prepare, Prepared, Rescale

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import CheckpointMetadata
    from headrace.driver.events import SlotSaid
    from headrace.driver.parts import JobParts
    from headrace.driver.rescaling import Changes, RescaleOperation
    from headrace.ids import AttemptId, CheckpointId, Generation
    from headrace.slot.messages import Ack

log = logging.getLogger(__name__)

ROUNDS_MAX: Final = 3
"""Rounds of catching up before the switch comes anyway: what is left need not ever be small."""
SMALL_BYTES: Final = 16 << 20
"""Changes that are handed over within the pause without another round."""


class _Step(enum.Enum):
    IDLE = enum.auto()
    WANT_BASE = enum.auto()
    BASE = enum.auto()  # the base checkpoint is in progress
    STARTING = enum.auto()  # processes of the next layout are coming up
    PREPARING = enum.auto()
    WANT_ROUND = enum.auto()
    ROUND = enum.auto()  # a checkpoint takes along what has changed
    CATCHING_UP = enum.auto()
    READY = enum.auto()
    SWITCHING = enum.auto()
    VERIFYING = enum.auto()


class RescaleDuty:
    """A rescale in the life of one generation."""

    def __init__(self, parts: JobParts, generation: Generation) -> None:
        self._parts = parts
        self._generation = generation
        self._service = parts.rescales
        self._step = _Step.IDLE
        self._order: RescaleOperation | None = None
        self._base: CheckpointId | None = None
        self._round: CheckpointId | None = None
        self._rounds = 0
        self._left_bytes = sys.maxsize
        """Size of the last round's changes: the next one's are smaller."""
        self._metadata: CheckpointMetadata | None = None
        self._directories: dict[str, str] = {}
        self._changes: Changes = {}
        self._number: int | None = None
        self._layout: Layout | None = None
        self._abandoned = threading.Event()
        self._attempts: dict[int, AttemptId] = {}
        self._prepared: set[int] = set()
        self._began_s = 0.0
        self._started_s = 0.0
        self._paused_s = 0.0

    # --- decisions that the generation asks for -------------------------------------------------

    @property
    def is_switching(self) -> bool:
        """Whether this generation ends with a hand-over."""
        return self._step is _Step.SWITCHING

    @property
    def is_catching_up(self) -> bool:
        """Whether new slots read changes that no checkpoint's metadata knows."""
        return self._step is _Step.CATCHING_UP

    def at_barrier(self) -> bool:
        """A barrier stands and no checkpoint is in progress; returns whether to switch now."""
        if self._step is _Step.READY:
            self._step = _Step.SWITCHING
            self._paused_s = self._parts.clock.monotonic_s()
            self._service.enter(RescalePhase.SWITCHING)
            return True
        order = self._service.waiting()
        if self._step is _Step.IDLE and order is not None:
            self._order = order
            self._step = _Step.WANT_BASE
            self._began_s = self._parts.clock.monotonic_s()
            self._service.enter(RescalePhase.PREPARING)
        if self._step in {_Step.WANT_BASE, _Step.WANT_ROUND}:
            self._parts.coordinator.force()
        return False

    def triggered(self, checkpoint_id: CheckpointId) -> Rescale:
        """Say what a checkpoint that begins now is for."""
        if self._step is _Step.WANT_BASE:
            self._step, self._base = _Step.BASE, checkpoint_id
            self._directories.clear()
            return Rescale.BASE
        if self._step is _Step.WANT_ROUND:
            self._step, self._round = _Step.ROUND, checkpoint_id
            self._changes.clear()
            return Rescale.ROUND
        return Rescale.HAND_OVER if self._step is _Step.SWITCHING else Rescale.NONE

    def acked(self, slot: int, ack: Ack) -> None:
        """Take what a slot says beside its snapshot."""
        if ack.checkpoint_id == self._base:
            for uid, directory in ack.directories.items():
                self._directories[f"{uid}/{slot}"] = directory
        if self._step is _Step.SWITCHING or ack.checkpoint_id == self._round:
            for uid, file in ack.changes.items():
                self._changes.setdefault(uid, {})[slot] = file
                self._service.moved(file.size_bytes)

    def aborted(self, checkpoint_id: CheckpointId) -> None:
        """A checkpoint was given up: a base is taken again, changes are not known any more.

        Those of a round are lost for good: what was prepared leads nowhere.
        """
        if self._step is _Step.BASE and checkpoint_id == self._base:
            self._step, self._base = _Step.WANT_BASE, None
        if self._step is _Step.ROUND and checkpoint_id == self._round:
            self.give_up(f"a checkpoint of the rescale failed; checkpoint={checkpoint_id}")
        if self._step is _Step.SWITCHING:
            self._changes.clear()

    def published(self, metadata: CheckpointMetadata) -> None:
        """Remember the base as it was stored."""
        if metadata.checkpoint_id == self._base:
            self._metadata = metadata

    def completed(self, checkpoint_id: CheckpointId) -> Switch | None:
        """A checkpoint exists; returns the switch when it was the last at this parallelism."""
        if self._step is _Step.BASE and checkpoint_id == self._base:
            self._start_layout()
        elif self._step is _Step.ROUND and checkpoint_id == self._round:
            self._catch_up()
        elif self._step is _Step.VERIFYING:
            self._finish()
        elif self._step is _Step.SWITCHING and self._layout is not None and self._base is not None:
            old = Layout(self._parts.slots.layout, self._parts.graph, self._parts.exchange)
            return Switch(
                old, self._layout, checkpoint_id, self._base, self._changes, self._paused_s
            )
        return None

    def first_epoch(self) -> None:
        """The first epoch of a generation has ended: after a switch, the pause is over."""
        switch = self._service.switch
        if switch is None or self._step is not _Step.IDLE:
            return
        pause_s = self._parts.clock.monotonic_s() - switch.paused_s
        self._service.resumed(round(pause_s * 1000))
        self._service.enter(RescalePhase.VERIFYING)
        self._step = _Step.VERIFYING
        self._parts.coordinator.force()

    # --- the next layout ------------------------------------------------------------------------

    def _start_layout(self) -> None:
        """Start processes for the next layout, beside the running job."""
        if self._order is None:
            return
        parts, number = self._parts, self._parts.slots.new_layout()
        self._number = number
        abandoned = self._abandoned = threading.Event()
        self._step = _Step.STARTING
        graph = dataclasses.replace(parts.graph, parallelism=self._order.to_parallelism)
        settings, generation = parts.settings, self._generation
        starter = SlotStarter(
            job_id=settings.job_id,
            coordinator=f"{settings.control_host}:{parts.slots.port}",
            live=frozenset(),
            layout=number,
            local_dir=settings.local_dir,
        )

        def start() -> None:
            try:
                exchange = SlotExchange(parts.spark, graph.parallelism)
                start_slots(exchange, starter)
            except Exception as error:  # noqa: BLE001 - Spark reports every failure this way
                parts.post(LayoutStarted(generation, None, error))
                return
            if abandoned.is_set():
                exchange.close()
                return
            parts.post(LayoutStarted(generation, Layout(number, graph, exchange), None))

        threading.Thread(target=start, name="start-layout", daemon=True).start()

    def layout_started(self, event: LayoutStarted) -> None:
        """The task that starts the processes has ended; they register now."""
        if event.layout is None:
            self.give_up(f"slots of the new parallelism could not be started: {event.error}")
            return
        if self._step is not _Step.STARTING:  # given up just before
            event.layout.exchange.close()
            return
        self._layout = event.layout
        self._started_s = self._parts.clock.monotonic_s()

    def tick(self) -> None:
        """Prepare when every process has registered; give up when it takes too long."""
        if self._step in {_Step.IDLE, _Step.SWITCHING, _Step.VERIFYING}:
            return
        parts = self._parts
        waited_s = parts.clock.monotonic_s() - self._began_s
        if waited_s > parts.settings.rescale_timeout_s:
            self.give_up(f"not in time, see headrace.rescale.timeout; waited_s={waited_s:.0f}")
            return
        if self._layout is None or self._step is not _Step.STARTING:
            return
        live = parts.slots.live(self._layout.number)
        if len(live) < self._layout.graph.parallelism:
            if parts.clock.monotonic_s() - self._started_s > REGISTRATION_S:
                self.give_up(f"slots have not registered; registered={sorted(live)}")
        else:
            self._attempts = {slot: live[slot].attempt for slot in live}
            self._order_preparation(self._layout)

    def _order_preparation(self, layout: Layout) -> None:
        metadata = self._metadata
        if metadata is None:
            self.give_up("the base checkpoint is not known")
            return
        self._step = _Step.PREPARING
        plan = assign_restore(metadata, restore_target(layout.graph, self._parts.settings))
        pickled = cloudpickle.dumps(layout.graph.without_sources())
        for assigned in plan.slots:
            order = Prepare(
                checkpoint_id=metadata.checkpoint_id,
                parallelism=layout.graph.parallelism,
                max_parallelism=layout.graph.max_parallelism,
                job_graph=pickled,
                settings=msgspec.msgpack.encode(self._parts.settings.slots),
                keyed=list(assigned.keyed),
                directories=self._directories,
            )
            self._parts.slots.send(assigned.slot, order, layout.number)

    def is_about_next_layout(self, event: SlotSaid | SlotGone) -> bool:
        """Whether an event comes from a slot that does not serve yet."""
        return self._layout is not None and self._attempts.get(event.slot) == event.attempt

    def take(self, event: SlotSaid | SlotGone) -> None:
        """Take what a slot of the next layout says, or that it is gone."""
        if isinstance(event, SlotGone) and self._step is _Step.SWITCHING:
            # The last barrier is past: the next generation starts the slot again, and it restores
            # plainly what it had prepared.
            log.warning("a prepared slot went away at the switch slot=%s", event.slot)
            return
        if isinstance(event, SlotGone):
            self.give_up(f"a slot of the new parallelism went away; slot={event.slot}")
            return
        message = event.message
        if not isinstance(message, Prepared):
            return
        if self._step is _Step.CATCHING_UP and message.checkpoint_id == self._round:
            self._count_prepared(event.slot)
        if self._step is not _Step.PREPARING:
            return
        if message.error is not None:
            self.give_up(f"a slot could not prepare: {message.error.kind}: {message.error.message}")
            return
        self._service.moved(message.downloaded_bytes + message.copied_bytes)
        self._count_prepared(event.slot)

    def _count_prepared(self, slot: int) -> None:
        self._prepared.add(slot)
        if self._layout is None or len(self._prepared) < self._layout.graph.parallelism:
            return
        if self._step is _Step.CATCHING_UP:
            self._base = self._round
        self._changes, self._round = {}, None
        if self._left_bytes > SMALL_BYTES and self._rounds < ROUNDS_MAX:
            self._step = _Step.WANT_ROUND
            return
        self._step = _Step.READY
        self._service.prepared(round((self._parts.clock.monotonic_s() - self._began_s) * 1000))

    def _catch_up(self) -> None:
        """A round's checkpoint exists: hand its changes to the new slots."""
        layout, base, reached = self._layout, self._base, self._round
        if layout is None or base is None or reached is None:
            return
        self._step = _Step.CATCHING_UP
        self._rounds += 1
        files = [file for owners in self._changes.values() for file in owners.values()]
        self._left_bytes = sum(file.size_bytes for file in files)
        self._prepared.clear()
        for slot in self._attempts:
            changes = changes_for(SlotIndex(slot), self._parts.graph, layout.graph, self._changes)
            order = CatchUp(reached, HandOver(base, changes))
            self._parts.slots.send(slot, order, layout.number)
        log.info("rescale round=%s changed_bytes=%s", self._rounds, self._left_bytes)

    # --- the end --------------------------------------------------------------------------------

    def give_up(self, reason: str) -> None:
        """End the rescale; the job goes on as it is."""
        if self._step in {_Step.IDLE, _Step.VERIFYING}:
            return
        self._step = _Step.IDLE
        self._service.failed(reason)
        self._abandoned.set()
        if self._number is not None:
            self._parts.slots.drop_layout(self._number, "the rescale was given up")
        if self._layout is not None:
            self._layout.exchange.close()
        self._number = self._layout = None
        self._attempts.clear()
        self._prepared.clear()
        for slot in self._parts.slots.live():
            self._parts.slots.send(slot, AbandonRescale(self._generation))

    def _finish(self) -> None:
        """A checkpoint has succeeded at the new parallelism: the old slots may go."""
        switch, self._service.switch = self._service.switch, None
        self._step = _Step.IDLE
        if switch is not None:
            self._parts.slots.drop_layout(switch.old.number, "the job was rescaled")
            switch.old.exchange.close()
            self._service.completed()
