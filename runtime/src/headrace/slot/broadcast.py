"""Broadcast functions of a slot: what both of their sides see (B19).

All slots get the same broadcast records in the same order and hold the same maps; so long as the
function computes only from those, they stay the same. `headrace.slot.level` processes an epoch's
broadcast records before its other records.

Source: Flink's ``CoBroadcastWithNonKeyedOperator``, ``CoBroadcastWithKeyedOperator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from headrace.errors import InvalidProgramError
from headrace.slot.chunk import NO_TIMESTAMP
from headrace.slot.operator_state import ReadOnlyBroadcastMap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.graph.job_graph import JobOperator
    from headrace.slot.operator_state import BroadcastMap, OperatorStateStore
    from headrace.slot.operators import RecordScope


class _Named(Protocol):
    """A descriptor, as far as it matters here."""

    @property
    def name(self) -> str:
        """Return the state's name."""
        ...


class BroadcastStates:
    """The broadcast states of one operator in one slot."""

    def __init__(self, operator: JobOperator, store: OperatorStateStore) -> None:
        self._operator = operator.name
        self._writable: Mapping[str, BroadcastMap[object, object]] = {
            state.name: store.broadcast_state(state) for state in operator.broadcast_states
        }
        self._read_only = {
            name: ReadOnlyBroadcastMap(name, entries) for name, entries in self._writable.items()
        }

    def writable(self, descriptor: _Named) -> BroadcastMap[object, object]:
        """Return the state for the broadcast side.

        Raises:
            InvalidProgramError: the descriptor was not given to ``broadcast``.
        """
        self._check(descriptor)
        return self._writable[descriptor.name]

    def read_only(self, descriptor: _Named) -> ReadOnlyBroadcastMap[object, object]:
        """Return the state for the other side; raises as `writable`."""
        self._check(descriptor)
        return self._read_only[descriptor.name]

    def _check(self, descriptor: _Named) -> None:
        if descriptor.name not in self._writable:
            msg = (
                "no such broadcast state, give its descriptor to broadcast(...); "
                f"operator={self._operator!r} state={descriptor.name!r} "
                f"known={sorted(self._writable)}"
            )
            raise InvalidProgramError(msg)


class TimeView:
    """What every context tells of time."""

    def __init__(self, scope: RecordScope) -> None:
        self._scope = scope

    def timestamp(self) -> int | None:
        """Return the record's event timestamp in ms, None when it has none."""
        stamp = self._scope.timestamp
        return None if stamp == NO_TIMESTAMP else stamp

    def current_processing_time(self) -> int:
        """Return the epoch's processing time in ms, the same in every slot."""
        return self._scope.processing_time_ms

    def current_watermark(self) -> int:
        """Return the event-time watermark in ms."""
        return self._scope.watermark_ms


class BroadcastContext(TimeView):
    """Context of ``process_broadcast_element``: state may be written."""

    def __init__(self, scope: RecordScope, states: BroadcastStates) -> None:
        super().__init__(scope)
        self.get_broadcast_state = states.writable


class ReadOnlyContext(TimeView):
    """Context of ``process_element`` of a function on a stream without keys."""

    def __init__(self, scope: RecordScope, states: BroadcastStates) -> None:
        super().__init__(scope)
        self.get_broadcast_state = states.read_only


class _NoKey:
    """Stands in for the key while there is none: whatever uses it as one fails (B13)."""

    def __hash__(self) -> int:
        raise _no_key()

    def __eq__(self, _other: object) -> bool:
        raise _no_key()

    def __reduce_ex__(self, _protocol: object) -> NoReturn:
        raise _no_key()

    def __repr__(self) -> str:
        return "<no key>"


def _no_key() -> InvalidProgramError:
    return InvalidProgramError(
        "a broadcast record has no key: keyed state and timers cannot be used in "
        "process_broadcast_element"
    )


NO_KEY: Final = _NoKey()
