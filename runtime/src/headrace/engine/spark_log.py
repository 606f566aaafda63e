"""Spark's own streaming log, rebuilt from a checkpoint at every start (T1, O4).

Spark's ``checkpointLocation`` is scratch on the driver's local disk. The durable copy of the same
entries sits in our checkpoint metadata; a new generation writes the last two epochs' entries into a
fresh directory, and Spark goes on with exactly the next offsets (it refuses a directory with one
entry alone).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoint.protocol.types import SourcePosition
from headrace.errors import CorruptStateError

if TYPE_CHECKING:
    from headrace.ids import Epoch


def write_scratch(directory: Path, position: SourcePosition | None) -> None:
    """Make ``directory`` a fresh checkpoint location that continues after ``position``."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if position is None:
        return
    (directory / "metadata").write_text(position.metadata)
    for name, source in position.sources.items():
        target = directory / "sources" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(source)
    for folder, entries in (("offsets", position.offsets), ("commits", position.commits)):
        (directory / folder).mkdir()
        for epoch, content in entries.items():
            (directory / folder / epoch).write_text(content)


def has_commit(directory: Path, epoch: Epoch) -> bool:
    """Return whether Spark has logged the epoch as committed."""
    return (directory / "commits" / str(epoch)).exists()


def read_position(directory: Path, epoch: Epoch) -> SourcePosition:
    """Read the entries that a restart after ``epoch`` needs; Spark must have committed it.

    Raises:
        CorruptStateError: an entry is missing; the scratch directory was damaged.
    """
    epochs = [epoch] if epoch == 0 else [epoch - 1, epoch]
    try:
        offsets = {str(e): (directory / "offsets" / str(e)).read_text() for e in epochs}
        commits = {str(e): (directory / "commits" / str(e)).read_text() for e in epochs}
        metadata = (directory / "metadata").read_text()
    except OSError as error:
        msg = f"Spark's log on the driver's disk is damaged; epoch={epoch} path={error.filename}"
        raise CorruptStateError(msg) from error
    sources_dir = directory / "sources"
    sources = {
        str(path.relative_to(sources_dir)): path.read_bytes()
        for path in sorted(sources_dir.rglob("*"))
        if path.is_file() and not path.name.endswith(".crc")
    }
    return SourcePosition(epoch, metadata, sources, offsets, commits)


def source_offsets(position: SourcePosition) -> list[str | None]:
    """Return each source's offset after the position's last epoch, as Spark writes it.

    An entry of Spark's offset log is a version line, a line of metadata, and a line for each
    source in the order of the plan, ``-`` for one without an offset.
    """
    lines = position.offsets[str(position.epoch)].splitlines()[2:]
    return [None if line == "-" else line for line in lines]
