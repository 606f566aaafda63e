"""Where a program runs: the seam between the job API and whatever executes it.

A program only builds a graph; `execute` plans it and calls an `ExecuteJob`. On its own that is the
local engine; a driver pod, and a test, put their own call and their own settings around the program
with `program_context`.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from headrace.common.job_execution_result import JobExecutionResult
    from headrace.config.job_configuration import JobConfiguration
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.graph.job_graph import JobGraph


class ExecuteJob(Protocol):
    """Runs a planned job to its end."""

    def __call__(
        self,
        job_graph: JobGraph,
        configuration: JobConfiguration,
        env: StreamExecutionEnvironment,
        /,
    ) -> JobExecutionResult:
        """Run the job; returns when bounded sources are at their end or the job was cancelled.

        Args:
            job_graph: what to run.
            configuration: all options, validated.
            env: takes the output of local sinks (``env.outputs``).

        Raises:
            HeadraceError: the job failed for good.
        """
        ...


class StartSession(Protocol):
    """Returns the job's Spark session, starting it at the first call."""

    def __call__(self, env: StreamExecutionEnvironment, /) -> SparkSession:
        """Return the session.

        Raises:
            InvalidConfigError: a Spark option that Headrace's guarantees need was overridden.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProgramContext:
    """What surrounds a program.

    Attributes:
        settings: options by key, below those that the program sets.
        parallelism, max_parallelism: fixed from outside (a StreamJob's spec), above the program's.
        execute_job: runs the planned job, None for the local engine.
        spark_session: starts Spark for a program that needs it before it executes, None for a
            local session.
    """

    settings: Mapping[str, str] = field(default_factory=dict)
    parallelism: int | None = None
    max_parallelism: int | None = None
    execute_job: ExecuteJob | None = None
    spark_session: StartSession | None = None


_LOCAL: Final = ProgramContext()
_CONTEXT: Final[ContextVar[ProgramContext]] = ContextVar("headrace_program_context", default=_LOCAL)


def current_context() -> ProgramContext:
    """Return what surrounds the running program."""
    return _CONTEXT.get()


@contextlib.contextmanager
def program_context(context: ProgramContext) -> Iterator[None]:
    """Run the body, usually a whole program, inside ``context``."""
    token = _CONTEXT.set(context)
    try:
        yield
    finally:
        _CONTEXT.reset(token)
