"""Two streams in one function, as ``pyflink.datastream.data_stream``: connected and broadcast.

The types of the two may differ; the function has a method for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.common.typeinfo import Types
from headrace.datastream.callables import expect_function
from headrace.datastream.functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from headrace.datastream.keyed_adapters import (
    CoFlatMap,
    CoMap,
    KeyedCoFlatMap,
    KeyedCoMap,
)
from headrace.errors import InvalidProgramError
from headrace.graph.stream_graph import BroadcastState, HashByKey, OperatorKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.common.typeinfo import TypeInformation
    from headrace.datastream.data_stream import DataStream
    from headrace.datastream.functions import Function, KeySelector
    from headrace.datastream.state import MapStateDescriptor


class BroadcastStream:
    """A stream that every slot gets, with the states that keep what it tells."""

    def __init__(self, stream: DataStream, descriptors: tuple[MapStateDescriptor, ...]) -> None:
        """Made by `DataStream.broadcast`."""
        self.stream = stream
        self.states = tuple(
            BroadcastState(
                descriptor.name,
                descriptor.key_type_info.key_serializer(),
                descriptor.value_type_info.value_serializer(),
            )
            for descriptor in descriptors
        )
        names = [state.name for state in self.states]
        if len(set(names)) != len(names):
            msg = f"two broadcast states have one name; names={names}"
            raise InvalidProgramError(msg)


class ConnectedStreams:
    """Two streams whose records meet in one function."""

    def __init__(self, first: DataStream, second: DataStream) -> None:
        """Made by `DataStream.connect`."""
        _check_environment(first, second)
        self._first = first
        self._second = second

    def key_by(
        self,
        key_selector1: Callable[[Any], Any] | KeySelector | str,
        key_selector2: Callable[[Any], Any] | KeySelector | str,
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Partition both by key; equal keys of both meet in one slot.

        Args:
            key_selector1: for the first stream, see `DataStream.key_by`.
            key_selector2: for the second.
            key_type: type of the keys of both.
        """
        return ConnectedStreams(
            self._first.key_by(key_selector1, key_type),
            self._second.key_by(key_selector2, key_type),
        )

    def map(self, func: CoMapFunction, output_type: TypeInformation | None = None) -> DataStream:
        """Turn every record of both into one; with keys the function may use keyed state."""
        expect_function(func, CoMapFunction, "map")
        adapter = KeyedCoMap(func) if self._is_keyed else CoMap(func)
        return self._then("Co-Map", adapter, output_type)

    def flat_map(
        self, func: CoFlatMapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Turn every record of both into any number; with keys it may use keyed state."""
        expect_function(func, CoFlatMapFunction, "flat_map")
        adapter = KeyedCoFlatMap(func) if self._is_keyed else CoFlatMap(func)
        return self._then("Co-Flat Map", adapter, output_type)

    def process(
        self,
        func: CoProcessFunction | KeyedCoProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Work on every record of both, with state and timers if both are keyed.

        Raises:
            InvalidProgramError: the function is for keyed streams and these are not, or the other
                way round.
        """
        kind = KeyedCoProcessFunction if self._is_keyed else CoProcessFunction
        expect_function(func, kind, "process")
        return self._then("Co-Process", func, output_type)

    @property
    def _is_keyed(self) -> bool:
        return _is_keyed(self._first) and _is_keyed(self._second)

    def _then(
        self, name: str, function: Function, output_type: TypeInformation | None
    ) -> DataStream:
        result_type = output_type or Types.PICKLED_BYTE_ARRAY()
        program = self._first.get_execution_environment().program
        node = program.add_operator(
            OperatorKind.KEYED_CO_PROCESS if self._is_keyed else OperatorKind.CO_PROCESS,
            name,
            function,
            result_type,
            self._first.upstreams,
            self._second.upstreams,
        )
        return self._first.result_of(node, result_type)


class BroadcastConnectedStream:
    """A stream, with keys or without, beside a broadcast one."""

    def __init__(self, stream: DataStream, broadcast: BroadcastStream) -> None:
        """Made by `DataStream.connect`."""
        _check_environment(stream, broadcast.stream)
        self._stream = stream
        self._broadcast = broadcast

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Work on every record, with the broadcast state as the broadcast stream has made it.

        Raises:
            InvalidProgramError: the function is for a keyed stream and this is not, or the other
                way round.
        """
        keyed = _is_keyed(self._stream)
        kind: type[BaseBroadcastProcessFunction]
        kind = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
        expect_function(func, kind, "process")
        result_type = output_type or Types.PICKLED_BYTE_ARRAY()
        program = self._stream.get_execution_environment().program
        node = program.add_operator(
            OperatorKind.KEYED_BROADCAST_PROCESS if keyed else OperatorKind.BROADCAST_PROCESS,
            "Co-Process-Broadcast",
            func,
            result_type,
            self._stream.upstreams,
            self._broadcast.stream.upstreams,
            broadcast_states=self._broadcast.states,
        )
        return self._stream.result_of(node, result_type)


def _is_keyed(stream: DataStream) -> bool:
    return all(isinstance(upstream.partitioning, HashByKey) for upstream in stream.upstreams)


def _check_environment(first: DataStream, second: DataStream) -> None:
    if first.get_execution_environment() is not second.get_execution_environment():
        msg = "streams of two environments cannot be connected"
        raise InvalidProgramError(msg)
