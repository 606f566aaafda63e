"""What one generation does about savepoints: orders in, decisions out to the service.

The order to stop is special: the savepoint is the last thing that the job does, so its outcome is
the generation's outcome. Runs on the job master's thread.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.driver.events import SavepointEnded

if TYPE_CHECKING:
    from headrace.checkpoint.decisions import CopySavepoint, FailSavepoints
    from headrace.driver.parts import JobParts
    from headrace.driver.savepoints import SavepointOperation
    from headrace.ids import Generation

log = logging.getLogger(__name__)


class SavepointDuty:
    """Savepoints in the life of one generation."""

    def __init__(self, parts: JobParts, generation: Generation) -> None:
        self._parts = parts
        self._generation = generation
        self.stop: SavepointOperation | None = None
        """The order that this generation ends with."""

    @property
    def runs_to_the_end(self) -> bool:
        """Whether the end of this generation is the end of time: nothing can follow it."""
        return self.stop is None or self.stop.drain

    def take_orders(self) -> None:
        """Pass on what was ordered since the last barrier; a barrier stands."""
        for order in self._parts.savepoints.take_orders():
            if order.stop and self.stop is not None:
                reason = f"the job is being stopped already; trigger={self.stop.trigger_id}"
                self._parts.savepoints.fail((order.trigger_id,), reason)
                continue
            if order.stop:
                self.stop = order
            self._parts.coordinator.request_savepoint(order.trigger_id)

    def generation_ended(self, *, switched: bool) -> None:
        """Give back what has not begun; after a switch to other slots, what has begun too.

        An order to stop is only known here: whoever takes it next must see that it is one.
        """
        service = self._parts.savepoints
        service.put_back(self._parts.coordinator.withdraw_savepoints(begun=switched))
        service.generation_ended()

    def copy(self, decision: CopySavepoint) -> bool:
        """Begin to copy; returns whether it is for the stop, so that no slot is needed any more."""
        generation, post = self._generation, self._parts.post
        self._parts.savepoints.copy(
            decision.checkpoint_id,
            decision.trigger_ids,
            self._parts.store,
            lambda trigger_id: post(SavepointEnded(generation, trigger_id)),
        )
        return self._is_stop(*decision.trigger_ids)

    def fail(self, decision: FailSavepoints) -> bool:
        """End the orders; returns whether the stop was among them, so that the job must go on."""
        self._parts.savepoints.fail(decision.trigger_ids, decision.reason)
        return self._is_stop(*decision.trigger_ids)

    def stop_ended(self, event: SavepointEnded) -> bool | None:
        """Return whether the stop has its savepoint, None when the event is about another one."""
        if event.generation != self._generation or not self._is_stop(event.trigger_id):
            return None
        operation = self._parts.savepoints.operation(event.trigger_id)
        is_made = operation is not None and operation.savepoint is not None
        if not is_made:
            log.error(
                "the savepoint of a stop failed, %s; trigger=%s",
                "the job is drained and ends all the same, its last checkpoint holds its state"
                if operation is not None and operation.drain
                else "the job goes on",
                event.trigger_id,
            )
        return is_made

    def _is_stop(self, *trigger_ids: str) -> bool:
        return self.stop is not None and self.stop.trigger_id in trigger_ids
