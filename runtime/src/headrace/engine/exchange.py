"""The anchored exchange: partition i of level k's task set is slot i, in every epoch.

Spark hash-partitions an ``int`` column; for each slot a *representative* int is found whose hash
falls into that partition, so ``repartition(P, slot)`` puts the rows of slot i into partition i. A
cached frame of one empty row a slot, partitioned in the same way, is the **anchor**: UNION ALL of
anchor and rows keeps the partitioning (Spark zips the partitions), so that every slot has a task in
every epoch, also without rows, and prefers the executor that caches its anchor partition. See
docs/adr/0001.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from headrace.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SLOT_COLUMN: Final = "slot"
CHUNK_COLUMN: Final = "chunk"
EXCHANGE_SCHEMA: Final = StructType(
    [
        StructField(SLOT_COLUMN, IntegerType(), nullable=False),
        StructField(CHUNK_COLUMN, BinaryType()),
    ]
)
"""Rows of every exchange: the slot's representative int and a chunk (None in the anchor)."""


def find_representatives(spark: SparkSession, parallelism: int) -> list[int]:
    """Return for each slot an int that Spark's hash partitioner sends to its partition."""
    # One task and no shuffle: an aggregation would cost a task for each shuffle partition, 200 of
    # them, at every start of a driver.
    candidates = (
        spark.range(0, parallelism * 64, 1, 1)
        .select(F.col("id").cast("int").alias("id"))
        .select("id", F.pmod(F.hash("id"), F.lit(parallelism)).alias("partition"))
        .collect()
    )
    # The last one in falling order, so the smallest: the same ints in every run.
    found = {int(row["partition"]): int(row["id"]) for row in reversed(candidates)}
    if len(found) != parallelism:
        msg = f"no representative for some slots; parallelism={parallelism} found={len(found)}"
        raise InternalError(msg)
    return [found[slot] for slot in range(parallelism)]


class SlotExchange:
    """Routes (slot, chunk) rows to slots; made once a generation.

    Attributes:
        representatives: slot index -> int to put into the slot column.
    """

    def __init__(self, spark: SparkSession, parallelism: int) -> None:
        self._parallelism = parallelism
        self.representatives = find_representatives(spark, parallelism)
        rows = [(value, None) for value in self.representatives]
        self.anchor = (
            spark.createDataFrame(rows, EXCHANGE_SCHEMA)
            .repartition(parallelism, SLOT_COLUMN)
            .persist(StorageLevel.MEMORY_ONLY)
        )
        self._assert_partitioning()

    def _assert_partitioning(self) -> None:
        """Fill the cache and prove that partition i holds the anchor row of slot i."""
        placed = self.anchor.select(
            SLOT_COLUMN, F.spark_partition_id().alias("partition")
        ).collect()
        actual = {int(row["partition"]): int(row[SLOT_COLUMN]) for row in placed}
        expected = dict(enumerate(self.representatives))
        if actual != expected:
            msg = f"anchor rows are not in their partitions; actual={actual} expected={expected}"
            raise InternalError(msg)

    def route(self, rows: DataFrame) -> DataFrame:
        """Return ``rows`` so that partition i holds the anchor row and all rows of slot i."""
        return self.anchor.union(rows.repartition(self._parallelism, SLOT_COLUMN))

    def close(self) -> None:
        """Drop the cached anchor."""
        self.anchor.unpersist()
