"""Keyed operators of a slot: functions with one input or two over a keyed state backend.

One `KeyedOperator` is one operator in one slot. The record loop sets the key context and calls the
user function; timers fire at the end of the epoch, event time first, each domain in time order, and
what they emit belongs to the same epoch. Source: Flink's ``KeyedProcessOperator``,
``KeyedCoProcessOperator``, ``CoBroadcastWithKeyedOperator``, ``StreamGroupedReduceOperator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import InternalError
from headrace.graph.stream_graph import OperatorKind
from headrace.slot.broadcast import NO_KEY, BroadcastContext, TimeView
from headrace.slot.chunk import NO_TIMESTAMP
from headrace.slot.operators import method

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from headrace.graph.job_graph import JobOperator
    from headrace.ids import KeyGroup
    from headrace.serialization.serializer import KeySerializer
    from headrace.slot.broadcast import BroadcastStates
    from headrace.slot.operators import Push, RecordScope
    from headrace.state.contract import KeyContext, KeyedStateBackend, TimerQueue

EVENT_TIMERS: Final = "_event_timers"
PROCESSING_TIMERS: Final = "_processing_timers"
REDUCE_STATE: Final = "_reduce"

_METHODS: Final = {
    OperatorKind.KEYED_CO_PROCESS: ("process_element1", "process_element2"),
    OperatorKind.KEYED_BROADCAST_PROCESS: ("process_element", "process_broadcast_element"),
}
"""The function's method for each input, of kinds with two."""


class KeyedRows(Protocol):
    """Rows of a keyed edge as the record loop wants them; equal lengths."""

    @property
    def keys(self) -> Sequence[object]:
        """One key a row."""
        ...

    @property
    def key_groups(self) -> Sequence[int]:
        """One key group a row."""
        ...

    @property
    def timestamps(self) -> Sequence[int] | None:
        """One timestamp (ms) a row, None when no row has one."""
        ...

    @property
    def values(self) -> Sequence[object]:
        """One value a row."""
        ...


class TimerService:
    """The user's view of timers: PyFlink's ``TimerService``."""

    def __init__(self, scope: RecordScope, event: TimerQueue, processing: TimerQueue) -> None:
        self._scope = scope
        self._event = event
        self._processing = processing

    def current_processing_time(self) -> int:
        """Return the epoch's processing time in ms, the same in every slot."""
        return self._scope.processing_time_ms

    def current_watermark(self) -> int:
        """Return the event-time watermark in ms."""
        return self._scope.watermark_ms

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer that fires when the watermark passes ``timestamp`` (ms)."""
        self._event.register(timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer for the end of the first epoch at or after ``timestamp`` (ms)."""
        self._processing.register(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the current key's event-time timer at ``timestamp`` if there is one."""
        self._event.delete(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the current key's processing-time timer at ``timestamp`` if there is one."""
        self._processing.delete(timestamp)


class KeyedContext(TimeView):
    """Context of ``KeyedProcessFunction.process_element`` and, with a time domain, ``on_timer``.

    Of a broadcast function, it also gives its broadcast states, to be read.
    """

    def __init__(
        self,
        scope: RecordScope,
        keys: KeyContext,
        timers: TimerService,
        broadcast: BroadcastStates | None,
    ) -> None:
        super().__init__(scope)
        self._keys = keys
        self._timers = timers
        self._domain: object = None
        if broadcast is not None:
            self.get_broadcast_state = broadcast.read_only

    def get_current_key(self) -> object:
        """Return the key of the record or timer."""
        return self._keys.key

    def timer_service(self) -> TimerService:
        """Return the timer service, bound to the current key."""
        return self._timers

    def time_domain(self) -> object:
        """Return the domain of the firing timer (only in ``on_timer``)."""
        return self._domain


class KeyedOperator:
    """One keyed operator in one slot."""

    def __init__(
        self,
        operator: JobOperator,
        backend: KeyedStateBackend,
        scope: RecordScope,
        out: Push,
        time_domains: tuple[object, object],
        broadcast: BroadcastStates | None = None,
    ) -> None:
        """Prepare the operator.

        Args:
            operator: what to run.
            backend: its keyed state, restored.
            scope: the level's record scope.
            out: takes what the function emits.
            time_domains: the API's constants for event time and processing time.
            broadcast: its broadcast states, of a function that takes a broadcast stream.
        """
        if operator.key_serializer is None:
            msg = f"keyed operator without a key type; uid={operator.uid}"
            raise InternalError(msg)
        self.operator = operator
        self.backend = backend
        self._keys = backend.context
        self._serializer: KeySerializer[object] = operator.key_serializer
        self._scope = scope
        self._out = out
        self._event = backend.timers(EVENT_TIMERS)
        self._processing = backend.timers(PROCESSING_TIMERS)
        self._event_domain, self._processing_domain = time_domains
        timers = TimerService(scope, self._event, self._processing)
        self._context = KeyedContext(scope, self._keys, timers, broadcast)
        self._broadcast_context = BroadcastContext(scope, broadcast) if broadcast else None
        self._on_timer: Callable[..., object] | None = None
        self._elements: tuple[Callable[..., object], ...] = ()

    def bind(self) -> None:
        """Bind the user function; called after its ``open``."""
        function = self.operator.function
        if self.operator.kind is OperatorKind.KEYED_REDUCE:
            self._elements = (self._reducer(method(function, "reduce")),)
            return
        names = _METHODS.get(self.operator.kind, ("process_element",))
        self._elements = tuple(method(function, name) for name in names)
        self._on_timer = getattr(function, "on_timer", None)

    def process(self, rows: KeyedRows, index: int = 0) -> None:
        """Run the function over rows of input ``index``, in order."""
        keys, scope, fn = self._keys, self._scope, self._elements[index]
        context, out = self._context, self._out
        cache_keys = self._cache_keys(rows.keys)
        if rows.timestamps is None:
            scope.timestamp = NO_TIMESTAMP
            for key, cache_key, key_group, value in zip(
                rows.keys, cache_keys, rows.key_groups, rows.values, strict=True
            ):
                keys.key = key
                keys.cache_key = cache_key
                keys.key_group = key_group  # type: ignore[assignment]
                results = fn(value, context)
                if results is not None:
                    for result in results:  # type: ignore[attr-defined]
                        out(result)
            return
        for key, cache_key, key_group, timestamp, value in zip(
            rows.keys, cache_keys, rows.key_groups, rows.timestamps, rows.values, strict=True
        ):
            keys.key = key
            keys.cache_key = cache_key
            keys.key_group = key_group  # type: ignore[assignment]
            scope.timestamp = timestamp
            results = fn(value, context)
            if results is not None:
                for result in results:  # type: ignore[attr-defined]
                    out(result)

    def process_broadcast(self, timestamps: Sequence[int] | None, values: Sequence[object]) -> None:
        """Run the broadcast side over records that belong to no key."""
        self._keys.key = self._keys.cache_key = NO_KEY
        scope, fn, context, out = self._scope, self._elements[1], self._broadcast_context, self._out
        for index, value in enumerate(values):
            scope.timestamp = NO_TIMESTAMP if timestamps is None else timestamps[index]
            results = fn(value, context)
            if results is not None:
                for result in results:  # type: ignore[attr-defined]
                    out(result)

    def fire_timers(self) -> None:
        """Fire what is due at the epoch's watermark and processing time."""
        self._fire(self._event, self._event_domain, self._scope.watermark_ms)
        self._fire(self._processing, self._processing_domain, self._scope.processing_time_ms)

    def _fire(self, queue: TimerQueue, domain: object, up_to_ms: int) -> None:
        on_timer = self._on_timer
        for timer in queue.due(up_to_ms):
            if on_timer is None:
                continue
            self._set_key(timer.key, timer.key_group)
            self._scope.timestamp = timer.timestamp_ms
            self._context._domain = domain  # noqa: SLF001 - the context is this class's own
            results = on_timer(timer.timestamp_ms, self._context)
            if results is not None:
                for result in results:  # type: ignore[attr-defined]
                    self._out(result)

    def _set_key(self, key: object, key_group: KeyGroup) -> None:
        self._keys.key = key
        self._keys.cache_key = self._serializer.cache_key(key)
        self._keys.key_group = key_group

    def _cache_keys(self, keys: Sequence[object]) -> Iterable[object]:
        if getattr(self._serializer, "cache_key_is_key", False):
            return keys
        return map(self._serializer.cache_key, keys)

    def _reducer(self, fn: Callable[..., object]) -> Callable[..., object]:
        state = self.backend.value_state(REDUCE_STATE, self.operator.output_serializer)

        def element(value: object, _context: object) -> tuple[object]:
            current = state.value()
            reduced = value if current is None else fn(current, value)
            state.update(reduced)
            return (reduced,)

        return element
