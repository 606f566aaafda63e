"""Sources as streaming DataFrames of (slot, chunk) rows: level 0 of the physical plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

import cloudpickle
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from headrace.engine.exchange import EXCHANGE_SCHEMA
from headrace.engine.source_ends import SourceEnds
from headrace.engine.source_readers import read_source
from headrace.engine.source_task import SourcePlan, SourceTask, is_columnar
from headrace.graph.stream_graph import HashByKey, OperatorKind
from headrace.slot.chunk import KEY_GROUP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from headrace.engine.source_readers import SourceLimits
    from headrace.graph.job_graph import JobGraph, JobOperator
    from headrace.ids import Generation, JobId, OperatorUid


@dataclass(frozen=True, slots=True)
class SourceStream:
    """All sources of one generation.

    Attributes:
        rows: streaming frame with the columns of `EXCHANGE_SCHEMA`; its parts are the sources in
            the job's order, then the heartbeat.
        shipped: the job graph whose sources carry decoders instead of descriptions: that one is
            pickled for tasks and slots.
        ends: where the sources end.
    """

    rows: DataFrame
    shipped: JobGraph
    ends: SourceEnds


def heartbeat_frame(spark: SparkSession) -> DataFrame:
    """Return a stream without rows that makes Spark start an epoch every second on idle input."""
    beat = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    return beat.where(F.lit(False)).select(
        F.lit(0).alias("slot"), F.lit(None).cast("binary").alias("chunk")
    )


def build_source_frame(
    spark: SparkSession,
    graph: JobGraph,
    identity: tuple[JobId, Generation],
    representatives: list[int],
    limits: SourceLimits,
    stored_ends: Mapping[OperatorUid, str],
) -> SourceStream:
    """Build the streaming frame of all sources and the heartbeat.

    Args:
        spark: the job's session.
        graph: the planned job.
        identity: job and generation, which tasks keep their programs by.
        representatives: see `SlotExchange`.
        limits: how much an epoch reads.
        stored_ends: ends of sources as the restored checkpoint has them, by uid.
    """
    readers = [
        read_source(spark, operator, limits, stored_ends.get(operator.uid))
        for operator in graph.sources()
    ]
    shipped = _with_decoders(graph, [reader.decoder for reader in readers])
    columnar = frozenset(
        index
        for index, (operator, reader) in enumerate(zip(shipped.sources(), readers, strict=True))
        if reader.columnar_capable and is_columnar(shipped, operator)
    )
    job_id, generation = identity
    plan = SourcePlan(job_id, generation, shipped, tuple(representatives), columnar)
    broadcast = spark.sparkContext.broadcast(cloudpickle.dumps(plan))
    frames = []
    for index, (operator, reader) in enumerate(zip(shipped.sources(), readers, strict=True)):
        frame = reader.frame
        if index in columnar:
            frame = _with_key_group(frame, shipped, operator)
        task = SourceTask(broadcast, (job_id, int(generation)), index)
        frames.append(frame.mapInArrow(task, EXCHANGE_SCHEMA))
    frames.append(heartbeat_frame(spark))
    ends = SourceEnds(
        tuple(reader.end for reader in readers),
        {
            operator.uid: reader.stored_end
            for operator, reader in zip(graph.sources(), readers, strict=True)
            if reader.stored_end is not None
        },
    )
    rows = reduce(lambda left, right: left.union(right), frames)
    return SourceStream(rows, shipped, ends)


def _with_key_group(frame: DataFrame, graph: JobGraph, operator: JobOperator) -> DataFrame:
    edge = next(e for e in graph.levels[1].inputs if e.tag == operator.exits[0])
    partitioning = edge.partitioning
    if not isinstance(partitioning, HashByKey) or partitioning.field_name is None:
        return frame
    expression = partitioning.serializer.spark_expression(partitioning.field_name)
    return frame.withColumn(
        KEY_GROUP_COLUMN, F.expr(f"cast(pmod({expression}, {graph.max_parallelism}) as int)")
    )


def _with_decoders(graph: JobGraph, decoders: list[object]) -> JobGraph:
    remaining = iter(decoders)
    operators = tuple(
        replace(operator, function=next(remaining))
        if operator.kind is OperatorKind.SOURCE
        else operator
        for operator in graph.levels[0].operators
    )
    level = replace(graph.levels[0], operators=operators)
    return replace(graph, levels=(level, *graph.levels[1:]))
