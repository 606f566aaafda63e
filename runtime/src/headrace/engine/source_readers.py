"""From a source's description to Spark's streaming DataFrame and the decoder of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from headrace.connectors.files.spec import FileSourceSpec
from headrace.connectors.kafka.spec import KafkaSourceSpec
from headrace.engine.decoders import FrameDecoder, KafkaDecoder, LineDecoder, SequenceDecoder
from headrace.engine.read_limits import CEILING_OPTION
from headrace.errors import InvalidProgramError
from headrace.graph.endpoints import FromCollection, FromDataFrame, NumberSequence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.engine.source_task import SourceDecoder
    from headrace.graph.job_graph import JobOperator

MAX_FILES_OPTION: Final = "maxFilesPerTrigger"


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """How much one epoch reads.

    Attributes:
        max_epoch_rows: most rows of one source in one epoch.
        parallelism: tasks that read a generated source.
        first_epoch_rows: the same for the first epoch, whose cost nobody knows; None when limits
            are not adapted.
    """

    max_epoch_rows: int
    parallelism: int
    first_epoch_rows: int | None = None


@dataclass(frozen=True, slots=True)
class SourceReader:
    """A source, ready to be read.

    Attributes:
        frame: Spark's streaming frame.
        decoder: rows -> records.
        columnar_capable: rows mean themselves, so they may bypass Python on their way to the slots.
    """

    frame: DataFrame
    decoder: SourceDecoder
    columnar_capable: bool


def read_source(spark: SparkSession, operator: JobOperator, limits: SourceLimits) -> SourceReader:
    """Return the reader of a source operator.

    Raises:
        InvalidProgramError: the description is of no known kind.
        InvalidConfigError, SourceUnavailableError: the source cannot be read as configured.
    """
    source = operator.function
    match source:
        case FromCollection(items=items):
            frame = _sequence(spark, limits.max_epoch_rows, 1)
            return SourceReader(frame, SequenceDecoder(len(items), 0, items), False)
        case NumberSequence(start=start, end=end):
            frame = _sequence(spark, limits.max_epoch_rows, limits.parallelism)
            return SourceReader(frame, SequenceDecoder(end - start + 1, start, None), False)
        case FromDataFrame(frame=frame):
            return SourceReader(frame, FrameDecoder(len(frame.columns) == 1), True)
        case KafkaSourceSpec():
            return _kafka(spark, source, limits)
        case FileSourceSpec():
            return _files(spark, source, limits)
    msg = f"not a source; operator={operator.name!r} type={type(source).__name__}"
    raise InvalidProgramError(msg)


def _sequence(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    """Return a replayable stream of the numbers 0, 1, 2...; an offset names a number exactly."""
    return (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", partitions)
        .load()
        .select("value")
    )


def _kafka(spark: SparkSession, source: KafkaSourceSpec, limits: SourceLimits) -> SourceReader:
    reader = spark.readStream.format("kafka")
    for name, value in source.spark_options().items():
        reader = reader.option(name, value)
    frame = (
        reader.option("maxOffsetsPerTrigger", limits.first_epoch_rows or limits.max_epoch_rows)
        .option(CEILING_OPTION, limits.max_epoch_rows)
        .load()
        .select(
            "value",
            "topic",
            "partition",
            F.unix_millis("timestamp").alias("timestamp"),
        )
    )
    return SourceReader(frame, KafkaDecoder(source.value_deserializer), False)


def _files(spark: SparkSession, source: FileSourceSpec, limits: SourceLimits) -> SourceReader:
    reader = spark.readStream.format("text")
    options = source.spark_options()
    if limits.first_epoch_rows is not None and MAX_FILES_OPTION in options:
        # Nobody knows how many rows a file has before the first one was read.
        options = {**options, CEILING_OPTION: options[MAX_FILES_OPTION], MAX_FILES_OPTION: "1"}
    for name, value in options.items():
        reader = reader.option(name, value)
    frame = reader.load(source.spark_path()).select(F.col("value").cast("binary").alias("value"))
    return SourceReader(frame, LineDecoder(source.deserializer), False)
