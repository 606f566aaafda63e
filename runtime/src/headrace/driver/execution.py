"""From a planned job and its configuration to a finished run: what ``env.execute`` calls."""

from __future__ import annotations

import atexit
import logging
import pickle
import random  # noqa: TID251 - the composition root makes the source that others are handed
import shutil
import signal
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.api.driver import JobState, JobStatus
from headrace.checkpoint.protocol.paths import job_root
from headrace.checkpoint.protocol.savepoints import SavepointFormat
from headrace.checkpoint.settings import (
    CheckpointingMode,
    CheckpointSettings,
    ExternalizedRetention,
)
from headrace.clock import SystemClock
from headrace.common.job_execution_result import JobExecutionResult
from headrace.config.memory_model import derive_memory
from headrace.config.options import checkpointing, engine, job, memory, state
from headrace.connectors.kafka.spec import KafkaSourceSpec
from headrace.datastream.stream_execution_environment import DEFAULT_JOB_NAME
from headrace.driver.deployment import local_deployment
from headrace.driver.job_master import JobMaster, open_checkpoint_store
from headrace.driver.job_session import open_session
from headrace.driver.restart import restart_strategy
from headrace.driver.settings import JobSettings
from headrace.driver.status import StatusBoard
from headrace.engine.session import is_alive, running_context, stop_session
from headrace.errors import (
    DriverLostError,
    HeadraceError,
    InternalError,
    InvalidConfigError,
    InvalidProgramError,
)
from headrace.ids import new_job_id
from headrace.slot.local_sinks import PRINT_CHANNEL
from headrace.slot.settings import SlotSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from headrace.config.job_configuration import JobConfiguration
    from headrace.datastream.outputs import Outputs
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.driver.deployment import Deployment
    from headrace.graph.job_graph import JobGraph
    from headrace.ids import JobId
    from headrace.slot.messages import Output

log = logging.getLogger(__name__)


class JobExecutor:
    """Runs the jobs of one deployment: the `ExecuteJob` and `StartSession` of a program."""

    def __init__(self, deployment: Deployment, board: StatusBoard | None = None) -> None:
        """Create an executor.

        Args:
            deployment: where this driver runs.
            board: the status that is shown to the outside, None for one of its own.
        """
        self._deployment = deployment
        self.board = board
        self._clock = SystemClock()
        self.master: JobMaster | None = None
        """The running job, None before it starts."""
        self.executed = False
        """Whether a program has run a job."""

    def begin_job(self, job_id: JobId) -> None:
        """Give the next execution an id of its own."""
        scratch = self._deployment.scratch_dir.with_name(f"headrace-driver-{job_id}")
        self.board = None
        self._deployment = replace(self._deployment, job_id=job_id, scratch_dir=scratch)

    def session(self, env: StreamExecutionEnvironment) -> SparkSession:
        """Return the Spark session, starting it at the first call."""
        name = env.options_in_effect().get(job.NAME) or DEFAULT_JOB_NAME
        # A session that starts here brings the connector along; one that runs may do without it.
        starts = running_context() is None
        return self._session(env, name, env.get_parallelism(), kafka=starts)

    def execute(
        self, graph: JobGraph, configuration: JobConfiguration, env: StreamExecutionEnvironment
    ) -> JobExecutionResult:
        """Run a job to its end; blocks.

        Raises:
            InvalidProgramError: a StreamJob's program has run its job already.
            HeadraceError: the job has failed for good.
        """
        if self.executed and self._deployment.durable:
            msg = (
                "a StreamJob runs one job, and its program calls execute again: make a StreamJob "
                f"of each; second_job={graph.name!r}"
            )
            raise InvalidProgramError(msg)
        _probe_endpoints(graph)
        settings = build_settings(graph, configuration, self._deployment)
        # Before Spark starts: a mistake shows within seconds.
        open_checkpoint_store(settings, self._clock).probe_writable()
        board = self.board or StatusBoard(self._initial_status(graph), self._clock)
        self.board = board
        board.update(
            name=graph.name,
            state=JobState.CREATED,
            parallelism=graph.parallelism,
            max_parallelism=graph.max_parallelism,
            warnings=list(env.plan_warnings),
        )
        kafka = any(isinstance(s.function, KafkaSourceSpec) for s in graph.sources())
        outputs = env.outputs
        with ExitStack() as cleanup:
            cleanup.callback(shutil.rmtree, settings.scratch_dir, ignore_errors=True)
            spark = self._session(env, graph.name, graph.parallelism, kafka=kafka)
            self.executed = True
            self.master = JobMaster(
                settings,
                graph,
                spark,
                board,
                self._clock,
                lambda output: self._deliver(output, outputs),
            )
            cleanup.enter_context(stopping_on_signals(self.master))
            try:
                result = self.master.run()
            except HeadraceError:
                raise
            except Exception as error:
                if not is_alive(spark):
                    msg = "Spark's JVM is gone, the driver must be started again"
                    raise DriverLostError(msg) from error
                msg = f"the coordinator failed: {type(error).__name__}: {error}"
                raise InternalError(msg) from error
        return JobExecutionResult(settings.job_id, result.runtime_ms)

    def _session(
        self, env: StreamExecutionEnvironment, name: str, parallelism: int, *, kafka: bool
    ) -> SparkSession:
        return open_session(self._deployment, env.spark_options(), name, parallelism, kafka=kafka)

    def _deliver(self, output: Output, outputs: Outputs) -> None:
        """Take what local sinks sent: lines are printed, records go to the program."""
        if output.channel == PRINT_CHANNEL:
            sys.stdout.writelines(f"{item.decode()}\n" for item in output.items)
            sys.stdout.flush()
            return
        for item in output.items:
            outputs.collect(output.channel, pickle.loads(item))  # noqa: S301 - from our own slots
        if outputs.is_satisfied() and self.master is not None:
            self.master.stop(cancel=True)

    def _initial_status(self, graph: JobGraph) -> JobStatus:
        return JobStatus(
            job_id=self._deployment.job_id,
            name=graph.name,
            state=JobState.CREATED,
            start_ms=self._clock.now_ms(),
        )


_local: list[JobExecutor] = []


def _local_executor() -> JobExecutor:
    """Return this process's local executor; its token is the session's, so there is one."""
    if not _local:
        _local.append(JobExecutor(local_deployment()))
        atexit.register(stop_session)
    return _local[0]


def execute_locally(
    graph: JobGraph, configuration: JobConfiguration, env: StreamExecutionEnvironment, /
) -> JobExecutionResult:
    """Run a job on this machine (``python job.py``); every execution is a job of its own."""
    executor = _local_executor()
    executor.begin_job(new_job_id())
    return executor.execute(graph, configuration, env)


def local_session(env: StreamExecutionEnvironment) -> SparkSession:
    """Return the local Spark session."""
    return _local_executor().session(env)


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
        msg = f"a job on a cluster needs checkpoints, set it in spec.config; option={missing}"
        raise InvalidConfigError(msg)
    if directory is None:
        directory = f"file://{deployment.scratch_dir}/checkpoints"
        if interval_ms is not None:
            log.warning("no checkpoint directory is set: checkpoints end with this process")
    root = job_root(directory, deployment.job_id)
    storage_options = configuration.storage_options()
    allow_non_restored_state = deployment.allow_non_restored_state or get(
        checkpointing.IGNORE_UNCLAIMED_STATE
    )
    slots = SlotSettings(
        job_id=deployment.job_id,
        job_name=graph.name,
        state_backend=get(state.BACKEND).value,
        state_options=configuration.state_backend_options(),
        managed_memory_bytes=_managed_bytes_per_slot(configuration, deployment),
        checkpoints_uri=root,
        storage_options=storage_options,
        transfer_threads=get(state.TRANSFER_THREADS),
        heartbeat_interval_s=get(engine.SLOT_HEARTBEAT_INTERVAL) / 1000,
        incremental=get(checkpointing.INCREMENTAL),
        allow_non_restored_state=allow_non_restored_state,
    )
    return JobSettings(
        job_id=deployment.job_id,
        job_name=graph.name,
        token=deployment.token,
        checkpoint=_checkpoint_settings(configuration),
        restart=restart_strategy(configuration, random.SystemRandom()),
        slots=slots,
        checkpoints_uri=root,
        savepoints_uri=get(checkpointing.SAVEPOINT_DIRECTORY),
        savepoint_format=SavepointFormat(get(checkpointing.SAVEPOINT_FORMAT).value),
        storage_options=storage_options,
        restore_path=deployment.restore_path or get(checkpointing.RECOVERY_PATH),
        allow_non_restored_state=allow_non_restored_state,
        scratch_dir=deployment.scratch_dir,
        local_dir=get(state.LOCAL_DIRECTORY),
        control_host=deployment.host,
        control_port=deployment.control_port,
        slot_request_timeout_s=get(engine.SLOT_REQUEST_TIMEOUT) / 1000,
        slot_heartbeat_timeout_s=get(engine.SLOT_HEARTBEAT_TIMEOUT) / 1000,
        min_epoch_s=0.0,
        epoch_timeout_s=get(engine.EPOCH_TIMEOUT) / 1000,
        rescale_timeout_s=get(engine.RESCALE_TIMEOUT) / 1000,
        max_epoch_rows=get(engine.EPOCH_MAX_ROWS),
        epoch_target_s=get(engine.EPOCH_TARGET_DURATION) / 1000,
        completed_checkpoint=deployment.completed_checkpoint,
    )


def _managed_bytes_per_slot(configuration: JobConfiguration, deployment: Deployment) -> int:
    """Return a slot's equal share of its executor's managed memory (A5)."""
    model = derive_memory(configuration)
    slots = configuration.get(memory.SLOTS) or deployment.slots_per_executor
    if model is not None:
        return model.managed_bytes_per_slot(slots)
    managed = configuration.get(memory.MANAGED_SIZE)
    if managed is not None:
        return managed // slots
    return deployment.managed_bytes_per_slot


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


@contextmanager
def stopping_on_signals(master: JobMaster) -> Iterator[None]:
    """Turn SIGINT and SIGTERM into a stop between two epochs; does nothing off the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    previous = {n: signal.signal(n, lambda *_: master.stop(cancel=False)) for n in numbers}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
