"""A program's own Spark session is the job's session.

``SparkSession.builder.getOrCreate()`` in a program must give the session that the job runs on,
without a word to Headrace. Two halves, and nothing in PySpark is patched:

- *before* a program runs in a driver pod, `preset_session` puts master and options where PySpark's
  launcher looks for defaults: a properties file that ``PYSPARK_SUBMIT_ARGS`` names. Nothing starts;
  a program that never asks for Spark pays for nothing, and probes still come before Spark.
- *when the job starts*, `adopt_session` takes the session that runs, whoever started it. Options
  that can still be set are set. Everything else that the job needs and the session does not have is
  refused by name (`plan_adoption`): a job never runs on another Spark than its own in silence.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headrace.engine.session import (
    DEFAULTS,
    FIXED,
    check_user_conf,
    is_running,
    prepare_environment,
    python_path,
    quieten,
    running_context,
    session_options,
    start_session,
)
from headrace.errors import DriverLostError, InvalidProgramError
from headrace.slot.startup import ENV_TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyspark import SparkContext

    from headrace.engine.session import SessionSettings

log = logging.getLogger(__name__)

ENV_SUBMIT_ARGS: Final = "PYSPARK_SUBMIT_ARGS"
"""Arguments that PySpark gives to ``spark-submit`` when it starts a JVM."""

_SHELL: Final = "pyspark-shell"
_PRESETS_FILE: Final = "spark-defaults.conf"
_PLAIN: Final = frozenset(string.ascii_letters + string.digits + "._-/")
_KAFKA_SOURCE: Final = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_LOCAL: Final = re.compile(r"local(\[|$)")
_LOCAL_WITH_RETRIES: Final = re.compile(r"local\[[^,\]]+,\s*(?!1\s*\])")
_ADVICE: Final = "take the session from env.get_spark_session(), or leave these options out"


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What runs already.

    Attributes:
        master: its master URL.
        core: options of the context; they cannot be changed any more.
        sql: options of the session that were set by somebody.
        modifiable: options, of those that the job wants, which the session still takes.
    """

    master: str
    core: Mapping[str, str]
    sql: Mapping[str, str]
    modifiable: frozenset[str]


def plan_adoption(settings: SessionSettings, facts: SessionFacts) -> dict[str, str]:
    """Return the options to set so that a running session serves the job; pure.

    Raises:
        InvalidProgramError: it cannot; names every option with the value that the job needs.
    """
    conflicts = _master_conflicts(settings, facts.master)
    to_set: dict[str, str] = {}
    for key, value in {**DEFAULTS, **settings.conf, **settings.own, **FIXED}.items():
        have = facts.sql.get(key, facts.core.get(key))
        if have is not None and _means(have, value):
            continue
        is_default = key not in FIXED and key not in settings.conf and key not in settings.own
        # In one process there are no executors to lose and no task is tried again.
        needless = have is None and key in FIXED and _LOCAL.match(facts.master) is not None
        if key in facts.modifiable and not (key in FIXED and have is not None):
            if have is None or not is_default:
                to_set[key] = value
        elif not is_default and not needless:
            conflicts.append(f"option={key} required={value} got={have}")
    if conflicts:
        msg = f"the program's own Spark session cannot run this job, {_ADVICE}; "
        raise InvalidProgramError(msg + ", ".join(conflicts))
    return to_set


def _means(have: str, wanted: str) -> bool:
    """Return whether a value in effect is the wanted one, as Spark may have rewritten it."""
    if "file:" not in have:
        return have.lower() == wanted.lower()
    pairs = zip(have.split(","), wanted.split(","), strict=False)
    return have.count(",") == wanted.count(",") and all(h.endswith(w) for h, w in pairs)


def _master_conflicts(settings: SessionSettings, master: str) -> list[str]:
    if settings.master_is_default:
        if _LOCAL_WITH_RETRIES.match(master):
            return [f"option=spark.master required={settings.master} got={master}"]
        return []
    if master != settings.master:
        return [f"option=spark.master required={settings.master} got={master}"]
    return []


def job_session(settings: SessionSettings) -> SparkSession:
    """Return the job's session: the one that runs in this process, or a new one.

    Raises:
        InvalidConfigError: an option is set to what the job cannot run with.
        DriverLostError: the JVM of the running session is gone.
    """
    check_user_conf(settings.conf)
    if "SPARK_CONNECT_MODE_ENABLED" in os.environ or "SPARK_REMOTE" in os.environ:
        msg = f"a job cannot run over Spark Connect, {_ADVICE}; option=spark.remote"
        raise InvalidProgramError(msg)
    context = running_context()
    if context is None:
        return start_session(settings)
    return adopt_session(settings, context)


def adopt_session(settings: SessionSettings, context: SparkContext) -> SparkSession:
    """Return a running context's session, made fit for the job.

    Raises:
        InvalidProgramError: see `plan_adoption`; or it lacks a connector.
        DriverLostError: its JVM is gone.
    """
    if not is_running(context):
        msg = "Spark's JVM is gone, the driver must be started again"
        raise DriverLostError(msg)
    session = SparkSession.builder.getOrCreate()
    wanted = {**DEFAULTS, **settings.conf, **settings.own, **FIXED}
    facts = SessionFacts(
        master=context.master or "",
        core=dict(context.getConf().getAll()),
        sql=session.conf.getAll,
        modifiable=frozenset(key for key in wanted if session.conf.isModifiable(key)),
    )
    for key, value in plan_adoption(settings, facts).items():
        session.conf.set(key, value)
    if settings.jars and not _can_load(context, _KAFKA_SOURCE):
        msg = (
            "Spark runs already, without the Kafka connector that the job reads with: begin with "
            "env.get_spark_session(), or start Spark with the connector; "
            f"option=spark.jars required={','.join(str(jar) for jar in settings.jars)}"
        )
        raise InvalidProgramError(msg)
    prepare_environment(settings)
    context.pythonExec = os.environ["PYSPARK_PYTHON"]
    if not settings.master.startswith("k8s://"):  # pods have it in their template
        context.environment[ENV_TOKEN] = settings.token
        context.environment.setdefault("PYTHONPATH", python_path())
    quieten(session)
    log.info("the job runs on the session that runs already master=%s", facts.master)
    return session


@contextlib.contextmanager
def preset_session(settings: SessionSettings, directory: Path) -> Iterator[None]:
    """Have any session that the body starts be the job's; starts nothing.

    Args:
        settings: of the job, as far as they are known before its program runs.
        directory: where the options are written, readable by nobody else: some are secrets.

    Raises:
        InvalidConfigError: a fixed option is overridden.
    """
    check_user_conf(settings.conf)
    prepare_environment(settings)
    options = {
        **session_options(settings),
        "spark.master": settings.master,
        "spark.app.name": settings.app_name,
    }
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / _PRESETS_FILE
    path.touch(mode=0o600)
    path.write_text(as_properties(options))
    before = os.environ.get(ENV_SUBMIT_ARGS)
    own = f"--properties-file {shlex.quote(str(path))} --load-spark-defaults"
    os.environ[ENV_SUBMIT_ARGS] = f"{own} {before or _SHELL}"
    try:
        yield
    finally:
        if before is None:
            del os.environ[ENV_SUBMIT_ARGS]
        else:
            os.environ[ENV_SUBMIT_ARGS] = before


def as_properties(options: Mapping[str, str]) -> str:
    """Return options as a Java properties file, in ASCII."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in options.items())


def _escaped(text: str) -> str:
    units = text.encode("utf-16-be")
    pairs = (int.from_bytes(units[i : i + 2]) for i in range(0, len(units), 2))
    return "".join(chr(unit) if chr(unit) in _PLAIN else f"\\u{unit:04x}" for unit in pairs)


def _can_load(context: SparkContext, name: str) -> bool:
    jvm = context._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
    if jvm is None:
        return False
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Py4JError:
        return False
    return True
