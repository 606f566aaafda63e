"""``archive_classes.py TARGET [--spelled-out]``: one file of the Java classes that a job loads.

A JVM that starts with ``-XX:SharedArchiveFile=TARGET`` maps these classes instead of reading them
from jars, verifying and linking them: Spark starts a third faster, and with it the recovery of a
driver or executor. The JVM itself checks that the archive fits its version and class path, and
runs without it where it does not. Source: JEP 350, Dynamic CDS Archives.

Spark names its jars as ``jars/*``, which comes in the order of the directory: the same on one file
system, another on each node of a cluster. With ``--spelled-out`` the class path begins with every
jar by name, in order; a JVM that is to use the archive must begin its class path like that
(``entrypoint.sh`` does for executors, `headrace.engine.session` for drivers).

Classes are those that were loaded at the end of one JVM that was driver, executor, master and
worker, one after the other. Needs PySpark alone, not Headrace; takes half a minute.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

NEVER_LOADED_HERE = (
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesClusterManager",
)
EPOCHS = 3


def main(target: Path, spelled_out: bool) -> None:
    """Write the archive; it appears complete or not at all."""
    fresh = target.with_name(f"{target.name}.{os.getpid()}")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["JAVA_TOOL_OPTIONS"] = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:cds*=off"
    try:
        for master in ("local-cluster[1,1,512]", "local[2]"):
            run_stream(master, class_path() if spelled_out else "")
        end_jvm()
        fresh.replace(target)
    finally:
        fresh.unlink(missing_ok=True)


def class_path() -> str:
    """Return Spark's jars by name, in order."""
    return ":".join(sorted(str(jar) for jar in Path(os.environ["SPARK_HOME"]).glob("jars/*.jar")))


def run_stream(master: str, extra_class_path: str) -> None:
    """Run what a job is made of: a source, two stages of Python around an exchange, a sink."""
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraClassPath", extra_class_path)
        .config("spark.executor.memory", "512m")
        # An executor beside this JVM would write the archive too.
        .config("spark.executorEnv.JAVA_TOOL_OPTIONS", "-Xlog:disable")
        .getOrCreate()
    )
    for name in NEVER_LOADED_HERE:
        spark._jvm.java.lang.Class.forName(name)  # noqa: SLF001 - PySpark's only door to its JVM
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1000).load()
    pumped = source.mapInArrow(unchanged, source.schema)
    exchanged = pumped.repartition(2, "value").mapInArrow(unchanged, source.schema)
    with tempfile.TemporaryDirectory() as directory:
        query = (
            exchanged.writeStream.foreachBatch(
                lambda frame, _epoch: frame.write.format("noop").mode("overwrite").save()
            )
            .option("checkpointLocation", directory)
            .start()
        )
        while query.isActive and (query.lastProgress or {"batchId": -1})["batchId"] < EPOCHS:
            time.sleep(0.1)  # noqa: TID251 - Spark says so nowhere else
        failed = query.exception()
        query.stop()
        spark.stop()
    if failed is not None:
        raise failed


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass batches through Python."""
    return batches


def end_jvm() -> None:
    """End the JVM and wait: it writes the archive on its way out."""
    gateway = SparkContext._gateway  # noqa: SLF001 - its process is known nowhere else
    gateway.shutdown()
    gateway.proc.stdin.close()
    if gateway.proc.wait(timeout=300):
        raise SystemExit(f"the JVM ended with {gateway.proc.returncode}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), spelled_out="--spelled-out" in sys.argv[2:])
