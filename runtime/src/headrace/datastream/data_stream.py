"""Streams, as ``pyflink.datastream.data_stream``.

A stream is a view on the graph under construction: an operator, or several (`union`), with the
partitioning that the next operator gets. Methods add operators; nothing runs before ``execute``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, overload

from headrace.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TypeInformation, Types
from headrace.datastream.callables import (
    FilterCallable,
    FlatMapCallable,
    MapCallable,
    ReduceCallable,
    expect_function,
    plain_callable,
)
from headrace.datastream.connected_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
)
from headrace.datastream.data_stream_sink import DataStreamSink
from headrace.datastream.field_selector import FieldSelector
from headrace.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
)
from headrace.datastream.key_tracing import traced_field
from headrace.datastream.keyed_adapters import KeyedFilter, KeyedFlatMap, KeyedMap
from headrace.datastream.program_graph import FORWARD, Upstream
from headrace.datastream.unsupported import STREAM, missing_attribute
from headrace.errors import InvalidProgramError
from headrace.graph.endpoints import FromDataFrame, PrintSink
from headrace.graph.stream_graph import Broadcast, HashByKey, OperatorKind, Rebalance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.common.watermark_strategy import WatermarkStrategy
    from headrace.datastream.closeable_iterator import CloseableIterator
    from headrace.datastream.connectors.base import Sink
    from headrace.datastream.state import MapStateDescriptor
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.graph.stream_graph import Partitioning, StreamNode


class DataStream:
    """A stream of records."""

    def __init__(
        self,
        env: StreamExecutionEnvironment,
        upstreams: tuple[Upstream, ...],
        type_info: TypeInformation,
    ) -> None:
        """Made by the environment and by other streams."""
        self._env = env
        self.upstreams = upstreams
        """Where the records come from; the next operator's incoming edges."""
        self._type_info = type_info

    # --- the operator that the stream comes from -------------------------------------------------

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment."""
        return self._env

    def get_type(self) -> TypeInformation:
        """Return the declared type of the records."""
        return self._type_info

    def get_name(self) -> str:
        """Return the name of the operator."""
        return self._node("get_name").name

    def name(self, name: str) -> DataStream:
        """Name the operator; names are for people and change nothing."""
        self._node("name").name = name
        return self

    def uid(self, uid: str) -> DataStream:
        """Give the operator the identity under which checkpoints keep its state.

        It must be unique in the program and must never change.
        """
        self._node("uid").uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> DataStream:
        """Let the operator run in so many slots, the first ones, instead of all.

        It never runs in more than the job has, whatever a rescale makes of the job.
        """
        self._node("set_parallelism").parallelism = parallelism
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Set the operator's number of key groups; it must be the job's."""
        self._node("set_max_parallelism").max_parallelism = max_parallelism
        return self

    # --- transformations -------------------------------------------------------------------------

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Turn every record into one."""
        function = (
            func if isinstance(func, MapFunction) else MapCallable(plain_callable(func, "map"))
        )
        return self._then(OperatorKind.MAP, "Map", function, output_type)

    def flat_map(
        self,
        func: Callable[[Any], Iterable[Any] | None] | FlatMapFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Turn every record into any number: a function may return, yield or return None."""
        function = (
            func
            if isinstance(func, FlatMapFunction)
            else FlatMapCallable(plain_callable(func, "flat_map"))
        )
        return self._then(OperatorKind.FLAT_MAP, "Flat Map", function, output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep the records for which ``func`` is true."""
        function = (
            func
            if isinstance(func, FilterFunction)
            else FilterCallable(plain_callable(func, "filter"))
        )
        return self._then(OperatorKind.FILTER, "Filter", function, self._type_info)

    def process(
        self, func: ProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Work on every record with access to its timestamp.

        Raises:
            InvalidProgramError: ``func`` needs a keyed stream.
        """
        if isinstance(func, KeyedProcessFunction):
            msg = (
                "a KeyedProcessFunction needs a keyed stream, call key_by first; "
                f"function={type(func).__name__}"
            )
            raise InvalidProgramError(msg)
        expect_function(func, ProcessFunction, "process")
        return self._then(OperatorKind.PROCESS, "Process", func, output_type)

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partition the stream by key: all records of a key go to the same slot.

        Args:
            key_selector: value -> key, or the name of a field of rows.
            key_type: type of the keys. A declared type makes hashing faster and says when two keys
                are equal; without one, 1, 1.0 and True are three keys. A plain field of a typed row
                has the field's type.

        Raises:
            InvalidProgramError: there is no such field, or the type cannot be a key.
        """
        return KeyedStream(self, *self._hash_by_key(key_selector, key_type))

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give records their event time; must come before `key_by`, `rebalance` and `union`."""
        node = self._env.program.add_operator(
            OperatorKind.TIMESTAMPS,
            "Timestamps/Watermarks",
            None,
            self._type_info,
            self.upstreams,
            watermarks=watermark_strategy.to_spec(),
        )
        return self.result_of(node, self._type_info)

    def union(self, *streams: DataStream) -> DataStream:
        """Return all records of this and other streams of the same type, in no order.

        Raises:
            InvalidProgramError: the types or environments differ.
        """
        for other in streams:
            if other.get_execution_environment() is not self._env:
                msg = "streams of two environments cannot be united"
                raise InvalidProgramError(msg)
            if other.get_type() != self._type_info:
                msg = (
                    "streams must have the same type to be united; "
                    f"types={self._type_info},{other.get_type()}"
                )
                raise InvalidProgramError(msg)
        inputs = [upstream for stream in (self, *streams) for upstream in stream.upstreams]
        return DataStream(self._env, tuple(inputs), self._type_info)

    @overload
    def connect(self, ds: BroadcastStream) -> BroadcastConnectedStream: ...

    @overload
    def connect(self, ds: DataStream) -> ConnectedStreams: ...

    def connect(
        self, ds: DataStream | BroadcastStream
    ) -> ConnectedStreams | BroadcastConnectedStream:
        """Join this stream and another one in a function that tells them apart.

        Raises:
            InvalidProgramError: the other is one of another environment.
        """
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        return ConnectedStreams(self, ds)

    @overload
    def broadcast(self) -> DataStream: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream | DataStream:
        """Give every record to every slot.

        Args:
            broadcast_state_descriptor: with it, the stream is for ``connect``: a function keeps
                what it tells in this broadcast state.
            other_broadcast_state_descriptors: more broadcast states.
        """
        stream = self._with(Broadcast())
        if broadcast_state_descriptor is None:
            return stream
        return BroadcastStream(
            stream, (broadcast_state_descriptor, *other_broadcast_state_descriptors)
        )

    def rebalance(self) -> DataStream:
        """Spread the records evenly over the slots."""
        return self._with(Rebalance())

    def shuffle(self) -> DataStream:
        """Spread the records over the slots; the same as `rebalance`."""
        return self._with(Rebalance())

    def forward(self) -> DataStream:
        """Keep the records in their slot (the default)."""
        return self._with(FORWARD)

    # --- ends ------------------------------------------------------------------------------------

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the records to a sink."""
        return self._sink(type(sink).__name__, sink.description())

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print the records on the program's standard output, each with its subtask."""
        return self._sink("Print to Std. Out", PrintSink(sink_identifier))

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator | list[Any]:
        """Execute the program and return the records of this stream.

        The job runs to its end first, so the stream must be bounded unless there is a limit.

        Args:
            job_execution_name: name of the job.
            limit: stop after so many records and return them as a list.

        Raises:
            HeadraceError: the program is wrong or the job failed.
        """
        return self._env.execute_and_collect(self, job_execution_name, limit)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            raise missing_attribute(self, name, STREAM)

    # --- construction ----------------------------------------------------------------------------

    def _node(self, what: str) -> StreamNode:
        upstream = self.upstreams[0]
        if len(self.upstreams) != 1 or upstream.partitioning != FORWARD:
            msg = f"this stream is a union or partition of others, not an operator; call={what}"
            raise InvalidProgramError(msg)
        return self._env.program.node(upstream.node_id)

    def _then(
        self, kind: OperatorKind, name: str, function: object, output_type: TypeInformation | None
    ) -> DataStream:
        result_type = output_type or Types.PICKLED_BYTE_ARRAY()
        node = self._env.program.add_operator(kind, name, function, result_type, self.upstreams)
        return self.result_of(node, result_type)

    def result_of(self, node: StreamNode, type_info: TypeInformation) -> DataStream:
        """Return the stream of what an operator of this program emits."""
        return DataStream(self._env, (Upstream(node.id),), type_info)

    def _sink(self, name: str, description: object) -> DataStreamSink:
        node = self._env.program.add_operator(
            OperatorKind.SINK, f"Sink: {name}", description, self._type_info, self.upstreams
        )
        return DataStreamSink(node)

    def _with(self, partitioning: Partitioning) -> DataStream:
        upstreams = _repartitioned(self.upstreams, partitioning)
        return DataStream(self._env, upstreams, self._type_info)

    def _hash_by_key(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str,
        key_type: TypeInformation | None,
    ) -> tuple[HashByKey, TypeInformation]:
        row = self._type_info if isinstance(self._type_info, RowTypeInfo) else None
        field: str | None = None
        if isinstance(key_selector, str):
            if row is None or row.get_field_index(key_selector) < 0:
                fields = row.get_field_names() if row else None
                msg = f"no such field to key by; field={key_selector!r} fields={fields}"
                raise InvalidProgramError(msg)
            field, selector = key_selector, FieldSelector(key_selector).get_key
        elif isinstance(key_selector, KeySelector):
            selector = key_selector.get_key
        else:
            selector = plain_callable(key_selector, "key_by")
            field = traced_field(selector, row.get_field_names()) if row else None
        field_type = row.get_field_types()[row.get_field_index(field)] if row and field else None
        declared = key_type or field_type or Types.PICKLED_BYTE_ARRAY()
        column = field if self._is_data_frame() and declared == field_type else None
        if isinstance(declared, PickledBytesTypeInfo):
            column = None
        return HashByKey(selector, declared.key_serializer(), column), declared

    def _is_data_frame(self) -> bool:
        node = self._env.program.node
        functions = [node(upstream.node_id).function for upstream in self.upstreams]
        return len(functions) == 1 and isinstance(functions[0], FromDataFrame)


class KeyedStream(DataStream):
    """A stream partitioned by key."""

    def __init__(
        self, stream: DataStream, partitioning: HashByKey, key_type: TypeInformation
    ) -> None:
        """Made by `DataStream.key_by`."""
        upstreams = _repartitioned(stream.upstreams, partitioning)
        super().__init__(stream.get_execution_environment(), upstreams, stream.get_type())
        self._key_type = key_type

    def get_key_type(self) -> TypeInformation:
        """Return the type of the keys."""
        return self._key_type

    def process(  # type: ignore[override]  # as in PyFlink, a keyed stream takes a keyed function
        self, func: KeyedProcessFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Work on every record with state and timers of its key."""
        expect_function(func, KeyedProcessFunction, "process")
        return self._then(OperatorKind.KEYED_PROCESS, "Keyed Process", func, output_type)

    def reduce(self, func: Callable[[Any, Any], Any] | ReduceFunction) -> DataStream:
        """Combine the records of every key; each record emits the new combination."""
        function = (
            func
            if isinstance(func, ReduceFunction)
            else ReduceCallable(plain_callable(func, "reduce"))
        )
        return self._then(OperatorKind.KEYED_REDUCE, "Reduce", function, self._type_info)

    def map(
        self, func: Callable[[Any], Any] | MapFunction, output_type: TypeInformation | None = None
    ) -> DataStream:
        """Turn every record into one; a `MapFunction` may use keyed state."""
        if isinstance(func, MapFunction):
            return self._then(OperatorKind.KEYED_PROCESS, "Map", KeyedMap(func), output_type)
        return super().map(func, output_type)

    def flat_map(
        self,
        func: Callable[[Any], Iterable[Any] | None] | FlatMapFunction,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Turn every record into any number; a `FlatMapFunction` may use keyed state."""
        if isinstance(func, FlatMapFunction):
            function = KeyedFlatMap(func)
            return self._then(OperatorKind.KEYED_PROCESS, "Flat Map", function, output_type)
        return super().flat_map(func, output_type)

    def filter(self, func: Callable[[Any], bool] | FilterFunction) -> DataStream:
        """Keep some records; a `FilterFunction` may use keyed state."""
        if isinstance(func, FilterFunction):
            function = KeyedFilter(func)
            return self._then(OperatorKind.KEYED_PROCESS, "Filter", function, self._type_info)
        return super().filter(func)

    def broadcast(self, *args: object) -> NoReturn:  # noqa: ARG002 - PyFlink's signature
        """Refuse, as PyFlink does: the records of a keyed stream belong to one slot each."""
        msg = "a keyed stream cannot be broadcast, call broadcast before key_by"
        raise InvalidProgramError(msg)

    def key_by(
        self,
        key_selector: Callable[[Any], Any] | KeySelector | str,
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Partition by another key instead."""
        return KeyedStream(self, *self._hash_by_key(key_selector, key_type))


def _repartitioned(
    upstreams: tuple[Upstream, ...], partitioning: Partitioning
) -> tuple[Upstream, ...]:
    return tuple(replace(upstream, partitioning=partitioning) for upstream in upstreams)
