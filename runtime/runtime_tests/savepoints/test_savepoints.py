"""Savepoints of real jobs: taken, moved, restored elsewhere, and nothing lost or repeated."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from runtime_tests.savepoints.counting import World, output_of, running_job

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_a_job_goes_on_in_another_one_from_its_last_savepoint(tmp_path: Path) -> None:
    """Stop, delete all checkpoints, move the savepoint, go on with three slots, drain (E10, T6)."""
    world = World(tmp_path)
    output = tmp_path / "output"
    world.write_lines(3000)
    with running_job(world, "first", output) as first:
        first.wait_for_output(world.counts())
        early = first.location(first.order("/savepoints"))
        counts_at_early = world.counts()
        world.write_lines(3000)
        first.wait_for_output(world.counts())
        last = first.location(first.order("/stop", drain=False))
        assert first.wait_for_end() == 0, first.driver.log_tail()
        assert {"state": "FINISHED", "savepoint": last}.items() <= first.termination().items()
        shutil.rmtree(first.checkpoints)
    first.assert_output(world.counts())

    moved = tmp_path / "elsewhere" / "renamed"
    moved.parent.mkdir()
    Path(last.removeprefix("file://")).rename(moved)
    world.write_lines(3000)
    with running_job(world, "second", output, parallelism=3, restore=f"file://{moved}") as second:
        second.wait_for_output(world.counts())
        second.wait_until(lambda: second.driver.status().last_checkpoint is not None)
        shutil.rmtree(moved)  # NO_CLAIM: the job's own checkpoints refer to nothing of it
        second.driver.kill()
        second.driver.start()
        world.write_lines(1000)
        second.wait_for_output(world.counts())
        second.location(second.order("/stop", drain=True))
        assert second.wait_for_end() == 0, second.driver.log_tail()
    second.assert_output(world.counts() + world.ends())

    again = tmp_path / "again"
    with running_job(world, "third", again, parallelism=1, restore=early) as third:
        third.wait_for_output(world.counts() - counts_at_early)
        assert third.driver.status().restored_from is not None
    assert output_of(output) == world.counts() + world.ends()
    assert Counter() == counts_at_early & output_of(again)
