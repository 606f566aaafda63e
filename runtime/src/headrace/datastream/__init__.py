"""Streams, functions and state: the counterpart of ``pyflink.datastream``."""

from headrace.datastream.checkpoint_config import CheckpointConfig
from headrace.datastream.checkpointing_mode import CheckpointingMode
from headrace.datastream.data_stream import DataStream, KeyedStream
from headrace.datastream.data_stream_sink import DataStreamSink
from headrace.datastream.execution_mode import RuntimeExecutionMode
from headrace.datastream.externalized_checkpoint_retention import (
    ExternalizedCheckpointCleanup,
    ExternalizedCheckpointRetention,
)
from headrace.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    ProcessFunction,
    ReduceFunction,
    RuntimeContext,
)
from headrace.datastream.state_backend import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    StateBackend,
)
from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
from headrace.datastream.time_domain import TimeDomain
from headrace.datastream.timerservice import TimerService

__all__ = [
    "CheckpointConfig",
    "CheckpointingMode",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointCleanup",
    "ExternalizedCheckpointRetention",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "HashMapStateBackend",
    "KeySelector",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "ProcessFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimerService",
]
