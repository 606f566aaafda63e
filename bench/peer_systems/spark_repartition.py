"""Pause of a change of parallelism in Spark: its offline state repartition, on one session.

An aggregation keeps one value of ``--value-bytes`` for each key in Spark's RocksDB state store. The
pause reaches from the stop of the query after a finished batch to the end of the first batch after
the repartition; the session stays, which favours Spark: elsewhere an application is submitted anew.
The repartition alone is reported too. Prints one JSON line last.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def start(spark: SparkSession, args: argparse.Namespace, directory: Path) -> StreamingQuery:
    """Start or go on with the query."""
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", args.rows)
    numbered = rows.option("numPartitions", 2).load()
    parts = f"transform(sequence(1, {args.value_bytes // 32}), part -> md5(value || '-' || part))"
    text = f"array_join({parts}, '')"
    kept = numbered.selectExpr(f"pmod(value, {args.keys}L) AS key", f"{text} AS kept")
    return (
        kept.groupBy("key")
        .agg({"kept": "last"})
        .where("false")
        .writeStream.outputMode("update")
        .format("noop")
        .option("checkpointLocation", str(directory))
        .start()
    )


def wait_for_batches(query: StreamingQuery, batches: int) -> None:
    """Wait until so many batches with rows have ended since the query's start."""
    done: set[int] = set()
    while len(done) < batches:
        failure = query.exception()
        if failure is not None:
            raise failure
        for progress in query.recentProgress:
            if progress["numInputRows"]:
                done.add(progress["batchId"])
        time.sleep(0.02)


def measure(
    spark: SparkSession, args: argparse.Namespace, directory: Path, partitions: int
) -> tuple[float, float]:
    """Change the number of partitions; returns seconds of the pause and of the repartition."""
    query = start(spark, args, directory)
    wait_for_batches(query, 3)
    begun = time.perf_counter()
    query.stop()
    repartitioning = time.perf_counter()
    manager = spark._streamingCheckpointManager  # noqa: SLF001 - Spark's only way to it
    # The batch that the stop interrupted may be skipped: as in a job whose sink is idempotent.
    manager.repartition(str(directory), partitions, enforce_exactly_once_sink=False)
    repartitioned_s = time.perf_counter() - repartitioning
    spark.conf.set("spark.sql.shuffle.partitions", partitions)
    query = start(spark, args, directory)
    wait_for_batches(query, 1)
    pause_s = time.perf_counter() - begun
    wait_for_batches(query, 2)
    query.stop()
    return pause_s, repartitioned_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--fill-rows", type=int, default=200_000, help="rows of a batch to fill")
    parser.add_argument("--from", dest="low", type=int, default=2)
    parser.add_argument("--to", dest="high", type=int, default=4)
    parser.add_argument("--master", default="local-cluster[2,1,1024]")
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    spark = (
        SparkSession.builder.master(args.master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        .config("spark.sql.shuffle.partitions", args.low)
        .config("spark.sql.streaming.numRecentProgressUpdates", 10_000)
        .config("spark.sql.streaming.minBatchesToRetain", 2)  # each keeps a copy of what changed
        .config("spark.sql.streaming.offsetLog.formatVersion", "2")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory(prefix="spark-repartition-") as name:
        directory = Path(name)
        wanted, args.rows = args.rows, args.fill_rows
        query = start(spark, args, directory)
        wait_for_batches(query, -(-args.keys // args.fill_rows) + 1)
        query.stop()
        args.rows = wanted
        print("filled", file=sys.stderr, flush=True)
        up = measure(spark, args, directory, args.high)
        print(f"up {up}", file=sys.stderr, flush=True)
        down = measure(spark, args, directory, args.low)
        spark.stop()
    print(
        json.dumps(
            {
                "pause_ms": {"up": round(up[0] * 1000), "down": round(down[0] * 1000)},
                "repartition_ms": {"up": round(up[1] * 1000), "down": round(down[1] * 1000)},
            }
        )
    )


if __name__ == "__main__":
    main()
