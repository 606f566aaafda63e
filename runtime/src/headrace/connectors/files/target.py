"""Where one sealed spool is published, and under which names; pure, and stored with the spool.

The names follow from job, sink, spool and checkpoint alone, so publishing again writes the same
bytes to the same names. Layout below the sink's directory::

    <prefix>-<job id, 8>-<sink, 8>-<spool id>-<checkpoint:08d>-<n><suffix>     finished rows
    _headrace/<job id>/<sink, 8>/<checkpoint:010d>-<spool id>.json             manifest

``<sink, 8>`` is the beginning of XXH3-64 of the operator's uid. Spark and Hadoop ignore names that
begin with ``_`` or ``.``, so a directory can be read as a table. A spool's first file is its
`FileTarget` as JSON, so a spool can be published by a program whose sink was changed since.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
import xxhash

from headrace.errors import CorruptStateError
from headrace.ids import CheckpointId, JobId, OperatorUid

TARGET_VERSION: Final = 1
TARGET_SUFFIX: Final = ".target.json"
MANIFEST_DIR: Final = "_headrace"


class FileTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the manifest as well: a directory's manifests list its finished files.

    Attributes:
        version: `TARGET_VERSION` of the writer.
        base_uri: the sink's directory.
        manifest: object whose existence says that the spool is published.
        parts: object names of the data files, in their order.
        records: number of rows in them.
    """

    version: int
    base_uri: str
    manifest: str
    parts: list[str]
    records: int


class PartNaming(msgspec.Struct, frozen=True):
    """What is the same in all names of one sink instance."""

    base_uri: str
    prefix: str
    suffix: str
    job_id: JobId
    operator_uid: OperatorUid
    spool_id: str

    def target(self, checkpoint_id: CheckpointId, files: int, records: int) -> FileTarget:
        """Return where a spool of ``files`` data files goes."""
        sink = xxhash.xxh3_64_hexdigest(self.operator_uid.encode())[:8]
        stem = f"{self.prefix}-{self.job_id[:8]}-{sink}-{self.spool_id}-{checkpoint_id:08d}"
        return FileTarget(
            version=TARGET_VERSION,
            base_uri=self.base_uri,
            manifest=(
                f"{MANIFEST_DIR}/{self.job_id}/{sink}/{checkpoint_id:010d}-{self.spool_id}.json"
            ),
            parts=[f"{stem}-{number}{self.suffix}" for number in range(files)],
            records=records,
        )


def encode_target(target: FileTarget) -> bytes:
    """Return the bytes of the spool's first file and of the manifest."""
    return msgspec.json.encode(target)


def read_target(path: Path) -> FileTarget:
    """Read a spool's first file.

    Raises:
        CorruptStateError: not a target, or of a version that is not known.
    """
    try:
        target = msgspec.json.decode(path.read_bytes(), type=FileTarget)
    except msgspec.MsgspecError as error:
        msg = f"a file spool has no readable target, restore its checkpoint again; path={path}"
        raise CorruptStateError(msg) from error
    if target.version != TARGET_VERSION:
        msg = f"a file spool was written by another release; path={path} version={target.version}"
        raise CorruptStateError(msg)
    return target
