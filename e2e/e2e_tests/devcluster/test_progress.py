"""What people see while they wait."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from rich.console import Console

from headrace_devcluster.progress import Progress


@pytest.mark.parametrize("terminal", [True, False])
def test_steps_at_the_same_time_are_all_shown(terminal):
    shown = io.StringIO()
    progress = Progress(Console(file=shown, force_terminal=terminal, width=200))
    both_run = Barrier(2, timeout=10)

    def work(title: str) -> None:
        with progress.step(title):
            both_run.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, ["programs", "images"]))
    progress.note("all built")
    lines = shown.getvalue().splitlines()
    for title in ("programs", "images"):
        assert any("✓" in line and title in line for line in lines), lines
    assert "all built" in lines[-1]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_step_that_fails_is_not_shown_as_done(terminal):
    shown = io.StringIO()
    progress = Progress(Console(file=shown, force_terminal=terminal, width=200))
    with pytest.raises(OSError, match="full"), progress.step("images"):
        raise OSError("the disk is full")
    assert "✓" not in shown.getvalue()
    with progress.step("images"):
        pass
    assert "✓" in shown.getvalue(), "the live line of the failed step is in the way"
