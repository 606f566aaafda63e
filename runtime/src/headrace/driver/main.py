"""``headrace driver``: the process of a driver pod (application mode).

Reads `DriverConfig`, serves REST from the first second, runs the user's program, and leaves a
`TerminationMessage` that says how it ended. Exit codes: 0 finished or stopped, 1 failed for good
(the message says why), anything else is a crash, which the operator answers with a new driver.
"""

from __future__ import annotations

import json
import logging
import os
import runpy
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.api.driver import (
    ENV_COMPLETED_CHECKPOINT,
    ENV_POD_IP,
    ENV_POD_NAME,
    ENV_TOKEN,
    REST_PORT,
    SLOT_CONTROL_PORT,
    SPARK_BLOCK_MANAGER_PORT,
    SPARK_DRIVER_PORT,
    TERMINATION_LOG,
    DriverConfig,
    JobError,
    JobState,
    JobStatus,
    TerminationMessage,
)
from headrace.api.names import CONTAINER_EXECUTOR
from headrace.clock import SystemClock
from headrace.datastream.execution import ProgramContext, program_context
from headrace.driver.deployment import Deployment
from headrace.driver.execution import JobExecutor
from headrace.driver.job_session import preset_for_program
from headrace.driver.rest import RestServer, build_app
from headrace.driver.status import StatusBoard
from headrace.engine.session import stop_session
from headrace.errors import (
    DriverLostError,
    HeadraceError,
    InvalidConfigError,
    InvalidProgramError,
    SourceUnavailableError,
    StorageUnavailableError,
    UserCodeError,
)
from headrace.ids import parse_job_id
from headrace.slot.startup import ENV_LOG_LEVEL
from headrace.slot.user_code import user_traceback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

log = logging.getLogger(__name__)

_MAY_PASS: Final = (SourceUnavailableError, StorageUnavailableError)
"""A broker or a storage that is away while a driver starts is no reason to end the job. Once the
job runs, its restart strategy decides."""

SCRATCH_DIR: Final = Path("/tmp/headrace-scratch")  # noqa: S108 - a volume of the driver's own pod
TERMINATION_BYTES_MAX: Final = 4096
"""Kubernetes keeps no more of a termination message."""

MANAGED_FRACTION: Final = 0.4
"""Part of the memory beyond the executor's heap that belongs to state; Flink's managed fraction."""

EXIT_CRASHED: Final = 70
"""``EX_SOFTWARE``: a new driver may go on."""

LAST_SAVEPOINT_READ_S: Final = 30.0
"""How long a job that was stopped with a savepoint waits for whoever asks where it is. The location
is also in the termination message and in the log."""

SPARK_STOP_S: Final = 10.0
"""Within the grace period that Kubernetes gives a pod, with room for the rest."""

TRACEBACK_CHARS_MAX: Final = 1800
MESSAGE_CHARS_MAX: Final = 1200


def run_driver(config_path: Path, environment: Mapping[str, str]) -> int:
    """Run a driver to its end and return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("botocore").setLevel(logging.WARNING)
    config = DriverConfig.model_validate_json(config_path.read_text())
    clock = SystemClock()
    board = StatusBoard(
        JobStatus(
            job_id=config.job_id,
            name=config.job_name,
            state=JobState.INITIALIZING,
            parallelism=config.parallelism,
            max_parallelism=config.max_parallelism,
            start_ms=clock.now_ms(),
        ),
        clock,
    )
    deployment = build_deployment(config, environment)
    executor = JobExecutor(deployment, board)
    app = build_app(board, deployment.token, lambda: executor.master)
    rest = RestServer(app, deployment.host, deployment.rest_port or 0)
    rest.start()
    context = ProgramContext(
        settings=config.config,
        parallelism=config.parallelism,
        max_parallelism=config.max_parallelism,
        execute_job=executor.execute,
        spark_session=executor.session,
    )
    try:
        presets = preset_for_program(deployment, config.job_name, config.parallelism)
        with presets, program_context(context):
            run_program(config, has_run=lambda: executor.executed)
        if not executor.executed:
            msg = (
                "the program ended without running a job, call env.execute() at its end; "
                f"program={config.program}"
            )
            raise InvalidProgramError(msg)
    except DriverLostError:
        log.exception("the driver ends, the operator starts another one")
        return EXIT_CRASHED
    except HeadraceError as error:
        if executor.master is None and isinstance(error, _MAY_PASS):
            log.exception("the job cannot start now, the operator starts another driver")
            board.fail(JobState.RESTARTING, error)
            return EXIT_CRASHED
        log.error("the job has failed kind=%s", error.kind, exc_info=error)  # noqa: TRY400
        board.fail(JobState.FAILED, error)
    finally:
        status = board.get()
        write_termination(
            status, Path(environment.get("HEADRACE_TERMINATION_LOG", TERMINATION_LOG))
        )
        if executor.master is not None:
            executor.master.savepoints.await_reader(LAST_SAVEPOINT_READ_S)
            release_executors()
        rest.stop()
    return 1 if status.state is JobState.FAILED else 0


def release_executors() -> None:
    """Stop Spark, so that executors go with the job; gives up when Kubernetes does not answer."""
    stopping = threading.Thread(target=stop_session, name="stop-spark", daemon=True)
    stopping.start()
    stopping.join(SPARK_STOP_S)
    if stopping.is_alive():
        log.warning("Spark did not stop in time, executors end by themselves s=%s", SPARK_STOP_S)


def run_program(config: DriverConfig, has_run: Callable[[], bool]) -> None:
    """Run the user's program as ``__main__``.

    Args:
        config: names the program and its arguments.
        has_run: whether it has come to its job.

    Raises:
        InvalidProgramError: it cannot be read, does not compile or ends by itself with a code.
        UserCodeError: it raised, before its job or after it.
        HeadraceError: what the job failed with.
    """
    path = Path(config.program)
    if not path.is_file():
        msg = f"the program cannot be read, correct spec.program; program={path}"
        raise InvalidProgramError(msg)
    sys.argv = [str(path), *config.args]
    sys.path.insert(0, str(path.parent))
    try:
        runpy.run_path(str(path), run_name="__main__")
    except HeadraceError:
        raise
    except SystemExit as error:
        if error.code not in {None, 0}:
            msg = f"the program called sys.exit; code={error.code} program={path}"
            raise InvalidProgramError(msg) from error
    except SyntaxError as error:
        msg = f"the program does not compile: {error}; program={path}"
        raise InvalidProgramError(msg) from error
    except Exception as error:
        text = user_traceback(error)
        when = "after its job had ended" if has_run() else "before it ran a job"
        msg = f"the program failed {when}: {type(error).__name__}: {error}"
        raise UserCodeError(msg, traceback_text=text) from error


def build_deployment(config: DriverConfig, environment: Mapping[str, str]) -> Deployment:
    """Return the deployment of a driver pod.

    Raises:
        InvalidConfigError: the pod's environment lacks what the operator must set.
    """
    token = _required(environment, ENV_TOKEN)
    host = _required(environment, ENV_POD_IP)
    deployment = Deployment(
        job_id=parse_job_id(config.job_id),
        token=token,
        master=None,
        host=host,
        control_port=0,
        rest_port=int(config.config.get("rest.port", REST_PORT)),
        scratch_dir=SCRATCH_DIR / config.job_id,
        durable=True,
        spark_conf=config.spark_conf,
        restore_path=config.restore_path,
        allow_non_restored_state=config.allow_non_restored_state,
        completed_checkpoint=_completed_checkpoint(environment),
    )
    if config.executor is None:
        return deployment
    pod_name = _required(environment, ENV_POD_NAME)
    return replace(
        deployment,
        control_port=SLOT_CONTROL_PORT,
        slots_per_executor=config.executor.slots,
        managed_bytes_per_slot=int(
            config.executor.memory_overhead_mib * MANAGED_FRACTION * (1 << 20)
        )
        // config.executor.slots,
        master="k8s://https://kubernetes.default.svc:443",
        own_spark_conf=kubernetes_conf(config, host, pod_name),
    )


def kubernetes_conf(config: DriverConfig, host: str, pod_name: str) -> dict[str, str]:
    """Return what Spark's Kubernetes backend needs to start executors for this driver."""
    executor = config.executor
    if executor is None:
        return {}
    conf = {
        f"spark.executorEnv.{ENV_LOG_LEVEL}": "INFO",
        "spark.driver.host": host,
        "spark.driver.bindAddress": host,  # executors are given the bind address
        "spark.driver.port": str(SPARK_DRIVER_PORT),
        "spark.driver.blockManager.port": str(SPARK_BLOCK_MANAGER_PORT),
        "spark.kubernetes.namespace": config.namespace,
        "spark.kubernetes.driver.pod.name": pod_name,
        "spark.kubernetes.executor.podNamePrefix": config.job_name,
        "spark.kubernetes.container.image": executor.image,
        "spark.kubernetes.container.image.pullPolicy": executor.image_pull_policy,
        "spark.kubernetes.authenticate.driver.serviceAccountName": executor.service_account,
        "spark.kubernetes.authenticate.executor.serviceAccountName": executor.service_account,
        "spark.kubernetes.executor.podTemplateFile": "/etc/headrace/executor.yaml",
        "spark.kubernetes.executor.podTemplateContainerName": CONTAINER_EXECUTOR,
        "spark.kubernetes.executor.deleteOnTermination": "true",
        # files beside the image's come from the pod template, in executors as in the driver
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.request.cores": executor.cpu_request,
        "spark.kubernetes.allocation.batch.delay": "1s",
        "spark.kubernetes.allocation.batch.size": "20",
        "spark.executor.instances": str(executor.instances),
        "spark.executor.cores": str(executor.slots),
        "spark.executor.memory": f"{executor.memory_mib}m",
        "spark.executor.memoryOverhead": f"{executor.memory_overhead_mib}m",
        # a lost executor is noticed within seconds and replaced
        "spark.executor.heartbeatInterval": "3s",
        "spark.network.timeout": "30s",
        "spark.network.timeoutInterval": "10s",  # its default is longer than the above: refused
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
        "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": "false",
    }
    for name, value in executor.labels.items():
        conf[f"spark.kubernetes.executor.label.{name}"] = value
    return conf


def write_termination(status: JobStatus, path: Path) -> None:
    """Leave how the job ended where Kubernetes finds it."""
    said = {JobState.FAILED, JobState.RESTARTING}
    error = status.last_error if status.state in said else None
    if error is not None:
        error = JobError(
            kind=error.kind,
            message=error.message[:MESSAGE_CHARS_MAX],
            traceback=error.traceback[-TRACEBACK_CHARS_MAX:],
            restartable=error.restartable,
            at_ms=error.at_ms,
        )
    message = TerminationMessage(
        state=status.state, restarts=status.restarts, error=error, savepoint=status.last_savepoint
    )
    text = json.dumps(message.model_dump(mode="json", by_alias=True))
    try:
        path.write_text(text[:TERMINATION_BYTES_MAX])
    except OSError:
        log.exception("the termination message cannot be written path=%s", path)


def _completed_checkpoint(environment: Mapping[str, str]) -> int | None:
    value = environment.get(ENV_COMPLETED_CHECKPOINT)
    return None if value is None else int(value)


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        msg = f"the driver's environment is incomplete, the operator must set it; variable={name}"
        raise InvalidConfigError(msg)
    return value


def main(config: Path) -> None:
    """Run a driver and end the process with its exit code."""
    try:
        code = run_driver(config, os.environ)
    except Exception:  # noqa: BLE001 - last resort; the operator shows the log's end
        traceback.print_exc()
        code = EXIT_CRASHED
    # Threads of Spark's gateway and of gRPC must not keep a finished driver alive.
    sys.stdout.flush()
    os._exit(code)
