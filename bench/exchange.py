"""The exchange alone, in two shapes: rows with a shuffled hash join, chunks with a union.

``rows``: every record is a row of the shuffle; the anchor is LEFT-joined with the hint
``shuffle_hash``. ``chunks``: records are packed into chunks before the shuffle; anchor and chunks
are a UNION ALL, which is what `headrace.engine.exchange` does. Both end with all columns as Python
lists in the slot's task. The shapes take turns, so that other load on the machine meets both.

Prints one JSON line last, for docs/adr/0001: medians of ``records_per_s`` and ``empty_ms``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from headrace.engine.exchange import EXCHANGE_SCHEMA, SlotExchange
from headrace.engine.session import SessionSettings, start_session
from headrace.slot.chunk import ColumnRows, decode, encode_columns

MAX_PARALLELISM = 128
WARMUP_EPOCHS = 2


def build_source(spark: SparkSession, rows: int, parallelism: int) -> DataFrame:
    """Return ``rows`` records of a key, a value and the key's group."""
    key = F.expr("pmod(id * 2654435761L, 100000L)")
    return spark.range(0, rows, numPartitions=parallelism).select(
        F.pmod(F.xxhash64(key), F.lit(MAX_PARALLELISM)).cast("int").alias("__kg"),
        key.alias("key"),
        F.col("id").alias("value"),
    )


def as_rows(exchange: SlotExchange, source: DataFrame, parallelism: int) -> DataFrame:
    slots = F.array(*(F.lit(value) for value in exchange.representatives))
    index = F.expr(f"int(__kg * {parallelism} / {MAX_PARALLELISM})")
    routed = source.withColumn("slot", slots[index]).repartition(parallelism, "slot")
    anchor = exchange.anchor.select("slot")
    joined = anchor.join(routed.hint("shuffle_hash"), "slot", "left")
    return joined.mapInArrow(drain_rows, "records long")


def as_chunks(exchange: SlotExchange, source: DataFrame, parallelism: int) -> DataFrame:
    representatives = exchange.representatives

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            slots = (
                batch.column("__kg").to_numpy().astype(np.int64) * parallelism // MAX_PARALLELISM
            )
            packed = [
                (
                    representatives[slot],
                    encode_columns(0, batch.take(np.flatnonzero(slots == slot))),
                )
                for slot in np.unique(slots).tolist()
            ]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([slot for slot, _ in packed], pa.int32()),
                    pa.array([chunk for _, chunk in packed], pa.binary()),
                ],
                names=EXCHANGE_SCHEMA.names,
            )

    routed = exchange.route(source.mapInArrow(pack, EXCHANGE_SCHEMA))
    return routed.mapInArrow(drain_chunks, "records long")


def drain_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    records = 0
    for batch in batches:
        present = batch.filter(batch.column("key").is_valid())
        records += sum_of_lengths(present)
    yield pa.RecordBatch.from_arrays([pa.array([records])], names=["records"])


def drain_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    records = 0
    for batch in batches:
        for chunk in batch.column("chunk"):
            if chunk.is_valid:
                rows = decode(chunk.as_buffer().to_pybytes())
                assert isinstance(rows, ColumnRows)
                records += sum_of_lengths(rows.batch)
    yield pa.RecordBatch.from_arrays([pa.array([records])], names=["records"])


def sum_of_lengths(batch: pa.RecordBatch) -> int:
    """Turn every column into Python objects, as a slot does, and return the number of records."""
    lists = [batch.column(name).to_numpy().tolist() for name in ("__kg", "key", "value")]
    return len(lists[0])


def measure_s(routed: DataFrame, expected: int) -> float:
    started = time.perf_counter()
    counts = [row["records"] for row in routed.collect()]
    elapsed_s = time.perf_counter() - started
    assert expected == sum(counts), (expected, counts)
    return elapsed_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallelism", type=int, default=2, help="executors of one core")
    parser.add_argument("--executor-mib", type=int, default=1024, help="heap of an executor")
    parser.add_argument("--records", type=int, default=2_000_000, help="of one epoch")
    parser.add_argument("--epochs", type=int, default=7, help="measured, of each kind")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    args = parser.parse_args()
    conf = {
        "spark.executor.memory": f"{args.executor_mib}m",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(args.parallelism),
    }
    master = f"local-cluster[{args.parallelism},1,{args.executor_mib}]"
    spark = start_session(SessionSettings("bench-exchange", master, "token", conf))
    exchange = SlotExchange(spark, args.parallelism)
    taken_s: dict[tuple[str, int], list[float]] = defaultdict(list)
    for epoch in range(-WARMUP_EPOCHS, args.epochs):
        for name, records in itertools.product(args.shapes, (args.records, 0)):
            source = build_source(spark, records, args.parallelism)
            elapsed_s = measure_s(SHAPES[name](exchange, source, args.parallelism), records)
            print(f"epoch={epoch} shape={name} records={records} elapsed_s={elapsed_s:.3f}")
            if epoch >= 0:
                taken_s[name, records].append(elapsed_s)
    shapes = {
        name: {
            "records_per_s": round(args.records / statistics.median(taken_s[name, args.records])),
            "empty_ms": round(statistics.median(taken_s[name, 0]) * 1000),
        }
        for name in args.shapes
    }
    print(json.dumps({"bench": "exchange", "records": args.records, **shapes}))
    spark.stop()


SHAPES = {"rows": as_rows, "chunks": as_chunks}

if __name__ == "__main__":
    main()
