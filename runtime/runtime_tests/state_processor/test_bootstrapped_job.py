"""A job starts from a savepoint that no job has written (E9)."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.common import Types
from headrace.datastream.state import ValueStateDescriptor
from headrace.datastream.time_domain import TimeDomain
from headrace.state_processor.functions import StateColumns, TimerColumns

from .test_bootstrap import operator, table, write

pytestmark = pytest.mark.integration

HERE = Path(__file__).parent


def run(*words, cwd):
    found = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-6000:]


def test_a_job_goes_on_with_the_state_that_a_savepoint_was_written_with(tmp_path):
    rows = table("key value timestamp_ms", ("word-1", 40, None), ("word-3", 7, 5))
    columns = [
        StateColumns(ValueStateDescriptor("count", Types.LONG())),
        TimerColumns(TimeDomain.EVENT_TIME),
    ]
    path = write(tmp_path, operator(columns), rows, uid="count")
    output = tmp_path / "output.txt"
    program = HERE / "counting_program.py"
    run("-m", "headrace.cli.main", "run", "--from-savepoint", path, program, output, cwd=tmp_path)
    assert output.read_text().splitlines() == [
        "new 1",
        "word-1 41",
        "word-1 42",
        "word-2 1",
        "word-3 fired 7",
    ]
