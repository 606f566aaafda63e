"""Operator runners: user functions joined into chains of plain function calls.

A chain is built once a generation, from its last operator backwards: each operator becomes a
``push(value)`` closure that calls the user function and hands results to the closures after it,
object to object. The timestamp of the record in flight sits in one shared `RecordScope`, because
operators of a chain run one record to the end before the next one begins.

Runs in slots (level >= 1) and, for the stateless operators of level 0, in Spark's Python tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.errors import InternalError, InvalidProgramError
from headrace.graph.job_graph import InputPort
from headrace.graph.stream_graph import OperatorKind
from headrace.slot.broadcast import BroadcastContext, ReadOnlyContext, TimeView
from headrace.slot.chunk import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.graph.job_graph import JobOperator
    from headrace.ids import EdgeTag
    from headrace.slot.broadcast import BroadcastStates

    Push = Callable[[object], None]


class RecordScope:
    """What is known about the record in flight, shared by every operator of a level."""

    __slots__ = ("greatest_timestamp", "processing_time_ms", "timestamp", "watermark_ms")

    def __init__(self) -> None:
        self.timestamp: int = NO_TIMESTAMP
        self.greatest_timestamp: int = NO_TIMESTAMP
        """Greatest timestamp that an assigner in the chain has set in this task."""
        self.watermark_ms: int = -(1 << 63)
        self.processing_time_ms: int = 0


class SinkTarget(Protocol):
    """What a sink operator writes to; see `headrace.connectors.sink.SinkWriter`."""

    def write(self, value: object, timestamp_ms: int | None) -> None:
        """Take one value of the present epoch."""
        ...


class ReadOnlyTimerService(TimeView):
    """Timer service of a function without keys: time can be read, timers cannot be set."""

    def register_event_time_timer(self, _timestamp: int) -> None:
        """Refuse."""
        self._refuse()

    def register_processing_time_timer(self, _timestamp: int) -> None:
        """Refuse."""
        self._refuse()

    def delete_event_time_timer(self, _timestamp: int) -> None:
        """Refuse."""
        self._refuse()

    def delete_processing_time_timer(self, _timestamp: int) -> None:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> None:
        msg = "timers belong to keys, call key_by before this operator"
        raise InvalidProgramError(msg)


class ProcessContext(TimeView):
    """Context of a non-keyed ``ProcessFunction`` or ``CoProcessFunction``."""

    def __init__(self, scope: RecordScope) -> None:
        super().__init__(scope)
        self._timers = ReadOnlyTimerService(scope)

    def timer_service(self) -> ReadOnlyTimerService:
        """Return the timer service, which can only read time."""
        return self._timers


class ChainBuilder:
    """Builds the push closures of one level.

    Args:
        operators: the level's operators in topological order.
        scope: shared record scope.
        exits: what to do with a value that leaves the level, by tag.
        sinks: targets of the sink operators, by operator id.
        broadcasts: broadcast state, by operator id.

    Keyed operators are built elsewhere (`headrace.slot.keyed`); they get the downstream push
    through ``downstream``.
    """

    def __init__(
        self,
        operators: Sequence[JobOperator],
        scope: RecordScope,
        exits: Mapping[EdgeTag, Callable[[object, int], None]],
        sinks: Mapping[int, SinkTarget],
        broadcasts: Mapping[int, BroadcastStates] | None = None,
    ) -> None:
        self._scope = scope
        self._exits = exits
        self._sinks = sinks
        self._broadcasts = broadcasts or {}
        self._pushes: dict[InputPort, Push] = {}
        self._downstream: dict[int, Push] = {}
        for operator in reversed(operators):
            self._downstream[operator.id] = self._downstream_of(operator)
            if not operator.kind.is_keyed and operator.kind is not OperatorKind.SOURCE:
                for index in range(operator.kind.inputs):
                    self._pushes[InputPort(operator.id, index)] = self._push_of(operator, index)

    def push(self, port: InputPort) -> Push:
        """Return the closure that feeds an input of a non-keyed operator."""
        return self._pushes[port]

    def downstream(self, operator_id: int) -> Push:
        """Return the closure that takes the output of an operator."""
        return self._downstream[operator_id]

    def _downstream_of(self, operator: JobOperator) -> Push:
        scope = self._scope
        targets: list[Push] = [self._pushes[port] for port in operator.chained]
        for tag in operator.exits:
            add = self._exits[tag]

            def leave(value: object, add: Callable[[object, int], None] = add) -> None:
                add(value, scope.timestamp)

            targets.append(leave)
        if len(targets) == 1:
            return targets[0]
        if not targets:
            return _drop

        def fan_out(value: object) -> None:
            for target in targets:
                target(value)

        return fan_out

    def _push_of(self, operator: JobOperator, index: int) -> Push:  # noqa: PLR0911 - one a kind
        out = self._downstream[operator.id]
        match operator.kind:
            case OperatorKind.MAP:
                return _map(method(operator.function, "map"), out)
            case OperatorKind.FILTER:
                return _filter(method(operator.function, "filter"), out)
            case OperatorKind.FLAT_MAP:
                return _flat_map(method(operator.function, "flat_map"), out)
            case OperatorKind.PROCESS:
                context = ProcessContext(self._scope)
                return _process(method(operator.function, "process_element"), context, out)
            case OperatorKind.CO_PROCESS:
                context = ProcessContext(self._scope)
                name = f"process_element{index + 1}"
                return _process(method(operator.function, name), context, out)
            case OperatorKind.BROADCAST_PROCESS:
                return self._broadcast(operator, index, out)
            case OperatorKind.TIMESTAMPS:
                return _timestamps(operator, self._scope, out)
            case OperatorKind.SINK:
                return _sink(self._sinks[operator.id], self._scope)
            case _:
                msg = f"no runner for this operator; kind={operator.kind.value} uid={operator.uid}"
                raise InternalError(msg)

    def _broadcast(self, operator: JobOperator, index: int, out: Push) -> Push:
        states = self._broadcasts[operator.id]
        if index == 0:
            read_only = ReadOnlyContext(self._scope, states)
            return _process(method(operator.function, "process_element"), read_only, out)
        context = BroadcastContext(self._scope, states)
        return _process(method(operator.function, "process_broadcast_element"), context, out)


def method(function: object, name: str) -> Callable[..., object]:
    """Return the function's method ``name``, or the function itself when it is a plain callable."""
    bound = getattr(function, name, None)
    if bound is not None:
        return bound  # type: ignore[no-any-return]
    if callable(function):
        return function
    msg = f"not a function object; expected_method={name} type={type(function).__name__}"
    raise InternalError(msg)


def _drop(value: object) -> None:
    """Take a value that nobody consumes."""


def _map(fn: Callable[..., object], out: Push) -> Push:
    def push(value: object) -> None:
        out(fn(value))

    return push


def _filter(fn: Callable[..., object], out: Push) -> Push:
    def push(value: object) -> None:
        if fn(value):
            out(value)

    return push


def _flat_map(fn: Callable[..., object], out: Push) -> Push:
    def push(value: object) -> None:
        results = fn(value)
        if results is not None:
            for result in results:  # type: ignore[attr-defined]
                out(result)

    return push


def _process(fn: Callable[..., object], context: object, out: Push) -> Push:
    def push(value: object) -> None:
        results = fn(value, context)
        if results is not None:
            for result in results:  # type: ignore[attr-defined]
                out(result)

    return push


def _timestamps(operator: JobOperator, scope: RecordScope, out: Push) -> Push:
    assigner = operator.watermarks.timestamp_assigner

    def push(value: object) -> None:
        stamp = scope.timestamp if assigner is None else assigner(value, scope.timestamp)
        scope.timestamp = stamp
        if stamp > scope.greatest_timestamp:  # noqa: PLR1730 - max() costs a call a record
            scope.greatest_timestamp = stamp
        out(value)

    return push


def _sink(target: SinkTarget, scope: RecordScope) -> Push:
    write = target.write

    def push(value: object) -> None:
        stamp = scope.timestamp
        write(value, None if stamp == NO_TIMESTAMP else stamp)

    return push
