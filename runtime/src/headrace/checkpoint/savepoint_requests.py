"""Which savepoints are wanted, and by which checkpoint each one is served; no I/O, no clock.

Part of the `CheckpointCoordinator`. A savepoint is a copy of one checkpoint, so a request goes::

    waiting    until a barrier; the checkpoint in progress has begun without it (T16)
    attached   to the checkpoint that was triggered there, with every other request of that moment
    gone       handed out for copying once that checkpoint's output is published, or failed with it

At the end of a generation what waits is given back, for the next one to ask again. A failover fails
what is attached: it has begun and may have been the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.ids import CheckpointId, TriggerId


class SavepointRequests:
    """Requests of one job over its generations."""

    def __init__(self) -> None:
        self._waiting: list[TriggerId] = []
        self._attached: dict[CheckpointId, tuple[TriggerId, ...]] = {}

    @property
    def wanted(self) -> bool:
        """Whether the next barrier should take a checkpoint for them."""
        return bool(self._waiting)

    def add(self, trigger_id: TriggerId) -> None:
        """Want a savepoint; a repeated request is the same one."""
        if trigger_id not in self._waiting:
            self._waiting.append(trigger_id)

    def attach(self, checkpoint_id: CheckpointId) -> None:
        """Serve everything that waits by the checkpoint that has begun."""
        if self._waiting:
            self._attached[checkpoint_id] = tuple(self._waiting)
            self._waiting = []

    def detach(self, checkpoint_id: CheckpointId) -> None:
        """Let the requests of a checkpoint wait again: it was given up for no fault of its own."""
        self._waiting = [*self._attached.pop(checkpoint_id, ()), *self._waiting]

    def is_attached(self, checkpoint_id: CheckpointId) -> bool:
        """Return whether the checkpoint serves any request."""
        return checkpoint_id in self._attached

    def take(self, checkpoint_id: CheckpointId) -> tuple[TriggerId, ...]:
        """Hand out the requests that the checkpoint serves."""
        return self._attached.pop(checkpoint_id, ())

    def take_waiting(self) -> tuple[TriggerId, ...]:
        """Hand out every request that has not begun."""
        taken, self._waiting = tuple(self._waiting), []
        return taken

    def take_all_attached(self) -> tuple[TriggerId, ...]:
        """Hand out every request that has begun."""
        taken = tuple(t for requests in self._attached.values() for t in requests)
        self._attached = {}
        return taken
