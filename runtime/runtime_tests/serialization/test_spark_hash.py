"""`hash64` is Spark's ``xxhash64``, asked of a real Spark (T10)."""

import math
import random
import struct

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from headrace.keygroups import key_group_of_hash
from headrace.serialization.registry import key_serializer
from headrace.serialization.types import (
    BOOLEAN,
    BYTE,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    TypeDescription,
)

pytestmark = pytest.mark.integration

MAX_PARALLELISMS = (1, 100, 127, 128, 1000, 32768)


@pytest.fixture(scope="module")
def spark():
    session = (
        SparkSession.builder.master("local[1]")
        .appName("key-hash")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    yield session
    session.stop()


def _texts(rng: random.Random) -> list[str]:
    alphabet = "aé€😀\x00 Z9"
    return ["", "Spark", *("".join(rng.choices(alphabet, k=rng.randrange(70))) for _ in range(300))]


def _integers(bits: int):
    def make(rng: random.Random) -> list[int]:
        high = (1 << (bits - 1)) - 1
        return [0, 1, -1, high, -high - 1, *(rng.randint(-high - 1, high) for _ in range(300))]

    return make


def _doubles(rng: random.Random) -> list[float]:
    special = [0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308]
    payload_nan = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
    drawn = [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(300)]
    return [*special, payload_nan, *drawn]


def _floats(rng: random.Random) -> list[float]:
    drawn = [struct.unpack("<f", rng.randbytes(4))[0] for _ in range(300)]
    return [0.0, -0.0, math.nan, math.inf, -math.inf, 0.5, *drawn]


CASES = {
    STRING: (spark_types.StringType(), _texts),
    BYTES: (spark_types.BinaryType(), lambda rng: [rng.randbytes(n % 70) for n in range(300)]),
    BOOLEAN: (spark_types.BooleanType(), lambda rng: [True, False]),
    BYTE: (spark_types.ByteType(), _integers(8)),
    SHORT: (spark_types.ShortType(), _integers(16)),
    INT: (spark_types.IntegerType(), _integers(32)),
    LONG: (spark_types.LongType(), _integers(64)),
    FLOAT: (spark_types.FloatType(), _floats),
    DOUBLE: (spark_types.DoubleType(), _doubles),
}


@pytest.mark.parametrize("declared", CASES, ids=lambda declared: declared.kind.value)
def test_spark_and_python_agree_on_hash_and_key_group(
    spark: SparkSession, declared: TypeDescription
) -> None:
    column_type, make = CASES[declared]
    serializer = key_serializer(declared)
    values = make(random.Random(11))
    schema = spark_types.StructType([spark_types.StructField("k", column_type)])
    expression = serializer.spark_expression("k")
    assert expression is not None
    groups = [f"pmod({expression}, {n})" for n in MAX_PARALLELISMS]
    rows = (
        spark.createDataFrame([(value,) for value in values], schema)
        .coalesce(1)
        .selectExpr(expression, *groups)
        .collect()
    )
    expected = [tuple(row) for row in rows]
    actual = []
    for value in values:
        key_hash = serializer.hash64(serializer.coerce(value))
        signed = key_hash - (1 << 64) if key_hash >= 1 << 63 else key_hash
        actual.append((signed, *(key_group_of_hash(key_hash, n) for n in MAX_PARALLELISMS)))
    assert expected == actual


def test_the_golden_hashes_come_from_spark(spark: SparkSession) -> None:
    from .test_key_serializers import GOLDEN_HASHES

    literals = ["'Spark'", "''", "42L", "CAST(42 AS BIGINT)", "1.5D", "true"]
    row = spark.sql(f"SELECT {', '.join(f'xxhash64({text})' for text in literals)}").first()
    assert [expected for _, _, expected in GOLDEN_HASHES] == list(row)
