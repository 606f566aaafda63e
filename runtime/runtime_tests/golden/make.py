"""Makes the golden checkpoints and savepoints of this version: run it once for each stored format.

    cd runtime && python -m runtime_tests.golden.make v2

Runs the golden program on a real local engine with each backend, and keeps of what it stored: the
job's checkpoint directory (without generation markers), a savepoint in native format, and one in
canonical format of the same state. Golden files are never made again: what a version has is
left as it is, and a version that stores something new gets a new directory beside the old ones.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
from pathlib import Path

from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.protocol.savepoints import SavepointFormat
from headrace.checkpoint.protocol.types import CheckpointMetadata
from headrace.checkpoint.savepoint import SavepointWriter
from headrace.checkpoint.storage import ObjectStore, open_store
from headrace.checkpoint.transfer import TransferPool
from runtime_tests.savepoints.counting import World, running_job

GOLDEN = Path(__file__).parent
PROGRAM = GOLDEN / "golden_program.py"
KEYS, LINES = 12, 60
JOB = "golden"

STORED_LINES = "lines.txt"
CHECKPOINTS = "checkpoints"
SAVEPOINT = "savepoint"
CANONICAL = "canonical"


def golden_lines() -> list[str]:
    """Return the input whose state is kept."""
    return [f"key-{n * 7 % KEYS} {n}" for n in range(LINES)]


def open_local(uri: str) -> ObjectStore:
    """Return a store over a local directory."""
    return open_store(uri, {})


def location_of(version: str, form: str, kind: str) -> Path:
    """Return the directory of a golden checkpoint (the newest) or savepoint.

    Args:
        version: of the stored format.
        form: a backend, or `CANONICAL`.
        kind: `CHECKPOINTS` or `SAVEPOINT`.
    """
    directory = GOLDEN / version / form
    if kind == SAVEPOINT:
        return directory / SAVEPOINT
    return max((directory / CHECKPOINTS).glob("chk-*"), key=lambda path: int(path.name[4:]))


def read(location: Path) -> CheckpointMetadata:
    """Return what is in a golden checkpoint or savepoint."""
    return read_checkpoint_at(location.as_uri(), open_local)


def make_native(target: Path, backend: str, directory: Path) -> None:
    """Run a job, and keep a checkpoint and a savepoint of it."""
    world = World(directory / backend)
    lines = golden_lines()
    world.write(lines)
    options = {"state.backend.type": backend}
    output = world.directory / "output"
    with running_job(world, JOB, output, program=PROGRAM, options=options) as job:
        job.wait_until(lambda: job.lines().total() >= len(lines))
        savepoint = Path(job.location(job.order("/stop")).removeprefix("file://"))
        assert job.wait_for_end() == 0
        shutil.copytree(savepoint, target / SAVEPOINT, ignore=shutil.ignore_patterns(".tmp"))
        unwanted = shutil.ignore_patterns(".tmp", "generations")
        shutil.copytree(job.checkpoints, target / CHECKPOINTS, ignore=unwanted)
    (target / STORED_LINES).write_text("\n".join(lines) + "\n")


def write_canonical(source: CheckpointMetadata, location: Path) -> None:
    """Write what a checkpoint holds as a savepoint in canonical format."""
    pool = TransferPool()
    writer = SavepointWriter(
        source.job_id,
        pool,
        open_store=open_local,
        scratch_dir=None,
        cancelled=threading.Event(),
    )
    writer.write(source, location.as_uri(), SavepointFormat.CANONICAL)
    pool.close()
    shutil.rmtree(location / ".tmp", ignore_errors=True)


def make_canonical(target: Path, version: str) -> None:
    """Keep the state of the version's RocksDB savepoint in canonical format."""
    write_canonical(read(location_of(version, "rocksdb", SAVEPOINT)), target / SAVEPOINT)
    shutil.copy(GOLDEN / version / "rocksdb" / STORED_LINES, target / STORED_LINES)


def main(version: str) -> None:
    """Make the golden files that the version does not have."""
    with tempfile.TemporaryDirectory(prefix="headrace-golden-") as directory:
        for form in ("rocksdb", "hashmap", CANONICAL):
            target = GOLDEN / version / form
            if target.exists():
                sys.stderr.write(f"{target} is there and stays as it is\n")
            elif form == CANONICAL:
                make_canonical(target, version)
            else:
                make_native(target, form, Path(directory))


if __name__ == "__main__":
    main(sys.argv[1])
