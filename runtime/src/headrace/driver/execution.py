"""From a planned job and its configuration to a finished run: what ``env.execute`` calls."""

from __future__ import annotations

import logging
import pickle
import random
import shutil
import signal
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.api.driver import JobState, JobStatus
from headrace.checkpoint.protocol.paths import job_root
from headrace.checkpoint.settings import (
    CheckpointingMode,
    CheckpointSettings,
    ExternalizedRetention,
)
from headrace.cli.cache import cache_dir
from headrace.cli.jars import resolve_jars
from headrace.clock import SystemClock
from headrace.common.job_execution_result import JobExecutionResult
from headrace.config.job_configuration import build_configuration
from headrace.config.options import checkpointing, engine, memory, state
from headrace.connectors.kafka.spec import KafkaSourceSpec
from headrace.driver.job_master import JobMaster
from headrace.driver.restart import restart_strategy
from headrace.driver.settings import JobSettings
from headrace.driver.status import StatusBoard
from headrace.engine.session import SessionSettings, start_session
from headrace.errors import InvalidConfigError
from headrace.slot.local_sinks import PRINT_CHANNEL
from headrace.slot.settings import SlotSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from headrace.config.job_configuration import JobConfiguration
    from headrace.driver.deployment import Deployment
    from headrace.graph.job_graph import JobGraph
    from headrace.slot.messages import Output

log = logging.getLogger(__name__)

SPARK_PREFIX = "spark."
MANAGED_MEMORY_DEFAULT_BYTES = 256 << 20


def split_spark_options(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return (our options, Spark's options) of one configuration."""
    spark = {k: v for k, v in settings.items() if k.startswith(SPARK_PREFIX)}
    ours = {k: v for k, v in settings.items() if not k.startswith(SPARK_PREFIX)}
    return ours, spark


def session_for(
    name: str, parallelism: int, settings: Mapping[str, str], deployment: Deployment, *, kafka: bool
) -> SparkSession:
    """Return the job's Spark session, starting it when there is none."""
    _, spark = split_spark_options({**settings, **deployment.config})
    conf = {**spark, **deployment.spark_conf}
    master = deployment.master or conf.pop("spark.master", f"local[{max(2, parallelism)}]")
    jars = resolve_jars("spark-kafka", cache_dir()) if kafka else []
    return start_session(
        SessionSettings(
            app_name=name,
            master=master,
            token=deployment.token,
            conf=conf,
            jars=jars,
            own=deployment.own_spark_conf,
        )
    )


def execute_job(
    graph: JobGraph,
    settings: Mapping[str, str],
    deployment: Deployment,
    on_collect: Callable[[str, object], None] | None = None,
) -> JobExecutionResult:
    """Run a job to its end; blocks.

    Args:
        graph: the planned job.
        settings: the program's options by Flink's keys, and Spark's (``spark.*``).
        deployment: where this driver runs; its options win.
        on_collect: takes (channel, value) of ``execute_and_collect`` sinks.

    Raises:
        HeadraceError: the job has failed for good.
    """
    ours, _ = split_spark_options({**settings, **deployment.config})
    configuration = build_configuration(ours)
    kafka = any(isinstance(s.function, KafkaSourceSpec) for s in graph.sources())
    _probe_endpoints(graph)
    clock = SystemClock()
    job = build_settings(graph, configuration, deployment)
    status = StatusBoard(
        JobStatus(
            job_id=job.job_id,
            name=job.job_name,
            state=JobState.CREATED,
            parallelism=graph.parallelism,
            max_parallelism=graph.max_parallelism,
            start_ms=clock.now_ms(),
        ),
        clock,
    )
    with ExitStack() as cleanup:
        cleanup.callback(shutil.rmtree, job.scratch_dir, ignore_errors=True)
        spark = session_for(graph.name, graph.parallelism, settings, deployment, kafka=kafka)
        master = JobMaster(job, graph, spark, status, clock, _output_taker(on_collect))
        cleanup.enter_context(_stopping_on_interrupt(master))
        result = master.run()
    return JobExecutionResult(job.job_id, result.runtime_ms)


def build_settings(
    graph: JobGraph, configuration: JobConfiguration, deployment: Deployment
) -> JobSettings:
    """Return a job's settings from its validated configuration.

    Raises:
        InvalidConfigError: a durable deployment without a checkpoint directory or interval.
    """
    get = configuration.get
    directory = get(checkpointing.DIRECTORY)
    interval_ms = get(checkpointing.INTERVAL)
    if deployment.durable and (directory is None or interval_ms is None):
        missing = (checkpointing.DIRECTORY if directory is None else checkpointing.INTERVAL).key
        msg = f"a job on a cluster needs checkpoints, set this option in spec.config; option={missing}"
        raise InvalidConfigError(msg)
    if directory is None:
        directory = f"file://{deployment.scratch_dir}/checkpoints"
        if interval_ms is not None:
            log.warning("no checkpoint directory is set: checkpoints end with this process")
    root = job_root(directory, deployment.job_id)
    storage_options = configuration.storage_options()
    slots = SlotSettings(
        job_id=deployment.job_id,
        job_name=graph.name,
        state_backend=get(state.BACKEND).value,
        state_options=configuration.state_backend_options(),
        managed_memory_bytes=get(memory.MANAGED_SIZE) or MANAGED_MEMORY_DEFAULT_BYTES,
        checkpoints_uri=root,
        storage_options=storage_options,
        transfer_threads=get(state.TRANSFER_THREADS),
        heartbeat_interval_s=get(engine.SLOT_HEARTBEAT_INTERVAL) / 1000,
        allow_non_restored_state=deployment.allow_non_restored_state,
    )
    return JobSettings(
        job_id=deployment.job_id,
        job_name=graph.name,
        token=deployment.token,
        checkpoint=_checkpoint_settings(configuration),
        restart=restart_strategy(configuration, random.SystemRandom()),  # noqa: TID251 - composition root
        slots=slots,
        checkpoints_uri=root,
        storage_options=storage_options,
        restore_path=deployment.restore_path or get(checkpointing.RECOVERY_PATH),
        allow_non_restored_state=(
            deployment.allow_non_restored_state or get(checkpointing.IGNORE_UNCLAIMED_STATE)
        ),
        scratch_dir=deployment.scratch_dir,
        local_dir=get(state.LOCAL_DIRECTORY),
        control_host=deployment.host,
        control_port=deployment.control_port,
        slot_request_timeout_s=get(engine.SLOT_REQUEST_TIMEOUT) / 1000,
        min_epoch_s=0.0,
        max_epoch_rows=get(engine.EPOCH_MAX_ROWS),
    )


def _checkpoint_settings(configuration: JobConfiguration) -> CheckpointSettings:
    get = configuration.get
    retention = get(checkpointing.RETENTION)
    return CheckpointSettings(
        interval_ms=get(checkpointing.INTERVAL),
        min_pause_ms=get(checkpointing.MIN_PAUSE),
        timeout_ms=get(checkpointing.TIMEOUT),
        tolerable_failures=get(checkpointing.TOLERABLE_FAILURES),
        retained=get(checkpointing.NUM_RETAINED),
        mode=CheckpointingMode(get(checkpointing.MODE).value),
        externalized_retention=(
            ExternalizedRetention.RETAIN_ON_CANCELLATION
            if retention is checkpointing.CheckpointRetention.RETAIN_ON_CANCELLATION
            else ExternalizedRetention.DELETE_ON_CANCELLATION
        ),
    )


def _probe_endpoints(graph: JobGraph) -> None:
    """Find out now, with a clear cause, that a source or sink cannot be reached."""
    for operator in graph.operators():
        probe = getattr(operator.function, "probe", None)
        if probe is not None:
            probe()


def _output_taker(on_collect: Callable[[str, object], None] | None) -> Callable[[Output], None]:
    def take(output: Output) -> None:
        if output.channel == PRINT_CHANNEL:
            for item in output.items:
                sys.stdout.write(item.decode() + "\n")
            sys.stdout.flush()
        elif on_collect is not None:
            for item in output.items:
                on_collect(output.channel, pickle.loads(item))  # noqa: S301 - from our own slots

    return take


class _stopping_on_interrupt:  # noqa: N801 - a context manager
    """Turns SIGINT and SIGTERM into a stop between two epochs, on the main thread only."""

    def __init__(self, master: JobMaster) -> None:
        self._master = master
        self._previous: dict[int, object] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(
                number, lambda *_: self._master.stop(cancel=False)
            )

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]


__all__ = ["build_settings", "execute_job", "session_for", "split_spark_options"]
