"""Live rescales of a running job: orders taken from REST, how far they are, what they cost.

A rescale is a planned failover to another parallelism whose state was moved before it begins
(DESIGN 8)::

    WAITING    ordered; the next barrier takes the *base* checkpoint
    PREPARING  epochs go on; slots of the next layout build their rows from the base, while the
               present ones note what changes; then in rounds: a checkpoint takes the changes
               along, the new slots catch up, until what is left is small
    SWITCHING  a barrier: the last checkpoint of the old parallelism takes the changes along; the
               next generation starts at the new parallelism from prepared rows and changes
    VERIFYING  epochs go on at the new parallelism; the old slots wait until a checkpoint succeeds
    COMPLETED  it did; the old slots end

Whatever fails before COMPLETED ends in FAILED at the old parallelism: before the switch nothing was
changed, after it the next generation restores the last checkpoint with the old slots.

The service lives as long as the driver, over all generations. REST threads order and ask;
everything else happens on the job master's thread (`headrace.driver.rescale_duty`).

Source: Clark et al., "Live Migration of Virtual Machines", NSDI 2005 (pre-copy); Flink's
``AdaptiveScheduler`` for the failure rule.
"""

from __future__ import annotations

import dataclasses
import enum
import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from headrace.errors import InvalidConfigError, RescaleFailedError
from headrace.ids import new_trigger_id
from headrace.keygroups import key_group_range_of_slot, slot_of_key_group
from headrace.slot.messages import HandOver

if TYPE_CHECKING:
    from headrace.checkpoint.protocol.types import FileHandle
    from headrace.clock import Clock
    from headrace.engine.exchange import SlotExchange
    from headrace.graph.job_graph import JobGraph
    from headrace.ids import CheckpointId, OperatorUid, SlotIndex, TriggerId

log = logging.getLogger(__name__)


class RescalePhase(enum.StrEnum):
    """How far a rescale is."""

    WAITING = "WAITING"
    PREPARING = "PREPARING"
    SWITCHING = "SWITCHING"
    VERIFYING = "VERIFYING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"

    @property
    def has_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self in {RescalePhase.COMPLETED, RescalePhase.FAILED}


@dataclass(frozen=True, slots=True)
class RescaleOperation:
    """One order and how far it is.

    Attributes:
        key_groups_moved: key groups that change their slot index.
        bytes_moved: state that the new slots took from storage or from other slots before the
            switch, and changes handed over at it.
        prepare_ms: from the base checkpoint to the last prepared slot.
        pause_ms: time without an epoch, None before the switch.
        started_ms, ended_ms: wall-clock times.
        error: why it failed.
    """

    trigger_id: TriggerId
    from_parallelism: int
    to_parallelism: int
    phase: RescalePhase
    started_ms: int
    key_groups_moved: int
    bytes_moved: int = 0
    prepare_ms: int | None = None
    pause_ms: int | None = None
    ended_ms: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """One set of slots: what a generation needs to run at a parallelism."""

    number: int
    graph: JobGraph
    exchange: SlotExchange


Changes: TypeAlias = "dict[OperatorUid, dict[int, FileHandle]]"
"""Files of changes by operator and former owner."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A rescale between its two generations: where it came from and where it goes."""

    old: Layout
    new: Layout
    checkpoint_id: CheckpointId
    """The last checkpoint of the old parallelism, which the new one begins with."""
    base: CheckpointId
    """What rows were prepared from."""
    changes: Changes
    """Since then."""
    paused_s: float
    """Monotonic time of the last barrier at the old parallelism."""

    def hand_over_to(self, slot: SlotIndex) -> HandOver:
        """Return what a slot needs beside its prepared rows."""
        changes = changes_for(slot, self.old.graph, self.new.graph, self.changes)
        return HandOver(self.base, changes)


def changes_for(
    slot: SlotIndex, old: JobGraph, new: JobGraph, changes: Changes
) -> dict[OperatorUid, list[FileHandle]]:
    """Return the changes of those owners whose key groups a slot of the new layout gets.

    An operator of which any former owner has lost track is left out.
    """
    found = {}
    for operator in new.operators_in(slot):
        files, before = changes.get(operator.uid, {}), old.parallelism_of(operator)
        if len(files) < before:
            continue
        total = new.max_parallelism
        own = key_group_range_of_slot(slot, new.parallelism_of(operator), total)
        found[operator.uid] = [
            files[former]
            for former in range(before)
            if key_group_range_of_slot(former, before, total).intersection(own)
        ]
    return found


def moved_key_groups(max_parallelism: int, old: int, new: int) -> int:
    """Return how many key groups change their slot index."""
    return sum(
        slot_of_key_group(group, old, max_parallelism)
        != slot_of_key_group(group, new, max_parallelism)
        for group in range(max_parallelism)
    )


class RescaleService:
    """Orders and their outcomes; thread-safe."""

    def __init__(self, clock: Clock, *, parallelism: int, max_parallelism: int) -> None:
        """Create a service without an order.

        Args:
            clock: for times in reports.
            parallelism: that the job starts with.
            max_parallelism: number of key groups.
        """
        self._clock = clock
        self._lock = threading.Lock()
        self._parallelism = parallelism
        self._max_parallelism = max_parallelism
        self._running = False
        self._operation: RescaleOperation | None = None
        self.switch: Switch | None = None
        """Set from the switch until it is verified or undone; the job master's thread only."""

    # --- REST -------------------------------------------------------------------------------

    def order(self, parallelism: int) -> RescaleOperation:
        """Ask for a parallelism; returns at once.

        Raises:
            InvalidConfigError: out of range, or the job's own.
            RescaleFailedError: another rescale is under way, or the job does not run.
        """
        with self._lock:
            if not 1 <= parallelism <= self._max_parallelism:
                msg = (
                    "parallelism must lie in 1..max parallelism; "
                    f"parallelism={parallelism} max_parallelism={self._max_parallelism}"
                )
                raise InvalidConfigError(msg)
            present = self._operation
            if present is not None and not present.phase.has_ended:
                msg = (
                    "another rescale is under way, ask again when it has ended; "
                    f"to_parallelism={present.to_parallelism} phase={present.phase}"
                )
                raise RescaleFailedError(msg)
            if parallelism == self._parallelism:
                msg = f"the job runs at this parallelism already; parallelism={parallelism}"
                raise InvalidConfigError(msg)
            if not self._running:
                msg = "the job does not run at present, ask again when it is RUNNING"
                raise RescaleFailedError(msg)
            self._operation = RescaleOperation(
                trigger_id=new_trigger_id(),
                from_parallelism=self._parallelism,
                to_parallelism=parallelism,
                phase=RescalePhase.WAITING,
                started_ms=self._clock.now_ms(),
                key_groups_moved=moved_key_groups(
                    self._max_parallelism, self._parallelism, parallelism
                ),
            )
            return self._operation

    def operation(self) -> RescaleOperation | None:
        """Return the present or the last rescale, None before the first."""
        with self._lock:
            return self._operation

    # --- the job master's thread --------------------------------------------------------------

    def generation_runs(self, *, running: bool) -> None:
        """Say whether epochs run, so that orders can be taken."""
        with self._lock:
            self._running = running

    def waiting(self) -> RescaleOperation | None:
        """Return the order that has not begun."""
        present = self.operation()
        return present if present and present.phase is RescalePhase.WAITING else None

    def enter(self, phase: RescalePhase) -> None:
        """Go on to a phase."""
        self._update(phase=phase)
        log.info("rescale phase=%s", phase)

    def moved(self, count: int) -> None:
        """Count bytes of state that moved."""
        present = self.operation()
        if present is not None:
            self._update(bytes_moved=present.bytes_moved + count)

    def prepared(self, prepare_ms: int) -> None:
        """Note that the next layout is ready to take over."""
        self._update(prepare_ms=prepare_ms)

    def resumed(self, pause_ms: int) -> None:
        """Note that the first epoch at the new parallelism has ended."""
        self._update(pause_ms=pause_ms)

    def completed(self) -> None:
        """End it: a checkpoint has succeeded at the new parallelism."""
        present = self.operation()
        if present is None:
            return
        with self._lock:
            self._parallelism = present.to_parallelism
        self._update(phase=RescalePhase.COMPLETED, ended_ms=self._clock.now_ms())
        log.info(
            "rescaled from=%s to=%s pause_ms=%s bytes_moved=%s",
            present.from_parallelism,
            present.to_parallelism,
            present.pause_ms,
            present.bytes_moved,
        )

    def failed(self, reason: str) -> None:
        """End it: the job is, or will be again, at the old parallelism."""
        present = self.operation()
        if present is None or present.phase.has_ended:
            return
        log.warning("rescale failed phase=%s reason=%s", present.phase, reason)
        self._update(phase=RescalePhase.FAILED, error=reason, ended_ms=self._clock.now_ms())

    def _update(self, **changes: object) -> None:
        with self._lock:
            if self._operation is not None:
                self._operation = dataclasses.replace(self._operation, **changes)  # type: ignore[arg-type]
