"""What a changed program finds of its old state: by uid, never by place, and nothing in silence."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from runtime_tests.savepoints.counting import World, running_job

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]


def test_sources_and_state_are_found_by_uid_and_a_lost_uid_is_refused(tmp_path: Path) -> None:
    """A new source is put before the old one (E4); then the counting operator is renamed (E5)."""
    world, added = World(tmp_path / "world"), World(tmp_path / "added")
    output = tmp_path / "output"
    world.write_lines(2000)
    with running_job(world, "first", output) as first:
        first.wait_for_output(world.counts())
        savepoint = first.location(first.order("/stop"))
        assert first.wait_for_end() == 0

    added.chooser.seed(11)
    added.write_lines(500)
    world.write_lines(500)
    total = world.written + added.written
    expected = Counter(f"{key}:{n + 1}" for key, lines in total.items() for n in range(lines))
    arguments = [str(world.input), str(output), str(added.input)]
    with running_job(
        world, "second", output, args=[*arguments, "count"], restore=savepoint
    ) as second:
        second.wait_for_output(expected)
        savepoint = second.location(second.order("/stop"))
        assert second.wait_for_end() == 0

    renamed = {"args": [*arguments, "renamed"], "restore": savepoint}
    with running_job(world, "refused", output, **renamed) as refused:
        assert refused.wait_for_end() == 1
        error = refused.termination()["error"]
        assert isinstance(error, dict)
        assert error["kind"] == "IncompatibleState"
        assert "count (" in str(error["message"])
    before = expected
    options = {"execution.state-recovery.ignore-unclaimed-state": "true"}
    with running_job(world, "dropped", output, **renamed, options=options) as dropped:
        world.write(["key-1", "key-1"])
        dropped.wait_for_output(before + Counter(["key-1:1", "key-1:2"]))


@pytest.mark.parametrize(
    ("retention", "kept"), [("RETAIN_ON_CANCELLATION", True), ("DELETE_ON_CANCELLATION", False)]
)
def test_cancellation_keeps_or_deletes_the_checkpoints(
    tmp_path: Path, retention: str, kept: bool
) -> None:
    """D17; a savepoint stays in any case (E1)."""
    world = World(tmp_path)
    world.write_lines(500)
    options = {"execution.checkpointing.externalized-checkpoint-retention": retention}
    with running_job(world, "job", tmp_path / "output", options=options) as job:
        job.wait_for_output(world.counts())
        savepoint = Path(job.location(job.order("/savepoints")).removeprefix("file://"))
        job.wait_until(lambda: any(job.checkpoints.glob("chk-*/_metadata")))
        assert job.call("PATCH", "?mode=cancel")[0] == 202
        assert job.wait_for_end() == 0
        assert job.termination()["state"] == "CANCELED"
        assert kept == any(job.checkpoints.glob("chk-*/_metadata"))
        assert kept == any(job.checkpoints.glob("shared/*"))
        assert (savepoint / "_metadata").exists()
