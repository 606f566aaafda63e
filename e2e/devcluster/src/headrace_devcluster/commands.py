"""Runs long commands: output to a log, ended with their caller, a clear error at the end."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.testing.processes import DIES_WITH_PARENT
from headrace_devcluster.errors import BuildFailedError

ISOLATED = (
    "unshare", "--mount", "--pid", "--propagation", "private", "--mount-proc",
    "--kill-child=KILL", "--",
)  # fmt: skip
"""Prefix for commands that mount things and start others: all of it ends with the command."""


def run_logged(
    what: str,
    command: Sequence[str],
    log: Path,
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs a command to its end, with both its outputs in ``log``.

    Args:
        what: Names the thing being made, for the error message.
        command: Program and arguments.
        log: File for its output, replaced.
        cwd: Directory to run in; the caller's by default.
        environment: All of its environment; the caller's by default.

    Raises:
        BuildFailedError: It failed; the message ends with the last lines of the log.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        done = subprocess.run(
            [*DIES_WITH_PARENT, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(environment) if environment is not None else None,
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise BuildFailedError(
            f"{what} could not be built: correct what the log names, then try again "
            f"exit_code={done.returncode} log={log}\n{tail}"
        )
