"""Stored state in Spark: the data source ``headrace-state``, and DataFrames as savepoints (E9).

Beside `headrace.engine` the only package that imports pyspark. It runs in any Spark application
whose driver and executors have Headrace installed; it needs no job.
"""

from headrace.state_processor.functions import (
    FillColumns,
    KeyedStateBootstrapFunction,
    StateColumns,
    TimerColumns,
)
from headrace.state_processor.spark.source import FORMAT, StateDataSource, read, register
from headrace.state_processor.spark.writer import SavepointWriter

__all__ = [
    "FORMAT",
    "FillColumns",
    "KeyedStateBootstrapFunction",
    "SavepointWriter",
    "StateColumns",
    "StateDataSource",
    "TimerColumns",
    "read",
    "register",
]
