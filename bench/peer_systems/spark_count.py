"""The keyed count with Spark's ``transformWithStateInPandas`` and its RocksDB state store.

Spark has no checkpoint interval: every micro-batch commits its state, so a batch is as long as it
takes to process ``--batch-rows`` records. The function is called once a key and batch and counts
the rows of a whole DataFrame at a time, which favours Spark; with larger batches it has more rows
to a call. Measured are whole batches, after the first one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time

import pandas as pd
from measuring import announce, report
from pyspark.sql import SparkSession
from pyspark.sql.functions import expr
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle, StreamingQuery
from pyspark.sql.types import LongType, StructField, StructType

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Count(StatefulProcessor):
    """Counts the records of every key; emits one result in a million."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", StructType([StructField("n", LongType())]))

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
        before = self.count.get()[0] if self.count.exists() else 0
        count = before + sum(len(frame) for frame in rows)
        self.count.update((count,))
        if count // 1_000_000 != before // 1_000_000:
            yield pd.DataFrame({"n": [count]})

    def close(self) -> None:
        pass


def finished_batches(query: StreamingQuery) -> list[dict[str, object]]:
    """Return the batches with rows, oldest first."""
    failure = query.exception()
    if failure is not None:
        raise failure
    progress = [json.loads(batch.json) for batch in query.recentProgress]
    return [batch for batch in progress if batch["numInputRows"]]


def wait_for_batches(query: StreamingQuery, batches: int) -> None:
    """Wait until so many batches with rows have ended."""
    while len(finished_batches(query)) < batches:
        time.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, required=True)
    parser.add_argument("--parallelism", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--batch-rows", type=int, required=True)
    args = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master(f"local[{args.parallelism}]")
        .config("spark.sql.shuffle.partitions", args.parallelism)
        .config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
        .config(
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
            "true",
        )
        .config("spark.sql.streaming.numRecentProgressUpdates", 1000)
        .config("spark.driver.memory", "4g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory(prefix="spark-bench-") as scratch:
        query = (
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", args.batch_rows)
            .option("numPartitions", args.parallelism)
            .load()
            .select(expr(f"pmod(value * 2654435761L, {args.keys}L) AS key"), "value")
            .groupBy("key")
            .transformWithStateInPandas(Count(), "n BIGINT", "Update", "None")
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", f"{scratch}/checkpoints")
            .start()
        )
        wait_for_batches(query, 1)
        announce("measuring")
        started, batches = time.perf_counter(), 1
        while time.perf_counter() - started < args.seconds:
            batches += 1
            wait_for_batches(query, batches)
        elapsed = time.perf_counter() - started
        announce("measured")
        report(
            (batches - 1) * args.batch_rows / elapsed,
            elapsed,
            batches=batches - 1,
            batch_rows=args.batch_rows,
        )
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
