"""Reads sources with Spark in a process of its own: jars must be there when the JVM starts.

Arguments: a cloudpickled list of `Reading` and the file for the results, a JSON list of
[values, timestamps].
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import cloudpickle
from pyspark.sql import SparkSession

from headrace.cli.cache import cache_dir
from headrace.cli.jars import resolve_jars
from headrace.engine.source_readers import SourceLimits, read_source

LIMITS = SourceLimits(max_epoch_rows=10_000, parallelism=1)


@dataclass
class Table:
    """A directory that a sink has written, read without any option."""

    path: str
    format: str
    columns: list[str]


@dataclass
class Reading:
    """Read everything that is there; readings with one log go on where the last one ended."""

    function: object
    log: str
    files: dict[str, str] = field(default_factory=dict)
    name: str = "source"


def read(spark, reading):
    if hasattr(reading, "columns"):  # its class is not this module's, which runs as __main__
        frame = spark.read.format(reading.format).load(reading.path)
        rows = frame.selectExpr(*reading.columns).collect()
        return [list(row) for row in rows], [list(pair) for pair in frame.dtypes]
    for path, text in reading.files.items():
        Path(path).write_text(text, encoding="utf-8")
    reader = read_source(spark, reading, LIMITS)
    values, stamps = [], []

    def epoch(frame, _):
        for batch in frame.toArrow().to_batches():
            if batch.num_rows:
                values.extend(reader.decoder.values(batch))
                stamps.extend(reader.decoder.timestamps(batch) or [])

    query = (
        reader.frame.writeStream.foreachBatch(epoch)
        .option("checkpointLocation", reading.log)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return values, stamps


def main() -> None:
    readings = cloudpickle.loads(Path(sys.argv[1]).read_bytes())
    jars = ",".join(str(jar) for jar in resolve_jars("spark-kafka", cache_dir()))
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    results = [read(spark, reading) for reading in readings]
    Path(sys.argv[2]).write_text(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main()
