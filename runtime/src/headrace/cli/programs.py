"""Runs programs from the command line: for real, or only to see their plans."""

from __future__ import annotations

import contextlib
import runpy
import sys
from typing import TYPE_CHECKING

from headrace.common.job_execution_result import JobExecutionResult
from headrace.datastream.execution import ProgramContext, program_context
from headrace.errors import InvalidProgramError
from headrace.graph.plan_view import job_graph_as_json
from headrace.ids import JobId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from headrace.config.job_configuration import JobConfiguration
    from headrace.datastream.stream_execution_environment import StreamExecutionEnvironment
    from headrace.graph.job_graph import JobGraph

NO_JOB = JobId("0" * 32)


def run_program(program: Path, arguments: Sequence[str], context: ProgramContext) -> None:
    """Run a program as ``__main__`` inside ``context``.

    Args:
        program: a Python file.
        arguments: its command line.
        context: what surrounds it.

    Raises:
        InvalidProgramError: it cannot be read.
        HeadraceError: a job cannot be planned, or failed.
    """
    if not program.is_file():
        msg = f"the program cannot be read; program={program}"
        raise InvalidProgramError(msg)
    saved_argv, saved_path = sys.argv, list(sys.path)
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.parent))
    try:
        with program_context(context):
            runpy.run_path(str(program), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = saved_argv, saved_path


def plan_program(program: Path, arguments: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """Return the plans of the jobs that a program executes, as JSON, in order; none is run.

    Args:
        program: a Python file.
        arguments: its command line.
        settings: options by key, below the program's own.

    Raises:
        InvalidProgramError: it cannot be read, or it never calls ``execute``.
        HeadraceError: a job cannot be planned.
    """
    plans: list[str] = []

    def record(
        job_graph: JobGraph, configuration: JobConfiguration, env: StreamExecutionEnvironment, /
    ) -> JobExecutionResult:
        plans.append(job_graph_as_json(job_graph, configuration.to_text(), env.plan_warnings))
        return JobExecutionResult(NO_JOB, 0)

    # What the program prints must not mix with its plans.
    with contextlib.redirect_stdout(sys.stderr):
        run_program(program, arguments, ProgramContext(settings=settings, execute_job=record))
    if not plans:
        msg = f"the program ended without running a job, call env.execute(); program={program}"
        raise InvalidProgramError(msg)
    return plans
