"""Savepoints while processes are killed: whole or not there, and never at the cost of the job."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.storage import open_store
from headrace.failpoints import SAVEPOINT_POINTS
from headrace.testing.driver_process import kill_process
from runtime_tests.savepoints.counting import Job, World, running_job

pytestmark = [pytest.mark.kill, pytest.mark.timeout(900)]


def is_complete(location: str) -> bool:
    """Return whether there is a savepoint, all of whose files are there."""
    if not Path(location.removeprefix("file://"), "_metadata").exists():
        return False
    read_checkpoint_at(location, lambda uri: open_store(uri, {}))
    return True


@pytest.mark.parametrize("point", SAVEPOINT_POINTS)
def test_a_driver_that_dies_over_a_savepoint_leaves_it_to_the_next_one(
    tmp_path: Path, point: str
) -> None:
    world = World(tmp_path)
    output, trigger_id = tmp_path / "output", "a" * 32
    world.write_lines(2000)
    environment = {"HEADRACE_FAILPOINTS": f"{point}=1@{tmp_path}"}
    with running_job(world, "job", output, environment=environment) as job:
        job.wait_for_output(world.counts())
        assert job.order("/savepoints", triggerId=trigger_id) == trigger_id
        assert job.wait_for_end() < 0
        location = (
            f"file://{tmp_path}/savepoints/savepoint-{job.driver.config.job_id[:6]}-{trigger_id}"
        )
        assert is_complete(location) == (point == "driver.after-savepoint")

        job.driver.kill()
        job.driver.start()
        world.write_lines(2000)
        job.wait_for_output(world.counts())
        assert job.call("GET", f"/savepoints/{trigger_id}")[0] == 404
        assert job.order("/savepoints", triggerId=trigger_id) == trigger_id
        assert job.location(trigger_id) == location
        assert is_complete(location)


def test_a_slot_that_dies_costs_a_savepoint_in_progress_and_nothing_else(tmp_path: Path) -> None:
    """The order comes back as failed or made; the next one is made; output stays exact (T16)."""
    world = World(tmp_path)
    output = tmp_path / "output"
    world.write_lines(2000)
    with running_job(world, "job", output) as job:
        job.wait_for_output(world.counts())
        for _ in range(3):
            world.write_lines(2000)
            trigger_id = job.order("/savepoints")
            kill_process(job.driver.slots()[0])
            outcome = job.outcome(trigger_id).operation
            assert outcome is not None
            if outcome.failure_cause is None:
                assert outcome.location is not None
                assert is_complete(outcome.location)
            else:
                assert outcome.failure_cause.kind == "SavepointFailed"
        job.wait_for_output(world.counts())
        assert is_complete(job.location(job.order("/savepoints")))


def test_a_stop_that_is_said_to_be_done_has_stopped_the_job(tmp_path: Path) -> None:
    """A slot dies while the job is being stopped: it is stopped all the same, or it goes on."""
    chooser = random.Random(5)
    world = World(tmp_path)
    output = tmp_path / "output"
    world.write_lines(1000)
    with running_job(world, "job", output) as job:
        job.wait_for_output(world.counts())
        for _ in range(6):
            world.write_lines(500)
            trigger_id = job.order("/stop")
            time.sleep(chooser.uniform(0.0, 1.0))
            victims = job.driver.slots()
            if victims:
                kill_process(chooser.choice(victims))
            outcome = job.outcome(trigger_id).operation
            assert outcome is not None
            if outcome.failure_cause is None:
                break
        else:
            trigger_id = job.order("/stop")
            outcome = job.outcome(trigger_id).operation
        assert outcome is not None
        assert outcome.location is not None
        assert job.wait_for_end() == 0
        assert is_complete(outcome.location)
        assert job.termination()["state"] == "FINISHED"
    stopped_at = job.lines()
    with running_job(world, "next", output, restore=outcome.location) as following:
        following.wait_for_output(world.counts())
    assert stopped_at <= world.counts()


def order_a_stop_that_fails(job: Job, directory: Path, *, drain: bool) -> None:
    """Order it, then put a file where the savepoint's directory must be."""
    trigger_id = "b" * 32
    job.order("/stop", triggerId=trigger_id, drain=drain)
    name = f"savepoint-{job.driver.config.job_id[:6]}-{trigger_id}"
    (directory / "savepoints" / name).write_text("in the way")
    outcome = job.outcome(trigger_id).operation
    assert outcome is not None
    assert outcome.failure_cause is not None
    assert outcome.failure_cause.kind == "StorageAccess"


def test_a_job_whose_last_savepoint_fails_goes_on(tmp_path: Path) -> None:
    world = World(tmp_path)
    output = tmp_path / "output"
    world.write_lines(2000)
    with running_job(world, "job", output) as job:
        job.wait_for_output(world.counts())
        order_a_stop_that_fails(job, tmp_path, drain=False)
        world.write_lines(2000)
        job.wait_for_output(world.counts())
        status = job.driver.status()
        assert status is not None
        assert (status.state, status.restarts) == ("RUNNING", 0)
        job.location(job.order("/stop"))
        assert job.wait_for_end() == 0


def test_a_drained_job_whose_savepoint_fails_ends_with_its_last_checkpoint(tmp_path: Path) -> None:
    """What timers have published at the end of time cannot be taken back."""
    world = World(tmp_path)
    output = tmp_path / "output"
    world.write_lines(2000)
    with running_job(world, "job", output) as job:
        job.wait_for_output(world.counts())
        order_a_stop_that_fails(job, tmp_path, drain=True)
        assert job.wait_for_end() == 0
        job.assert_output(world.counts() + world.ends())
        assert {"state": "FINISHED", "savepoint": None}.items() <= job.termination().items()
        assert len(list(job.checkpoints.glob("chk-*/_metadata"))) == 1
