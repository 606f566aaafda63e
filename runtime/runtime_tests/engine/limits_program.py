"""Reads Kafka and files under changing limits; a process of its own, for jars at the JVM's start.

Arguments: broker, directory of files, checkpoint directory. Prints a JSON list with an entry an
epoch: rows read of each source, and the facts that `ReadLimits` gave.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import asdict

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from headrace.cli.cache import cache_dir
from headrace.cli.jars import resolve_jars
from headrace.engine.read_limits import CEILING_OPTION, ReadLimits, ReadUnit
from headrace.engine.session import SessionSettings, start_session

PLAN = {ReadUnit.ROWS: [30, 7, 100, 100_000], ReadUnit.FILES: [2, 3, 1, 1000]}


def main() -> None:
    broker, files, log = sys.argv[1:]
    jars = resolve_jars("spark-kafka", cache_dir())
    spark = start_session(SessionSettings("limits", "local[2]", "token", jars=jars))

    def kafka(topic, most):  # a reader is one object that every option changes
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
        reader = reader.option("startingOffsets", "earliest").option("subscribe", topic)
        return reader.option("maxOffsetsPerTrigger", most)

    text = spark.readStream.format("text").option("maxFilesPerTrigger", 1)
    beat = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 4).load()
    frame = (
        kafka("ours", 10)
        .option(CEILING_OPTION, 50_000)
        .load()
        .select(F.lit("ours").alias("source"))
        .union(beat.select(F.lit("generated")))
        .union(text.option(CEILING_OPTION, 40).load(files).select(F.lit("files")))
        .union(kafka("users", 5).load().select(F.lit("users")))
    )
    limits, ready, epochs = ReadLimits(spark), threading.Event(), []

    def epoch(rows, number):
        ready.wait()
        if not limits.attached:
            limits.attach(query)
        facts = limits.observe()
        counts = {row["source"]: row["count"] for row in rows.groupBy("source").count().collect()}
        described = [{**asdict(fact), "unit": fact.unit.value} for fact in facts]
        epochs.append({"rows": counts, "facts": described})
        limits.admit([PLAN[fact.unit][min(number, 3)] for fact in facts])

    query = (
        frame.writeStream.foreachBatch(epoch)
        .option("checkpointLocation", log)
        .trigger(processingTime="0 seconds")
        .start()
    )
    ready.set()
    while len(epochs) < 5:
        if query.awaitTermination(0.1):
            raise SystemExit(str(query.exception()))
    sys.stdout.write(json.dumps(epochs[:5]) + "\n")


if __name__ == "__main__":
    main()
