"""Every object name of a job's checkpoint directory.

::

    <checkpoints.dir>/<job id>/
      chk-<n>/_metadata                     written last, by conditional create
      chk-<n>/g<g>-c<n>-<unique>-<name>     files of one checkpoint alone
      shared/g<g>-c<n>-<unique>-<name>      SST files, referred to by one or more checkpoints
      taskowned/                            reserved, as in Flink
      generations/<g:010d>/claim            fencing marker, conditional create
      generations/<g:010d>/start            which checkpoint generation g continues from
      generations/<g:010d>/latest           newest checkpoint of g whose output may be committed
      probe/<unique>                        start-up check of the storage

File names say who wrote them: generation g, for checkpoint n. So an orphan is told from a file in
flight by its name alone (see `cleanup`). They hold a random part, never an SST number alone:
numbers repeat between databases (T5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from headrace.ids import CheckpointId, Generation, JobId

METADATA_NAME: Final = "_metadata"
SHARED_DIR: Final = "shared"
TASK_OWNED_DIR: Final = "taskowned"
GENERATIONS_DIR: Final = "generations"

_CHECKPOINT_DIR = re.compile(r"chk-(\d+)")
_METADATA = re.compile(rf"chk-(\d+)/{METADATA_NAME}")
_GENERATION_MARKER = re.compile(rf"{GENERATIONS_DIR}/(\d{{10}})/(claim|start|latest)")
_FILE = re.compile(rf"(?:{SHARED_DIR}|chk-\d+)/g(\d+)-c(\d+)-.+")


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Who writes files, and for which checkpoint."""

    generation: Generation
    checkpoint_id: CheckpointId


def job_root(checkpoints_dir: str, job_id: JobId) -> str:
    """Return ``<checkpoints dir>/<job id>`` without a trailing slash."""
    return f"{checkpoints_dir.rstrip('/')}/{job_id}"


def checkpoint_dir(checkpoint_id: CheckpointId) -> str:
    """Return ``chk-<n>``."""
    return f"chk-{checkpoint_id}"


def metadata_path(checkpoint_id: CheckpointId) -> str:
    """Return ``chk-<n>/_metadata``."""
    return f"{checkpoint_dir(checkpoint_id)}/{METADATA_NAME}"


def exclusive_path(writer: FileWriter, unique: str, name: str) -> str:
    """Return the path of a file that belongs to one checkpoint alone."""
    return f"{checkpoint_dir(writer.checkpoint_id)}/{_file_name(writer, unique, name)}"


def shared_path(writer: FileWriter, unique: str, name: str) -> str:
    """Return the path of a file that several checkpoints may refer to."""
    return f"{SHARED_DIR}/{_file_name(writer, unique, name)}"


def is_shared(path: str) -> bool:
    """Return whether the object may be referred to by several checkpoints of this job."""
    return path.startswith(f"{SHARED_DIR}/")


def parse_file_writer(path: str) -> FileWriter | None:
    """Return who wrote the file at ``path``, None for objects that are not checkpoint files."""
    match = _FILE.fullmatch(path)
    if match is None:
        return None
    return FileWriter(Generation(int(match[1])), CheckpointId(int(match[2])))


def claim_path(generation: Generation) -> str:
    """Return the fencing marker of a generation."""
    return f"{GENERATIONS_DIR}/{generation:010d}/claim"


def start_path(generation: Generation) -> str:
    """Return the record of the checkpoint that a generation continues from."""
    return f"{GENERATIONS_DIR}/{generation:010d}/start"


def latest_path(generation: Generation) -> str:
    """Return the record of a generation's newest checkpoint whose output may be committed."""
    return f"{GENERATIONS_DIR}/{generation:010d}/latest"


def parse_checkpoint_dir(path: str) -> CheckpointId | None:
    """Return n of a path whose first part is ``chk-<n>``, else None."""
    match = _CHECKPOINT_DIR.fullmatch(path.split("/", 1)[0])
    return CheckpointId(int(match[1])) if match else None


def parse_metadata_path(path: str) -> CheckpointId | None:
    """Return n if ``path`` is ``chk-<n>/_metadata``, else None."""
    match = _METADATA.fullmatch(path)
    return CheckpointId(int(match[1])) if match else None


def parse_generation_marker(path: str) -> tuple[Generation, str] | None:
    """Return (generation, ``claim`` | ``start`` | ``latest``) of a marker's path, else None."""
    match = _GENERATION_MARKER.fullmatch(path)
    return (Generation(int(match[1])), match[2]) if match else None


def _file_name(writer: FileWriter, unique: str, name: str) -> str:
    return f"g{writer.generation}-c{writer.checkpoint_id}-{unique}-{name}"
