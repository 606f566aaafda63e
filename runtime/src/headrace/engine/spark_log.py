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
    from collections.abc import Mapping

    from headrace.ids import Epoch, OperatorUid


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


def read_position(directory: Path, epoch: Epoch, ends: Mapping[OperatorUid, str]) -> SourcePosition:
    """Read the entries that a restart after ``epoch`` needs; Spark must have committed it.

    Args:
        directory: Spark's checkpoint location.
        epoch: the last epoch whose effects count.
        ends: what is kept of the ends of bounded sources.

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
    return SourcePosition(epoch, metadata, sources, offsets, commits, dict(ends))


def source_offsets(position: SourcePosition) -> list[str | None]:
    """Return each source's offset after the position's last epoch, as Spark writes it."""
    return _parsed_offsets(position.offsets[str(position.epoch)])


def offsets_of_epoch(directory: Path, epoch: Epoch) -> list[str | None]:
    """Return each source's offset after ``epoch``, which may still be running.

    Raises:
        CorruptStateError: Spark has not logged it; it does so before it runs an epoch.
    """
    try:
        return _parsed_offsets((directory / "offsets" / str(epoch)).read_text())
    except OSError as error:
        msg = f"Spark's log on the driver's disk is damaged; epoch={epoch} path={error.filename}"
        raise CorruptStateError(msg) from error


def source_log(directory: Path) -> list[str]:
    """Return the entries of a source's own log, in no order; empty when it has none.

    Every file is a version line and one entry a line. Compacted files repeat earlier entries.
    """
    if not directory.is_dir():
        return []
    names = [path for path in directory.iterdir() if not path.name.startswith(".")]
    try:
        return [line for path in names for line in path.read_text().splitlines()[1:]]
    except OSError as error:
        msg = f"Spark's log on the driver's disk is damaged; path={error.filename}"
        raise CorruptStateError(msg) from error


def _parsed_offsets(entry: str) -> list[str | None]:
    """Parse an entry of Spark's offset log.

    It is a version line, a line of metadata, and a line for each source in the order of the plan,
    ``-`` for one without an offset.
    """
    return [None if line == "-" else line for line in entry.splitlines()[2:]]
