"""What may be deleted: a pure decision over observed facts (D10, D17, T5, T18).

A coordinator of generation g that has completed checkpoint m keeps

- its line: the checkpoints of g up to m, then those of the generation it continued from up to the
  origin, and so on; of these the newest ``retained``;
- checkpoints that are held, because a savepoint of them is being made;
- everything of g above m: it is in progress, or its publication has not returned yet;
- checkpoints, whoever published them, with numbers that g may still use itself (below);
- everything of newer generations: then g is deposed and only does not know it yet;
- every file that a kept checkpoint refers to, and every object that is not a checkpoint's.

The rest is garbage: superseded checkpoints, checkpoints of deposed generations, partial checkpoints
and unreferenced files **whose name says** that an older generation wrote them, or this one for a
checkpoint up to m. Names are what tells an orphan from a file in flight (`paths.FileWriter`).

Why no file in use is deleted, however late the deletion happens: a new checkpoint refers only to
files of the one before it and to new ones (asserted by `ObjectCheckpointStore.publish`), and a new
generation starts from the newest checkpoint of this line; so what nothing on the line's newest
checkpoint refers to now is never referred to again. That newest checkpoint must have been read for
it: if it has vanished, a successor deleted it, and nothing may be classified. Metadata goes before
files, oldest first, so a checkpoint is complete or gone, never hollow.

Why no late deletion of metadata hits a checkpoint that was published under the same number later: a
number is only deleted when it lies below g's first number, which ``start`` records and every later
generation begins above, or up to m. So a number that was ever deleted is never used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.protocol import paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.checkpoint.protocol.types import CheckpointMetadata, FileHandle
    from headrace.ids import CheckpointId, Generation

MARKERS_KEPT: Final = 8
"""Generations below the present one whose markers are kept, for whoever looks into a failover."""


@dataclass(frozen=True, slots=True)
class CompleteCheckpoint:
    """What clean-up needs to know of a complete checkpoint."""

    checkpoint_id: CheckpointId
    generation: Generation
    parent: CheckpointId | None
    references: frozenset[str]


@dataclass(frozen=True, slots=True)
class Position:
    """Where the cleaning coordinator stands.

    Attributes:
        generation: its own.
        first: lowest number that it may publish, recorded in its ``start``.
        restored: checkpoint that it continued from.
        latest: newest checkpoint whose publication has returned, None before the first.
    """

    generation: Generation
    first: CheckpointId
    restored: CheckpointId | None
    latest: CheckpointId | None


@dataclass(frozen=True, slots=True)
class Garbage:
    """What to delete, in this order: ``metadata`` one by one, then ``files``."""

    metadata: tuple[str, ...]
    files: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.metadata) + len(self.files)


def references_of(metadata: CheckpointMetadata) -> list[FileHandle]:
    """Return every file that a checkpoint refers to, pending sink output included."""
    return [
        *(file for slot in metadata.slots for keyed in slot.keyed for file in keyed.files),
        *(
            file
            for slot in metadata.slots
            for pending in slot.committables
            for file in pending.files
        ),
    ]


def line_of(
    position: Position, checkpoints: Mapping[CheckpointId, CompleteCheckpoint]
) -> list[CheckpointId]:
    """Return the complete checkpoints on the coordinator's line, newest first."""
    line: list[CheckpointId] = []
    generation = position.generation
    upto = position.latest
    parent = position.restored
    while True:
        members = sorted(
            (
                n
                for n, checkpoint in checkpoints.items()
                if checkpoint.generation == generation and upto is not None and n <= upto
            ),
            reverse=True,
        )
        line += members
        if members:
            parent = checkpoints[members[-1]].parent
        if parent is None or parent not in checkpoints or (line and parent >= line[-1]):
            return line
        generation, upto = checkpoints[parent].generation, parent


def find_garbage(
    position: Position,
    checkpoints: Mapping[CheckpointId, CompleteCheckpoint],
    objects: Iterable[str],
    retained: int | None,
    held: frozenset[CheckpointId] = frozenset(),
) -> Garbage:
    """Return what may be deleted.

    Args:
        position: the coordinator that asks; it has just checked that it is not fenced.
        checkpoints: every complete checkpoint in storage; all could be read.
        objects: paths of all objects, listed **before** ``checkpoints`` were read.
        retained: number of checkpoints to keep on the line, None for all.
        held: checkpoints to keep whatever their place; held when they were the newest, so what
            they refer to was referred to ever since.
    """
    line = line_of(position, checkpoints)
    kept = set(line if retained is None else line[:retained])
    kept |= {n for n, c in checkpoints.items() if n in held or _may_be_needed(position, c)}
    references = {path for n in kept for path in checkpoints[n].references}
    discarded = sorted(checkpoints.keys() - kept)
    return Garbage(
        metadata=tuple(paths.metadata_path(n) for n in discarded),
        files=tuple(
            path
            for path in objects
            if path not in references
            and (_is_old_file(position, path) or _is_old_marker(position, path))
        ),
    )


def _may_be_needed(position: Position, checkpoint: CompleteCheckpoint) -> bool:
    number = checkpoint.checkpoint_id
    is_settled = number < position.first or _is_completed(position, number)
    return checkpoint.generation > position.generation or not is_settled


def _is_old_file(position: Position, path: str) -> bool:
    writer = paths.parse_file_writer(path)
    if writer is None:
        return False
    if writer.generation == position.generation:
        return _is_completed(position, writer.checkpoint_id)
    return writer.generation < position.generation


def _is_old_marker(position: Position, path: str) -> bool:
    marker = paths.parse_generation_marker(path)
    return marker is not None and marker[0] < position.generation - MARKERS_KEPT


def _is_completed(position: Position, number: CheckpointId) -> bool:
    return position.latest is not None and number <= position.latest
