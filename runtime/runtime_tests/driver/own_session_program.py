"""Starts Spark by itself, as people do, and runs a job on it. Arguments: ``[master]``."""

import sys

from pyspark.sql import SparkSession

from headrace.datastream import StreamExecutionEnvironment

builder = SparkSession.builder.appName("my own")
if len(sys.argv) > 1:
    builder = builder.master(sys.argv[1])
spark = builder.getOrCreate()
print("master", spark.sparkContext.master)  # noqa: T201

env = StreamExecutionEnvironment.get_execution_environment()
frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
collected = env.from_dataframe(frame.select("value")).map(str).execute_and_collect("own", 5)
print("same", env.get_spark_session().sparkContext is spark.sparkContext)  # noqa: T201
print("adaptive", spark.conf.get("spark.sql.adaptive.enabled"))  # noqa: T201
print("collected", sorted(collected))  # noqa: T201
