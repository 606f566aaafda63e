"""The Spark session of a job: its options and its life.

One place knows which Spark options Headrace needs and why. Options that would break a guarantee
cannot be overridden by the user's ``sparkConf``.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.errors import InvalidConfigError
from headrace.slot.startup import ENV_TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

log = logging.getLogger(__name__)

ENV_CLASSES: Final = "HEADRACE_CLASSES"
"""Java options that name the image's archive of Spark's classes; set by the runtime image."""

FIXED: Final[Mapping[str, str]] = {
    # plan stability: an epoch's plan is made by Headrace, not re-planned while it runs
    "spark.sql.adaptive.enabled": "false",
    # the exchange zips anchor and rows by partition; otherwise a slot would have two tasks
    "spark.sql.unionOutputPartitioning": "true",
    # nothing is retried inside an epoch: a failure aborts it and fails over to the checkpoint
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    # slot i stays on the executor that caches anchor partition i
    "spark.shuffle.reduceLocality.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}
"""Options that a guarantee depends on."""

DEFAULTS: Final[Mapping[str, str]] = {
    "spark.locality.wait": "3s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
    # a batch of exchange rows is a batch of chunks; bounded in bytes so that a task's memory is
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
    # over TCP, Nagle's algorithm and delayed acknowledgements cost every task 40 ms
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # bounded memory of the session over days
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.cleaner.periodicGC.interval": "5min",
    # what the async phase may still want to read; far above the epochs that one checkpoint spans
    "spark.sql.streaming.minBatchesToRetain": "1000",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Spark's log of an epoch is local scratch; over FileContext it costs twenty forks of chmod and
    # readlink an epoch (80 ms), this way four
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming."
    "checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.log.level": "WARN",
}
"""Options that the user may override."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What a session is made from.

    Attributes:
        app_name: the job's name.
        master: Spark master URL.
        conf: the user's ``sparkConf``, wins over `DEFAULTS`.
        jars: jars of connectors.
        token: the job's token, handed to executors through their environment.
        own: options that Headrace sets for this deployment (driver address, executors).
        master_is_default: nobody asked for this master, another one serves as well.
    """

    app_name: str
    master: str
    token: str
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[Path] = ()
    own: Mapping[str, str] = field(default_factory=dict)
    master_is_default: bool = False


def check_user_conf(conf: Mapping[str, str]) -> None:
    """Refuse options that a guarantee depends on.

    Raises:
        InvalidConfigError: names the option and the value that it must have.
    """
    for key, value in FIXED.items():
        if key in conf and conf[key] != value:
            msg = (
                "this Spark option is fixed by exactly-once execution, remove it from sparkConf; "
                f"option={key} required={value} got={conf[key]}"
            )
            raise InvalidConfigError(msg)


def session_options(settings: SessionSettings) -> dict[str, str]:
    """Return all options of a session that is started for the job."""
    merged = {**DEFAULTS, **_class_path(), **settings.conf, **settings.own, **FIXED}
    if settings.jars:
        merged["spark.jars"] = ",".join(str(jar) for jar in settings.jars)
    if not settings.master.startswith("k8s://"):
        merged.setdefault("spark.driver.host", "127.0.0.1")
        merged.setdefault("spark.driver.bindAddress", "127.0.0.1")
        merged[f"spark.executorEnv.{ENV_TOKEN}"] = settings.token
        merged.setdefault("spark.executorEnv.PYTHONPATH", python_path())
    return merged


def _class_path() -> dict[str, str]:
    """Spell Spark's jars out where the image has an archive of their classes.

    The archive fits a class path that begins as it did when the archive was made; Spark's own
    ``jars/*`` has another order on every node. A user's class path wins: the JVM then does without.
    """
    if ENV_CLASSES not in os.environ:
        return {}
    jars = sorted(str(jar) for jar in Path(os.environ["SPARK_HOME"], "jars").glob("*.jar"))
    return {"spark.driver.extraClassPath": ":".join(jars)}


def python_path() -> str:
    """Return where this process finds modules; workers beside it must find the same."""
    return os.pathsep.join(path for path in sys.path if path)


def prepare_environment(settings: SessionSettings) -> None:
    """Set what Spark takes from this process's own environment."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ[ENV_TOKEN] = settings.token  # local executors inherit it


def start_session(settings: SessionSettings) -> SparkSession:
    """Start Spark; there must be no session in this process yet.

    Raises:
        InvalidConfigError: a fixed option is overridden.
    """
    check_user_conf(settings.conf)
    prepare_environment(settings)
    builder = SparkSession.builder.appName(settings.app_name).master(settings.master)
    options = session_options(settings)
    for key, value in options.items():
        builder = builder.config(key, value)
    started = time.perf_counter()
    log.info("Spark starts master=%s", settings.master)
    session = builder.getOrCreate()  # returns once the executors have registered
    log.info("Spark has started seconds=%.1f", time.perf_counter() - started)
    session.sparkContext.setLogLevel(options["spark.log.level"])
    quieten(session)
    return session


def is_alive(session: SparkSession) -> bool:
    """Return whether the session's JVM answers and its context runs."""
    return is_running(session.sparkContext)


def running_context() -> SparkContext | None:
    """Return this process's Spark context, None when it has none."""
    return SparkContext._active_spark_context  # noqa: SLF001 - PySpark has no other way to ask


def is_running(context: SparkContext) -> bool:
    """Return whether the context's JVM answers and the context was not stopped."""
    java = context._jsc  # noqa: SLF001 - PySpark has no other way to ask
    try:
        return java is not None and not java.sc().isStopped()
    except (Py4JError, OSError):
        return False


def stop_session() -> None:
    """Stop this process's Spark, if it runs: executors are given back."""
    context = running_context()
    if context is not None and is_running(context):
        context.stop()


def quieten(session: SparkSession) -> None:
    """Keep what Headrace reports itself, with the cause, out of the log as stack traces.

    A query is ended by an exception in its callback (`headrace.driver.stream_query`), on purpose.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    jvm = session.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM's logging
    if jvm is None:
        return
    log4j = jvm.org.apache.logging.log4j
    for name in (
        "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution",
        "py4j.ClientServerConnection",
    ):
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
