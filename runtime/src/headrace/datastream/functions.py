"""User functions and what they are given, as ``pyflink.datastream.functions`` (B6).

A function object is pickled once for each slot and opened there; its attributes live as long as
the deployment and are not part of checkpoints, state is.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.datastream.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        BroadcastState,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReadOnlyBroadcastState,
        ReducingState,
        ReducingStateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )
    from headrace.datastream.time_domain import TimeDomain
    from headrace.datastream.timerservice import TimerService

# Values are the user's own, of any type: `Any` lets a program that is type-checked narrow them.
# ruff: noqa: ANN401


class KeyedStateStore(abc.ABC):
    """Access to keyed state."""

    @abc.abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the described value state, bound to whatever key is current, as all below."""

    @abc.abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the described list state."""

    @abc.abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the described map state."""

    @abc.abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the described reducing state."""

    @abc.abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
        """Return the described aggregating state."""


class RuntimeContext(KeyedStateStore):
    """What a function may know about where it runs."""

    @abc.abstractmethod
    def get_task_name(self) -> str:
        """Return the operator's name."""

    @abc.abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism."""

    @abc.abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""

    @abc.abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the slot's index, from 0."""

    @abc.abstractmethod
    def get_attempt_number(self) -> int:
        """Return how often the job has been restarted."""

    @abc.abstractmethod
    def get_task_name_with_subtasks(self) -> str:
        """Return the operator's name with index and parallelism, e.g. ``Map (1/4)``."""

    @abc.abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global parameter of the job."""


class Function(abc.ABC):  # noqa: B024 - the common root of all functions, as in PyFlink
    """Root of all functions."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional
        """Prepare; called once before the first record. State is obtained here."""

    def close(self) -> None:  # noqa: B027 - optional
        """Release what `open` acquired."""


class MapFunction(Function):
    """One value for each value."""

    @abc.abstractmethod
    def map(self, value: Any) -> Any:
        """Return what becomes of ``value``."""


class FlatMapFunction(Function):
    """Any number of values for each value."""

    @abc.abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | None:
        """Return or yield what becomes of ``value``; None for nothing."""


class FilterFunction(Function):
    """Decides which values stay."""

    @abc.abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether ``value`` stays."""


class ReduceFunction(Function):
    """Combines the values of a key into one."""

    @abc.abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the combination of what came before and the new value."""


class AggregateFunction(Function):
    """Aggregates values by way of an accumulator, whose type may differ from values and result.

    The function itself keeps nothing: it serves many accumulators, one for each key. An accumulator
    belongs to the state once it is returned; `add` and `merge` may change and return the given one.
    """

    @abc.abstractmethod
    def create_accumulator(self) -> Any:
        """Return a new accumulator."""

    @abc.abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with ``value`` added."""

    @abc.abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result."""

    @abc.abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return both accumulators in one; needed by session windows alone."""


class KeySelector(Function):
    """Extracts the key of a value."""

    @abc.abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key: always the same one for the same value."""


class ProcessFunction(Function):
    """Works on single values with access to their timestamps."""

    class Context(abc.ABC):
        """What is known about the value at hand."""

        @abc.abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service; without a key it can only read time."""

        @abc.abstractmethod
        def timestamp(self) -> int | None:
            """Return the value's event time in ms, None when it has none."""

    @abc.abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield what becomes of ``value``; None for nothing."""


class KeyedProcessFunction(Function):
    """Works on single values of a keyed stream, with state and timers of the key."""

    class Context(abc.ABC):
        """What is known about the value at hand."""

        @abc.abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the value or timer."""

        @abc.abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service of the current key."""

        @abc.abstractmethod
        def timestamp(self) -> int | None:
            """Return the event time of the value, or the time of the timer, in ms."""

    class OnTimerContext(Context):
        """What is known about the firing timer."""

        @abc.abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return whether the timer is one of event time or of processing time."""

    @abc.abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return or yield what becomes of ``value``; None for nothing."""

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Return or yield what a timer causes; None for nothing."""


class CoMapFunction(Function):
    """One value for each value of two connected streams."""

    @abc.abstractmethod
    def map1(self, value: Any) -> Any:
        """Return what becomes of a value of the first stream."""

    @abc.abstractmethod
    def map2(self, value: Any) -> Any:
        """Return what becomes of a value of the second stream."""


class CoFlatMapFunction(Function):
    """Any number of values for each value of two connected streams."""

    @abc.abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Return or yield what becomes of a value of the first stream; None for nothing."""

    @abc.abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Return or yield what becomes of a value of the second stream; None for nothing."""


class CoProcessFunction(Function):
    """Works on single values of two connected streams."""

    Context = ProcessFunction.Context

    @abc.abstractmethod
    def process_element1(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield what becomes of a value of the first stream; None for nothing."""

    @abc.abstractmethod
    def process_element2(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Return or yield what becomes of a value of the second stream; None for nothing."""


class KeyedCoProcessFunction(Function):
    """Works on two connected streams with the same keys; both see the same state and timers."""

    Context = KeyedProcessFunction.Context
    OnTimerContext = KeyedProcessFunction.OnTimerContext

    @abc.abstractmethod
    def process_element1(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return or yield what becomes of a value of the first stream; None for nothing."""

    @abc.abstractmethod
    def process_element2(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Return or yield what becomes of a value of the second stream; None for nothing."""

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Return or yield what a timer causes; None for nothing."""


class BaseBroadcastProcessFunction(Function):
    """What functions on a broadcast stream and another one have in common."""

    class BaseContext(abc.ABC):
        """What is known about time."""

        @abc.abstractmethod
        def timestamp(self) -> int | None:
            """Return the value's event time in ms, None when it has none."""

        @abc.abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in ms."""

        @abc.abstractmethod
        def current_watermark(self) -> int:
            """Return the event-time watermark in ms."""

    class Context(BaseContext):
        """What the broadcast side has: broadcast state may be changed."""

        @abc.abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> BroadcastState[Any, Any]:
            """Return a state whose descriptor was given to ``broadcast``."""

    class ReadOnlyContext(BaseContext):
        """What the other side has: broadcast state may be read."""

        @abc.abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor
        ) -> ReadOnlyBroadcastState[Any, Any]:
            """Return a state whose descriptor was given to ``broadcast``."""

    @abc.abstractmethod
    def process_broadcast_element(self, value: Any, ctx: Context) -> Iterable[Any] | None:
        """Change broadcast state; return or yield what else becomes of the value.

        Every slot is given every value, in the same order: what is done here must follow from the
        value and from broadcast state alone. All broadcast values of an epoch come before its
        other values.
        """


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Works on a stream without keys beside a broadcast one."""

    @abc.abstractmethod
    def process_element(
        self, value: Any, ctx: BaseBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """Return or yield what becomes of ``value``; None for nothing."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Works on a keyed stream beside a broadcast one."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """What the keyed side has."""

        @abc.abstractmethod
        def timer_service(self) -> TimerService:
            """Return the timer service of the current key."""

        @abc.abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the value or timer."""

    class OnTimerContext(ReadOnlyContext):
        """What is known about the firing timer."""

        @abc.abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return whether the timer is one of event time or of processing time."""

    @abc.abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """Return or yield what becomes of ``value``; None for nothing."""

    def on_timer(
        self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Return or yield what a timer causes; None for nothing."""
