"""From a source's description to Spark's streaming DataFrame and the decoder of its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from headrace.connectors.files.spec import FileSourceSpec
from headrace.connectors.kafka.spec import KafkaSourceSpec
from headrace.connectors.kafka.starting_offsets import decode_offsets, encode_offsets
from headrace.engine.decoders import FrameDecoder, KafkaDecoder, LineDecoder, SequenceDecoder
from headrace.engine.read_limits import CEILING_OPTION
from headrace.engine.source_ends import (
    CountEnd,
    FilesEnd,
    KafkaEnd,
    decode_file_set,
    encode_file_set,
)
from headrace.errors import InvalidConfigError, InvalidProgramError
from headrace.graph.endpoints import FromCollection, FromDataFrame, NumberSequence

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.engine.source_ends import SourceEnd
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
        frame: Spark's streaming frame; rows from beyond the end are filtered out.
        decoder: rows -> records.
        columnar_capable: rows mean themselves, so they may bypass Python on their way to the slots.
        end: where the source ends, None for one without an end.
        stored_end: what checkpoints keep of an end that was found when the job first started.
    """

    frame: DataFrame
    decoder: SourceDecoder
    columnar_capable: bool
    end: SourceEnd | None = None
    stored_end: str | None = None


def read_source(
    spark: SparkSession,
    operator: JobOperator,
    limits: SourceLimits,
    stored_end: str | None = None,
) -> SourceReader:
    """Return the reader of a source operator.

    Args:
        spark: the job's session.
        operator: the source; its function describes it.
        limits: how much an epoch reads.
        stored_end: the restored checkpoint's `SourceReader.stored_end`, None to find the end anew.

    Raises:
        InvalidProgramError: the description is of no known kind.
        InvalidConfigError, SourceUnavailableError: the source cannot be read as configured.
    """
    source = operator.function
    match source:
        case FromCollection(items=items):
            return _sequence(spark, SequenceDecoder(0, items), len(items), limits, 1)
        case NumberSequence(start=start, end=end):
            decoder = SequenceDecoder(start, None)
            return _sequence(spark, decoder, end - start + 1, limits, limits.parallelism)
        case FromDataFrame(frame=frame):
            return SourceReader(frame, FrameDecoder(len(frame.columns) == 1), True)
        case KafkaSourceSpec():
            return _kafka(spark, source, limits, stored_end)
        case FileSourceSpec():
            return _files(spark, source, limits, stored_end)
    msg = f"not a source; operator={operator.name!r} type={type(source).__name__}"
    raise InvalidProgramError(msg)


def _sequence(
    spark: SparkSession,
    decoder: SequenceDecoder,
    count: int,
    limits: SourceLimits,
    partitions: int,
) -> SourceReader:
    """Return a replayable stream of the numbers 0 .. count - 1; an offset names a number exactly.

    Spark's source has no end: numbers beyond it are filtered out before they reach Python.
    """
    frame = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", min(limits.max_epoch_rows, max(1, count)))
        .option("numPartitions", partitions)
        .load()
        .where(F.col("value") < count)
        .select("value")
    )
    return SourceReader(frame, decoder, False, CountEnd(count))


def _kafka(
    spark: SparkSession, source: KafkaSourceSpec, limits: SourceLimits, stored_end: str | None
) -> SourceReader:
    reader = spark.readStream.format("kafka")
    for name, value in source.spark_options().items():
        reader = reader.option(name, value)
    frame = (
        reader.option("maxOffsetsPerTrigger", limits.first_epoch_rows or limits.max_epoch_rows)
        .option(CEILING_OPTION, limits.max_epoch_rows)
        .load()
    )
    end = _kafka_end(source, stored_end)
    if end is not None:
        frame = frame.where(_is_before(end))
    frame = frame.select(
        "value", "topic", "partition", F.unix_millis("timestamp").alias("timestamp")
    )
    stored = encode_offsets(end.offsets) if end is not None else None
    return SourceReader(frame, KafkaDecoder(source.value_deserializer), False, end, stored)


def _kafka_end(source: KafkaSourceSpec, stored_end: str | None) -> KafkaEnd | None:
    if source.stopping_offsets is None:
        return None
    offsets = decode_offsets(stored_end) if stored_end is not None else source.find_end()
    return KafkaEnd(offsets or {})


def _is_before(end: KafkaEnd) -> Column:
    """Return the condition of rows before the end; partitions without one have no such rows."""
    condition = F.lit(False)
    for topic in sorted({topic for topic, _ in end.offsets}):
        ends = [F.lit(v) for (t, n), at in end.offsets.items() if t == topic for v in (n, at)]
        at = F.try_element_at(F.create_map(*ends), F.col("partition"))
        condition = condition | ((F.col("topic") == topic) & (F.col("offset") < at))
    return F.coalesce(condition, F.lit(False))


def _files(
    spark: SparkSession, source: FileSourceSpec, limits: SourceLimits, stored_end: str | None
) -> SourceReader:
    reader = spark.readStream.format("text")
    options = source.spark_options()
    if limits.first_epoch_rows is not None and MAX_FILES_OPTION in options:
        # Nobody knows how many rows a file has before the first one was read.
        options = {**options, CEILING_OPTION: options[MAX_FILES_OPTION], MAX_FILES_OPTION: "1"}
    for name, value in options.items():
        reader = reader.option(name, value)
    decoder = LineDecoder(source.deserializer)
    try:
        frame = reader.load(source.spark_path())
        end = _files_end(spark, source, stored_end)
    except AnalysisException as error:
        msg = f"the files of a source cannot be read; paths={list(source.paths)} cause={error}"
        raise InvalidConfigError(msg) from error
    if end is not None:
        frame = frame.where(F.col("_metadata.file_path").isin(end.spellings()))
    frame = frame.select(F.col("value").cast("binary").alias("value"))
    stored = encode_file_set(end.uris) if end is not None else None
    return SourceReader(frame, decoder, False, end, stored)


def _files_end(
    spark: SparkSession, source: FileSourceSpec, stored_end: str | None
) -> FilesEnd | None:
    if not source.bounded:
        return None
    if stored_end is not None:
        return FilesEnd(decode_file_set(stored_end))
    found = spark.read.format("text").options(**source.options).load(source.spark_path())
    return FilesEnd(frozenset(found.inputFiles()))
