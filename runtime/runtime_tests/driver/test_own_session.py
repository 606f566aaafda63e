"""Programs that bring their own SparkSession, on a real Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from headrace.api.driver import DriverConfig

PROGRAM = Path(__file__).with_name("own_session_program.py")
COLLECTED = "collected ['0', '1', '2', '3', '4']"

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def run_driver(directory: Path, *arguments: str) -> tuple[int, str, dict[str, object]]:
    """Run a driver as a pod would; the master of its deployment is ``local[2]``."""
    config = DriverConfig(
        job_id=uuid.uuid4().hex,
        job_name="job",
        namespace="test",
        program=str(PROGRAM),
        args=list(arguments),
        parallelism=2,
        max_parallelism=128,
        config={
            "rest.port": "0",
            "execution.checkpointing.dir": f"file://{directory}/checkpoints",
            "execution.checkpointing.interval": "1 s",
        },
        spark_conf={"spark.master": "local[2]"},
    )
    path, said = directory / "job.json", directory / "termination"
    path.write_text(config.model_dump_json(by_alias=True))
    run = subprocess.run(
        [sys.executable, "-m", "headrace.driver", str(path)],
        cwd=directory,
        env={
            **os.environ,
            "HEADRACE_TOKEN": "secret",
            "POD_IP": "127.0.0.1",
            "HEADRACE_TERMINATION_LOG": str(said),
        },
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert said.exists(), run.stderr[-3000:]
    return run.returncode, run.stdout + run.stderr[-3000:], json.loads(said.read_text())


def test_a_session_that_a_program_starts_in_a_driver_is_the_jobs(tmp_path):
    code, output, said = run_driver(tmp_path)
    assert (0, "CANCELED") == (code, said["state"]), output  # a limit ends the job by itself
    for line in ("master local[2]", "same True", "adaptive false", COLLECTED):
        assert line in output


def test_a_program_that_starts_spark_elsewhere_is_refused_with_the_way_out(tmp_path):
    code, output, said = run_driver(tmp_path, "local[1]")
    assert (1, "FAILED", "InvalidProgram") == (code, said["state"], said["error"]["kind"]), output
    message = said["error"]["message"]
    assert "option=spark.master required=local[2] got=local[1]" in message
    assert "env.get_spark_session()" in message


@pytest.mark.parametrize("arguments", [[], ["local[1]"]])
def test_a_local_run_takes_the_programs_session_and_makes_it_fit(tmp_path, arguments):
    run = subprocess.run(
        [sys.executable, PROGRAM, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    lines = run.stdout.splitlines()
    assert [
        f"master {arguments[0] if arguments else 'local[*]'}",
        "same True",
        "adaptive false",
    ] == lines[:3]
    assert COLLECTED == lines[3]
