"""Makes the golden checkpoints and savepoints of this version: run it once for each stored format.

    cd runtime && python -m runtime_tests.golden.make v2

Runs the golden program on a real local engine with each backend, and keeps of what it stored: the
job's checkpoint directory (without generation markers) and a savepoint. Golden files are never
made again: a version that stores something new gets a new directory beside the old ones.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from runtime_tests.savepoints.counting import World, running_job

GOLDEN = Path(__file__).parent
PROGRAM = GOLDEN / "golden_program.py"
KEYS, LINES = 12, 60
JOB = "golden"

STORED_LINES = "lines.txt"
CHECKPOINTS = "checkpoints"
SAVEPOINT = "savepoint"


def golden_lines() -> list[str]:
    """Return the input whose state is kept."""
    return [f"key-{n * 7 % KEYS} {n}" for n in range(LINES)]


def make(version: str, backend: str, directory: Path) -> None:
    """Run a job, and keep a checkpoint and a savepoint of it."""
    target = GOLDEN / version / backend
    world = World(directory / backend)
    lines = golden_lines()
    world.write(lines)
    options = {"state.backend.type": backend}
    output = world.directory / "output"
    with running_job(world, JOB, output, program=PROGRAM, options=options) as job:
        job.wait_until(lambda: job.lines().total() >= len(lines))
        savepoint = Path(job.location(job.order("/stop")).removeprefix("file://"))
        assert job.wait_for_end() == 0
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(savepoint, target / SAVEPOINT, ignore=shutil.ignore_patterns(".tmp"))
        unwanted = shutil.ignore_patterns(".tmp", "generations")
        shutil.copytree(job.checkpoints, target / CHECKPOINTS, ignore=unwanted)
    (target / STORED_LINES).write_text("\n".join(lines) + "\n")


def main(version: str) -> None:
    """Make the golden files of both backends."""
    with tempfile.TemporaryDirectory(prefix="headrace-golden-") as directory:
        for backend in ("rocksdb", "hashmap"):
            make(version, backend, Path(directory))


if __name__ == "__main__":
    main(sys.argv[1])
