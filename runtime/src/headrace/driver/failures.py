"""Why a generation failed: Spark says that something did, a slot says what, or nobody says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.driver.events import SlotGone, SlotSaid, StopRequested
from headrace.driver.stream_query import describe_failure
from headrace.errors import EpochAbortedError, SlotLostError
from headrace.slot.messages import Failed
from headrace.slot.wire_errors import from_error_info

if TYPE_CHECKING:
    from headrace.driver.parts import JobParts
    from headrace.errors import HeadraceError
    from headrace.ids import Generation

SLOTS_WORD_S: Final = 2.0
"""A slot's own account of a failure comes by another way than Spark's, within this time."""


def typed_failure(parts: JobParts, generation: Generation, failure: BaseException) -> HeadraceError:
    """Return the error behind a failed epoch, preferring what a slot says about itself.

    Takes events of the failed generation from the queue; nothing else needs them any more.
    """
    error = describe_failure(failure)
    deadline = parts.clock.monotonic_s() + SLOTS_WORD_S
    while parts.clock.monotonic_s() < deadline:
        event = parts.next_event(timeout_s=0.2)
        if isinstance(event, SlotSaid) and isinstance(event.message, Failed):
            if event.message.generation == generation:
                return from_error_info(event.message.error)
        elif isinstance(event, SlotGone) and isinstance(error, EpochAbortedError):
            return SlotLostError(f"a slot process went away; slot={event.slot} cause={error}")
        elif isinstance(event, StopRequested):
            parts.post(event)
            break
    return error


def check_progress(parts: JobParts, epoch_running_s: float) -> None:
    """Fail over when an epoch takes too long or a slot has fallen silent.

    Args:
        parts: of the job.
        epoch_running_s: for how long the present epoch has been running, 0 between epochs.

    Raises:
        EpochAbortedError: the epoch takes longer than ``headrace.epoch.timeout``.
        SlotLostError: slots have said nothing for longer than ``heartbeat.timeout``.
    """
    if epoch_running_s > parts.settings.epoch_timeout_s:
        # Whoever is stuck cannot restore either, and nobody can tell who that is.
        for slot in parts.slots.live():
            parts.slots.drop(slot, "an epoch takes too long")
        msg = (
            f"an epoch takes too long, see headrace.epoch.timeout; running_s={epoch_running_s:.0f}"
        )
        raise EpochAbortedError(msg)
    silent = parts.slots.silent(parts.settings.slot_heartbeat_timeout_s)
    if silent:
        for slot in silent:
            parts.slots.drop(slot, "silent for longer than heartbeat.timeout")
        msg = f"slots have fallen silent; slots={silent}"
        raise SlotLostError(msg)
