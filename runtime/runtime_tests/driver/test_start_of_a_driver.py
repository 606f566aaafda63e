"""How a driver ends that cannot start its job, and what it leaves for the operator."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from headrace.api.driver import ENV_POD_IP, ENV_TOKEN, DriverConfig
from headrace.driver.main import EXIT_CRASHED, run_driver


def run(directory: Path, program: str) -> tuple[int, dict[str, object]]:
    """Runs a driver without executors; returns its exit code and its termination message."""
    path = directory / "program.py"
    path.write_text(program)
    config = DriverConfig(
        job_id=uuid.uuid4().hex,
        job_name="job",
        namespace="test",
        program=str(path),
        parallelism=1,
        max_parallelism=128,
        config={"rest.port": "0"},
    )
    config_path = directory / "job.json"
    config_path.write_text(config.model_dump_json(by_alias=True))
    said = directory / "termination"
    environment = {
        ENV_TOKEN: "secret",
        ENV_POD_IP: "127.0.0.1",
        "HEADRACE_TERMINATION_LOG": str(said),
    }
    return run_driver(config_path, environment), json.loads(said.read_text())


@pytest.mark.parametrize("kind", ["SourceUnavailable", "StorageUnavailable"])
def test_a_system_that_is_away_ends_the_driver_and_not_the_job(tmp_path: Path, kind: str) -> None:
    """The operator starts another driver after ``RESTARTING``, and says the cause meanwhile."""
    program = f"from headrace.errors import {kind}Error\nraise {kind}Error('nobody answers')\n"
    code, said = run(tmp_path, program)
    assert (EXIT_CRASHED, "RESTARTING") == (code, said["state"])
    assert {"kind": kind, "message": "nobody answers"}.items() <= said["error"].items()


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        ("x = 1\n", "InvalidProgram", "env.execute()"),
        ("def broken(:\n", "InvalidProgram", "does not compile"),
        ("1 / 0\n", "UserCodeFailed", "ZeroDivisionError"),
    ],
)
def test_a_program_that_cannot_run_ends_the_job(
    tmp_path: Path, program: str, kind: str, words: str
) -> None:
    code, said = run(tmp_path, program)
    assert (1, "FAILED", kind) == (code, said["state"], said["error"]["kind"])
    assert words in said["error"]["message"]
