"""The anchored exchange: partition i of level k's task set is slot i, in every epoch.

Spark hash-partitions an ``int`` column; for each slot a *representative* int is found whose hash
falls into that partition, so ``repartition(P, slot)`` puts the rows of slot i into partition i. A
cached frame of one empty row a slot, partitioned in the same way, is the **anchor**: UNION ALL of
anchor and rows keeps the partitioning (Spark zips the partitions), so that every slot has a task in
every epoch, also without rows, and prefers the executor that caches its anchor partition. See
docs/adr/0001.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from headrace.errors import InternalError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

SLOT_COLUMN: Final = "slot"
CHUNK_COLUMN: Final = "chunk"
EXCHANGE_SCHEMA: Final = StructType(
    [
        StructField(SLOT_COLUMN, IntegerType(), nullable=False),
        StructField(CHUNK_COLUMN, BinaryType()),
    ]
)
"""Rows of every exchange: the slot's representative int and a chunk (None in the anchor)."""

CANDIDATES_PER_SLOT: Final = 64
"""How many ints are tried for each slot; at 32768 slots about 11 are needed."""

_SPARK_HASH_SEED: Final = 42
_UINT32: Final = 0xFFFFFFFF


def find_representatives(parallelism: int) -> list[int]:
    """Return for each slot the smallest int that Spark's hash partitioner sends to its partition.

    Computed here, as Spark would (`hash_int`): a query only for that costs a driver that starts
    several seconds. `SlotExchange` proves the result against Spark.
    """
    found: dict[int, int] = {}
    for candidate in range(parallelism * CANDIDATES_PER_SLOT):
        found.setdefault(hash_int(candidate) % parallelism, candidate)
        if len(found) == parallelism:
            return [found[slot] for slot in range(parallelism)]
    msg = f"no representative for some slots; parallelism={parallelism} found={len(found)}"
    raise InternalError(msg)


def hash_int(value: int) -> int:
    """Return Spark's hash of a non-negative int, signed: MurmurHash3 x86_32 of its four bytes.

    Spark SQL's ``hash`` and its hash partitioner, both with seed 42.
    """
    mixed = value * 0xCC9E2D51 & _UINT32
    mixed = _rotate(mixed, 15) * 0x1B873593 & _UINT32
    digest = (_rotate(_SPARK_HASH_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _UINT32
    digest ^= 4  # the length in bytes
    digest = (digest ^ digest >> 16) * 0x85EBCA6B & _UINT32
    digest = (digest ^ digest >> 13) * 0xC2B2AE35 & _UINT32
    digest ^= digest >> 16
    return digest - (1 << 32) if digest >> 31 else digest


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _UINT32


class SlotExchange:
    """Routes (slot, chunk) rows to slots; made once a generation.

    Attributes:
        representatives: slot index -> int to put into the slot column.
    """

    def __init__(self, spark: SparkSession, parallelism: int) -> None:
        started = time.perf_counter()
        self._parallelism = parallelism
        self.representatives = find_representatives(parallelism)
        rows = [(value, None) for value in self.representatives]
        self.anchor = (
            spark.createDataFrame(rows, EXCHANGE_SCHEMA)
            .repartition(parallelism, SLOT_COLUMN)
            .persist(StorageLevel.MEMORY_ONLY)
        )
        self._assert_partitioning()
        seconds = time.perf_counter() - started
        log.info("the exchange is ready slots=%s seconds=%.1f", parallelism, seconds)

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
