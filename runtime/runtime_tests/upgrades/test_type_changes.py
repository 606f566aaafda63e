"""A program with other types goes on where its former version stopped, or says why not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from runtime_tests.savepoints.counting import World, output_of, running_job

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

PROGRAM = Path(__file__).with_name("typed_program.py")


def test_state_of_changed_types_is_migrated_and_what_cannot_be_is_refused_before_it_runs(
    tmp_path: Path,
) -> None:
    """Value, list and map state over an upgrade with another parallelism (E2, E6, T20)."""
    world = World(tmp_path)
    output = tmp_path / "output"

    def version(number: int) -> dict[str, object]:
        return {"program": PROGRAM, "args": (str(world.input), str(output), str(number))}

    world.write_lines(2000)
    with running_job(world, "first", output, **version(1)) as first:
        first.wait_for_output(world.counts())
        savepoint = first.location(first.order("/stop", drain=False))
        assert first.wait_for_end() == 0, first.driver.log_tail()
    before = world.counts()

    world.write_lines(2000)
    with running_job(world, "refused", output, **version(3), restore=savepoint) as refused:
        assert refused.wait_for_end() != 0
        text = str(refused.termination())
        assert "IncompatibleState" in text
        for part in (
            "state=count",
            "no field in common",
            "lines",
            "stored=value",
            "declared=value",
        ):
            assert part in text
    assert before == output_of(output), "nothing was read or written"

    with running_job(
        world, "second", output, **version(2), restore=savepoint, parallelism=3
    ) as second:
        later = Counter(
            {f"{line}:later": count for line, count in (world.counts() - before).items()}
        )
        second.wait_for_output(before + later)
        second.wait_until(lambda: second.driver.status().last_checkpoint is not None)
        second.driver.kill()
        second.driver.start()
        world.write_lines(500)
        later = Counter(
            {f"{line}:later": count for line, count in (world.counts() - before).items()}
        )
        second.wait_for_output(before + later)
