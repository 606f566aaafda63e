"""Every object name of a job's checkpoint directory.

::

    <checkpoints.dir>/<job id>/
      chk-<n>/_metadata                     written last, by conditional create
      chk-<n>/<uuid>-<name>                 files of this checkpoint alone
      shared/<uuid>-<name>                  SST files, referred to by one or more checkpoints
      taskowned/                            reserved, as in Flink
      generations/<g:010d>/claim            fencing marker, conditional create
      generations/<g:010d>/start            which checkpoint generation g continues from

Names hold a random uuid, never an SST number alone: numbers repeat between databases (T5).
"""

from __future__ import annotations

import re
from typing import Final

from headrace.ids import CheckpointId, Generation, JobId

METADATA_NAME: Final = "_metadata"
SHARED_DIR: Final = "shared"
TASK_OWNED_DIR: Final = "taskowned"
GENERATIONS_DIR: Final = "generations"

_CHECKPOINT_DIR = re.compile(r"chk-(\d+)")
_GENERATION_MARKER = re.compile(rf"{GENERATIONS_DIR}/(\d{{10}})/(claim|start)")


def job_root(checkpoints_dir: str, job_id: JobId) -> str:
    """Return ``<checkpoints dir>/<job id>`` without a trailing slash."""
    return f"{checkpoints_dir.rstrip('/')}/{job_id}"


def checkpoint_dir(checkpoint_id: CheckpointId) -> str:
    """Return ``chk-<n>``."""
    return f"chk-{checkpoint_id}"


def metadata_path(checkpoint_id: CheckpointId) -> str:
    """Return ``chk-<n>/_metadata``."""
    return f"{checkpoint_dir(checkpoint_id)}/{METADATA_NAME}"


def exclusive_path(checkpoint_id: CheckpointId, unique: str, name: str) -> str:
    """Return the path of a file that belongs to one checkpoint alone."""
    return f"{checkpoint_dir(checkpoint_id)}/{unique}-{name}"


def shared_path(unique: str, name: str) -> str:
    """Return the path of a file that several checkpoints may refer to."""
    return f"{SHARED_DIR}/{unique}-{name}"


def claim_path(generation: Generation) -> str:
    """Return the fencing marker of a generation."""
    return f"{GENERATIONS_DIR}/{generation:010d}/claim"


def start_path(generation: Generation) -> str:
    """Return the record of the checkpoint that a generation continues from."""
    return f"{GENERATIONS_DIR}/{generation:010d}/start"


def parse_checkpoint_dir(path: str) -> CheckpointId | None:
    """Return n of a path whose first part is ``chk-<n>``, else None."""
    match = _CHECKPOINT_DIR.fullmatch(path.split("/", 1)[0])
    return CheckpointId(int(match[1])) if match else None


def parse_generation_marker(path: str) -> tuple[Generation, str] | None:
    """Return (generation, ``claim`` or ``start``) of a marker's path, else None."""
    match = _GENERATION_MARKER.fullmatch(path)
    return (Generation(int(match[1])), match[2]) if match else None
