"""Operator runners: user functions joined into chains of plain function calls.

A chain is built once a generation, from its last operator backwards: each operator becomes a
``push(value)`` closure that calls the user function and hands results to the closures after it,
object to object. The timestamp of the record in flight sits in one shared `RecordScope`, because
operators of a chain run one record to the end before the next one begins.

Runs in slots (level >= 1) and, for the stateless operators of level 0, in Spark's Python tasks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from headrace.errors import InternalError
from headrace.graph.stream_graph import OperatorKind
from headrace.slot.chunk import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from headrace.graph.job_graph import JobOperator
    from headrace.ids import EdgeTag

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


class ProcessContext:
    """Context of a non-keyed ``ProcessFunction``."""

    def __init__(self, scope: RecordScope) -> None:
        self._scope = scope

    def timestamp(self) -> int | None:
        """Return the record's event timestamp in ms, None when it has none."""
        stamp = self._scope.timestamp
        return None if stamp == NO_TIMESTAMP else stamp


class ChainBuilder:
    """Builds the push closures of one level.

    Args:
        operators: the level's operators in topological order.
        scope: shared record scope.
        exits: what to do with a value that leaves the level, by tag.
        sinks: targets of the sink operators, by operator id.
        keyed: push functions of keyed operators are built elsewhere (`headrace.slot.keyed`); they
            get the downstream push through ``downstream``.
    """

    def __init__(
        self,
        operators: Sequence[JobOperator],
        scope: RecordScope,
        exits: Mapping[EdgeTag, Callable[[object, int], None]],
        sinks: Mapping[int, SinkTarget],
    ) -> None:
        self._scope = scope
        self._exits = exits
        self._sinks = sinks
        self._pushes: dict[int, Push] = {}
        self._downstream: dict[int, Push] = {}
        for operator in reversed(operators):
            self._downstream[operator.id] = self._downstream_of(operator)
            if not operator.kind.is_keyed and operator.kind is not OperatorKind.SOURCE:
                self._pushes[operator.id] = self._push_of(operator)

    def push(self, operator_id: int) -> Push:
        """Return the closure that feeds a non-keyed operator."""
        return self._pushes[operator_id]

    def downstream(self, operator_id: int) -> Push:
        """Return the closure that takes the output of an operator."""
        return self._downstream[operator_id]

    def _downstream_of(self, operator: JobOperator) -> Push:
        scope = self._scope
        targets: list[Push] = [self._pushes[target] for target in operator.chained]
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

    def _push_of(self, operator: JobOperator) -> Push:
        out = self._downstream[operator.id]
        match operator.kind:
            case OperatorKind.MAP:
                return _map(method(operator.function, "map"), out)
            case OperatorKind.FILTER:
                return _filter(method(operator.function, "filter"), out)
            case OperatorKind.FLAT_MAP:
                return _flat_map(method(operator.function, "flat_map"), out)
            case OperatorKind.PROCESS:
                return _process(method(operator.function, "process_element"), self._scope, out)
            case OperatorKind.TIMESTAMPS:
                return _timestamps(operator, self._scope, out)
            case OperatorKind.SINK:
                return _sink(self._sinks[operator.id], self._scope)
            case _:
                msg = f"no runner for this operator; kind={operator.kind.value} uid={operator.uid}"
                raise InternalError(msg)


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


def _process(fn: Callable[..., object], scope: RecordScope, out: Push) -> Push:
    context = ProcessContext(scope)

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
