"""Savepoints on paper: where one lies, what is in it, and which copies make it.

::

    <target directory>/savepoint-<job id, 6 digits>-<trigger id>/
      _metadata                      written last, by conditional create
      data-<attempt>/<file>          every file of the state

Its files are those of the checkpoint (`NATIVE`), or the same rows in a form that no backend owns
(`CANONICAL`); nothing else depends on that. A savepoint is a copy of one completed checkpoint of
its job, with three differences:

- **self-contained**: it refers to its own files alone, by paths relative to its own directory. It
  can be moved, and deleting the job's checkpoints does not touch it (T6);
- **no pending output**: it is made only after everything up to its checkpoint was published, so it
  means the same in every job that starts from it, whatever ledger that job has (E10);
- nothing ever deletes it but its owner (E1). Headrace removes only what an attempt that failed had
  put into its own ``data-`` directory.

The directory follows from the trigger id, so that a request that is repeated, by whoever lost the
answer, finds what the first one made. Attempts do not share files: the conditional create of
``_metadata`` decides which attempt *is* the savepoint, and another one may then remove its own
files without asking.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from headrace.checkpoint.protocol.types import (
    CheckpointMetadata,
    FileHandle,
    KeyedStateHandle,
    SlotSnapshot,
)
from headrace.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.ids import JobId, SlotIndex, TriggerId

CHECKPOINT: Final = "checkpoint"
SAVEPOINT: Final = "savepoint"
"""Values of `CheckpointMetadata.kind`."""

_JOB_ID_DIGITS: Final = 6
"""As in Flink's names of savepoints."""


class SavepointFormat(enum.Enum):
    """What the files of a savepoint are, in Flink's words."""

    NATIVE = "NATIVE"
    """Those of the state backend, copied."""
    CANONICAL = "CANONICAL"
    """The rows of all states as Parquet: docs/state-format.md."""


@dataclass(frozen=True, slots=True)
class FileCopy:
    """One file: where it is now (absolute URI) and where the savepoint has it (relative path)."""

    source: FileHandle
    path: str


@dataclass(frozen=True, slots=True)
class SavepointPlan:
    """What to copy, and the metadata that then tells of it."""

    copies: tuple[FileCopy, ...]
    metadata: CheckpointMetadata


def savepoint_dir(job_id: JobId, trigger_id: TriggerId) -> str:
    """Return the name of a savepoint's directory below the target directory."""
    return f"savepoint-{job_id[:_JOB_ID_DIGITS]}-{trigger_id}"


def data_dir(attempt: str) -> str:
    """Return the directory of one attempt's files inside the savepoint's directory."""
    return f"data-{attempt}"


def canonical_path(attempt: str, slot: SlotIndex, index: int, name: str) -> str:
    """Return the path of a canonical file inside the savepoint's directory.

    Args:
        attempt: unique to this attempt.
        slot: slot that took the state.
        index: of the operator among those of the slot's snapshot.
        name: of the file after a restore.
    """
    return f"{data_dir(attempt)}/slot-{slot:04d}-{index}-{name}"


def plan_savepoint(checkpoint: CheckpointMetadata, attempt: str) -> SavepointPlan:
    """Return how a checkpoint becomes a savepoint.

    Args:
        checkpoint: a complete checkpoint whose output is published, with absolute file URIs.
        attempt: unique to this attempt.

    Raises:
        InternalError: two files of the checkpoint would get the same name.
    """
    files = {
        file.path: file for slot in checkpoint.slots for keyed in slot.keyed for file in keyed.files
    }
    # The last part of a path is unique in a job for ever (`paths`), so it needs no directories.
    targets = {path: f"{data_dir(attempt)}/{path.rpartition('/')[2]}" for path in files}
    if len(set(targets.values())) != len(targets):
        msg = f"two files of a checkpoint have one name; checkpoint=chk-{checkpoint.checkpoint_id}"
        raise InternalError(msg)

    def keyed(handle: KeyedStateHandle) -> KeyedStateHandle:
        moved = [replace(file, path=targets[file.path]) for file in handle.files]
        return replace(handle, files=moved)

    slots = [
        _slot(snapshot, [keyed(handle) for handle in snapshot.keyed], snapshot.state_size_bytes)
        for snapshot in checkpoint.slots
    ]
    copies = tuple(FileCopy(files[path], targets[path]) for path in sorted(files))
    return SavepointPlan(copies, _savepoint(checkpoint, slots))


def canonical_savepoint(
    checkpoint: CheckpointMetadata, keyed: Sequence[list[KeyedStateHandle]]
) -> CheckpointMetadata:
    """Return the metadata of a savepoint whose keyed state was written anew.

    Args:
        checkpoint: as for `plan_savepoint`.
        keyed: handles of the canonical files, for each slot of the checkpoint.
    """
    slots = [
        _slot(snapshot, handles, sum(file.size_bytes for one in handles for file in one.files))
        for snapshot, handles in zip(checkpoint.slots, keyed, strict=True)
    ]
    return _savepoint(checkpoint, slots)


def _slot(snapshot: SlotSnapshot, keyed: list[KeyedStateHandle], size_bytes: int) -> SlotSnapshot:
    return replace(
        snapshot,
        keyed=keyed,
        committables=[],
        state_size_bytes=size_bytes,
        uploaded_bytes=size_bytes,
    )


def _savepoint(checkpoint: CheckpointMetadata, slots: list[SlotSnapshot]) -> CheckpointMetadata:
    return replace(checkpoint, kind=SAVEPOINT, parent=None, slots=slots)
