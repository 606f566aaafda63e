"""What a generation works with: made by the job master, the same over generations unless noted."""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from headrace.driver.events import Tick
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from headrace.checkpoint.contract import CheckpointStore
    from headrace.checkpoint.coordinator import CheckpointCoordinator
    from headrace.clock import Clock
    from headrace.driver.events import Event
    from headrace.driver.progress import JobProgress
    from headrace.driver.rescaling import RescaleService
    from headrace.driver.savepoints import SavepointService
    from headrace.driver.settings import JobSettings
    from headrace.driver.slot_service import SlotService
    from headrace.driver.status import StatusBoard
    from headrace.engine.exchange import SlotExchange
    from headrace.graph.job_graph import JobGraph
    from headrace.slot.messages import Output

log = logging.getLogger(__name__)

TICK_S: Final = 0.2
"""Longest time that the job master's thread sleeps; timeouts are checked at this pace."""


@dataclass(slots=True)
class JobParts:
    """Collaborators of a generation.

    Attributes:
        store: checkpoint storage of the present generation (a new object for every generation).
        rescales: orders of live rescales, over all generations.
        savepoints: orders and copies, over all generations.
        output: takes what ``print`` and ``execute_and_collect`` sinks send.
    """

    settings: JobSettings
    graph: JobGraph
    clock: Clock
    spark: SparkSession
    exchange: SlotExchange
    slots: SlotService
    store: CheckpointStore
    coordinator: CheckpointCoordinator
    savepoints: SavepointService
    rescales: RescaleService
    status: StatusBoard
    progress: JobProgress
    output: Callable[[Output], None]
    events: queue.SimpleQueue[Event] = field(default_factory=queue.SimpleQueue)
    _cleaning: threading.Lock = field(default_factory=threading.Lock)

    def post(self, event: Event) -> None:
        """Hand an event to the job master's thread; callable from any thread."""
        self.events.put(event)

    def next_event(self, timeout_s: float = TICK_S) -> Event:
        """Return the next event, or `Tick` when none came in time."""
        try:
            return self.events.get(timeout=timeout_s)
        except queue.Empty:
            return Tick()

    def subsume(self) -> None:
        """Delete superseded checkpoints in background."""
        store, retained = self.store, self.settings.checkpoint.retained
        self._clean(lambda: store.subsume(retained), "subsume")

    def clean_orphans(self) -> None:
        """Delete in background what deposed coordinators left behind (T18)."""
        self._clean(self.store.clean_orphans, "clean-orphans")

    def _clean(self, clean_up: Callable[[], int], name: str) -> None:
        def run() -> None:
            if not self._cleaning.acquire(blocking=False):
                return  # one clean-up at a time is enough, the next one takes what this leaves
            try:
                deleted = clean_up()
                log.debug("cleaned up step=%s objects=%s", name, deleted)
            except HeadraceError as error:
                log.warning("clean-up of checkpoints failed, the next one tries again: %s", error)
            finally:
                self._cleaning.release()

        threading.Thread(target=run, name=name, daemon=True).start()
