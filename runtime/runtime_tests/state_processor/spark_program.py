"""Writes a savepoint from DataFrames and reads it back, on a real local Spark.

Arguments: path of the savepoint. Prints what was read as JSON.
"""

import json
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from headrace.common import Types
from headrace.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from headrace.datastream.time_domain import TimeDomain
from headrace.state_processor.spark import SavepointWriter, StateColumns, TimerColumns, read

ROWS = 1000
KEYS = 100
UID = "count"


def main(path):
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .getOrCreate()
    )
    words = spark.range(ROWS).select(
        F.concat(F.lit("word-"), F.col("id") % KEYS).alias("word"),
        F.floor(F.col("id") / KEYS).alias("position"),
    )
    frame = words.withColumns(
        {
            "n": F.when(F.col("position") == 0, F.col("position") + 40),
            "at": F.when(F.col("position") == 0, F.lit(2**62)),
            "map_value": F.when(F.col("position") > 3, F.struct("word", "position")),
        }
    )
    writer = SavepointWriter.new_savepoint(spark, 16, parallelism=3).with_operator(
        UID,
        frame,
        key="word",
        key_type=Types.STRING(),
        fill=[
            StateColumns(ValueStateDescriptor("count", Types.LONG()), "n"),
            StateColumns(ListStateDescriptor("positions", Types.LONG()), "position"),
            StateColumns(
                MapStateDescriptor(
                    "pairs", Types.LONG(), Types.TUPLE([Types.STRING(), Types.LONG()])
                ),
                "map_value",
                map_key="position",
            ),
            TimerColumns(TimeDomain.EVENT_TIME, "at"),
        ],
        order_by=["position"],
    )
    location = writer.write(path)

    def table(state):
        return read(spark, location, operator=UID, state=state)

    positions = table("positions")
    pairs = table("pairs").where("value.f0 = key and value.f1 = map_key")
    found = {
        "location": location,
        "partitions": positions.rdd.getNumPartitions(),
        "count": table("count").agg(F.count("*"), F.min("value"), F.max("value")).first(),
        "positions": positions.where("index = value").count(),
        "pairs": pairs.count(),
        "timers": table("_event_timers").agg(F.countDistinct("key")).first()[0],
        "types": table("pairs").schema["value"].dataType.simpleString(),
    }
    sys.stdout.write(json.dumps(found) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
