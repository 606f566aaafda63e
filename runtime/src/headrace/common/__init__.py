"""Types, rows, time, configuration and schemas: the counterpart of ``pyflink.common``."""

from headrace.common.configuration import Configuration
from headrace.common.job_execution_result import JobExecutionResult
from headrace.common.restart_strategy import RestartStrategies, RestartStrategyConfiguration
from headrace.common.serialization import (
    ByteArraySchema,
    DeserializationSchema,
    Encoder,
    SerializationSchema,
    SimpleStringSchema,
)
from headrace.common.time import Duration, Instant, Time
from headrace.common.typeinfo import TypeInformation, Types
from headrace.common.types import Row, RowKind
from headrace.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from headrace.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

__all__ = [
    "ByteArraySchema",
    "Configuration",
    "DeserializationSchema",
    "Duration",
    "Encoder",
    "Instant",
    "JobExecutionResult",
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
    "RestartStrategies",
    "RestartStrategyConfiguration",
    "Row",
    "RowKind",
    "SerializationSchema",
    "SimpleStringSchema",
    "Time",
    "TimestampAssigner",
    "TypeInformation",
    "Types",
    "WatermarkStrategy",
]
