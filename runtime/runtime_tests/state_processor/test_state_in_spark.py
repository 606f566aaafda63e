"""Savepoints written from DataFrames and read as DataFrames, by a real Spark (E9)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parent / "spark_program.py"


def test_frames_become_a_savepoint_and_the_savepoint_frames(tmp_path):
    path = tmp_path / "savepoint"
    found = subprocess.run(
        [sys.executable, PROGRAM, path],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-6000:]
    assert json.loads(found.stdout.splitlines()[-1]) == {
        "location": path.as_uri(),
        "partitions": 3,
        "count": [100, 40, 40],
        "positions": 1000,
        "pairs": 600,
        "timers": 100,
        "types": "struct<f0:string,f1:bigint>",
    }
