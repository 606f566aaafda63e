"""Which Spark a deployment's jobs run on: what is known of it before a program runs, and after."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli.cache import cache_dir
from headrace.cli.jars import resolve_jars
from headrace.engine.program_session import job_session, preset_session
from headrace.engine.session import SessionSettings
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from headrace.driver.deployment import Deployment

ENV_JARS: Final = "HEADRACE_JARS"
"""Directory of the connector jars inside the runtime image."""

_MASTER: Final = "spark.master"


def open_session(
    deployment: Deployment,
    program_conf: Mapping[str, str],
    name: str,
    parallelism: int,
    *,
    kafka: bool,
) -> SparkSession:
    """Return the session of a job, starting Spark unless it runs.

    Args:
        deployment: where the driver runs; its options win over the program's.
        program_conf: ``spark.*`` options of the program.
        name: the job's name.
        parallelism: slots of the job, which a local Spark has as many cores as.
        kafka: whether the job reads with the Kafka connector.

    Raises:
        InvalidConfigError: an option is set to what the job cannot run with.
        DriverLostError: the JVM of the running session is gone.
    """
    jars = connector_jars() if kafka else []
    return job_session(session_settings(deployment, program_conf, name, parallelism, jars))


def preset_for_program(
    deployment: Deployment, name: str, parallelism: int
) -> AbstractContextManager[None]:
    """Have a session that a program starts by itself be the job's; see `preset_session`."""
    jars = _packed_jars() or []  # fetching them is for jobs that need them
    settings = session_settings(deployment, {}, name, parallelism, jars)
    return preset_session(settings, deployment.scratch_dir)


def session_settings(
    deployment: Deployment,
    program_conf: Mapping[str, str],
    name: str,
    parallelism: int,
    jars: Sequence[Path],
) -> SessionSettings:
    """Return what the session of a job is made from; pure.

    Raises:
        InvalidConfigError: program or manifest want another master than the deployment's.
    """
    conf = {**program_conf, **deployment.spark_conf}
    asked = conf.pop(_MASTER, None)
    if deployment.master is not None and asked not in {None, deployment.master}:
        msg = (
            "the executors of a StreamJob are its own, remove this option from sparkConf or the "
            f"program; option={_MASTER} required={deployment.master} got={asked}"
        )
        raise InvalidConfigError(msg)
    return SessionSettings(
        app_name=name,
        master=deployment.master or asked or f"local[{max(2, parallelism)}]",
        token=deployment.token,
        conf=conf,
        jars=jars,
        own=deployment.own_spark_conf,
        master_is_default=deployment.master is None and asked is None,
    )


def connector_jars() -> list[Path]:
    """Return the jars of Spark's Kafka connector: the image's own, else fetched once."""
    packed = _packed_jars()
    return packed if packed is not None else resolve_jars("spark-kafka", cache_dir())


def _packed_jars() -> list[Path] | None:
    directory = os.environ.get(ENV_JARS)
    return sorted(Path(directory).glob("*.jar")) if directory else None
