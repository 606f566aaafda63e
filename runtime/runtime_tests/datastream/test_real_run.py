"""A program of several levels on a real local engine, compared with what it must compute."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.integration
def test_streams_of_several_levels_lose_and_repeat_nothing(tmp_path):
    """30 events a key and the count of them meet in keyed state: 31 a key. 1 + ... + 1000.

    (1 + ... + 40) by factors 2, 3 and 7 that are broadcast.
    """
    run = subprocess.run(
        [sys.executable, PROGRAMS / "union_of_levels.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert run.returncode == 0, run.stderr[-4000:]
    assert json.loads(run.stdout.splitlines()[-1]) == {
        "a": 31,
        "b": 31,
        "c": 31,
        "sum": 500_500,
        "product": 820 * 42,
    }
