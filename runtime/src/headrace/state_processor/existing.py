"""A new savepoint that takes over what another one holds, but for some operators (E9).

All of it but the state of the removed operators: keyed state, state without keys, source offsets,
watermark. Files are copied, inside the storage where it can, so both savepoints stand alone.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.checkpoint.protocol.savepoints import SAVEPOINT, data_dir
from headrace.checkpoint.storage import open_store
from headrace.checkpoint.storage.copying import copy_object
from headrace.checkpoint.transfer import TransferPool
from headrace.errors import CorruptStateError, IncompatibleStateError, InvalidConfigError
from headrace.state_processor.reading import read_stored_state

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from headrace.checkpoint.protocol.types import (
        CheckpointMetadata,
        FileHandle,
        KeyedStateHandle,
        SlotSnapshot,
    )
    from headrace.ids import OperatorUid
    from headrace.state_processor.bootstrap import SavepointTarget


def read_existing(path: str, options: Mapping[str, str]) -> CheckpointMetadata:
    """Read a savepoint whose state shall be taken over; its file handles are absolute.

    Raises:
        IncompatibleStateError: it is a checkpoint, whose output may be unpublished, or nothing can
            follow it.
        NoRestorableStateError, CorruptStateError, InvalidConfigError: see `read_stored_state`.
    """
    metadata = read_stored_state(path, options).metadata
    if metadata.kind != SAVEPOINT or metadata.finished:
        msg = (
            "only a savepoint of a job that goes on can be changed into another one, take one; "
            f"path={path} kind={metadata.kind} finished={metadata.finished}"
        )
        raise IncompatibleStateError(msg)
    return metadata


def without_operator(metadata: CheckpointMetadata, uid: OperatorUid) -> CheckpointMetadata:
    """Return a savepoint without the state of an operator.

    Raises:
        InvalidConfigError: there is no such operator; names those that there are.
    """
    known = uids_of(metadata)
    if uid not in known:
        msg = f"no operator has this uid; operator={uid!r} operators={sorted(known)}"
        raise InvalidConfigError(msg)
    return replace(
        metadata,
        operators=[record for record in metadata.operators if record.uid != uid],
        slots=[
            replace(
                slot,
                keyed=[handle for handle in slot.keyed if handle.operator_uid != uid],
                operator=[handle for handle in slot.operator if handle.operator_uid != uid],
            )
            for slot in metadata.slots
        ],
    )


def uids_of(metadata: CheckpointMetadata) -> Collection[OperatorUid]:
    """Return the uids of all operators of a savepoint."""
    keyed = {handle.operator_uid for slot in metadata.slots for handle in slot.keyed}
    without_keys = {handle.operator_uid for slot in metadata.slots for handle in slot.operator}
    return {record.uid for record in metadata.operators} | keyed | without_keys


def copy_files(metadata: CheckpointMetadata, target: SavepointTarget) -> CheckpointMetadata:
    """Copy the files of a savepoint into another one; returns the metadata as it is there.

    Args:
        metadata: with absolute file URIs.
        target: the new savepoint.

    Raises:
        CorruptStateError: a file is not what was stored.
        ObjectMissingError: a file is gone.
        StorageUnavailableError, StorageAccessError: a storage failed.
    """
    files = {f.path: f for slot in metadata.slots for keyed in slot.keyed for f in keyed.files}
    # The last part of a path is unique in a job for ever, so it needs no directories.
    moved = {path: f"{data_dir(target.attempt)}/{path.rpartition('/')[2]}" for path in files}
    pool = TransferPool()
    try:
        with tempfile.TemporaryDirectory(dir=target.scratch_dir) as scratch:
            pool.run(
                [
                    functools.partial(_copy, file, moved[path], target, Path(scratch))
                    for path, file in files.items()
                ]
            )
    finally:
        pool.close()

    def keyed(handle: KeyedStateHandle) -> KeyedStateHandle:
        return replace(
            handle, files=[replace(file, path=moved[file.path]) for file in handle.files]
        )

    def slot(snapshot: SlotSnapshot) -> SlotSnapshot:
        return replace(snapshot, keyed=[keyed(handle) for handle in snapshot.keyed])

    return replace(metadata, slots=[slot(snapshot) for snapshot in metadata.slots])


def _copy(file: FileHandle, path: str, target: SavepointTarget, scratch: Path) -> None:
    root, _, name = file.path.rpartition("/")
    source = open_store(root, dict(target.storage))
    digest = copy_object(source, name, target.open(), path, lambda: scratch)
    if digest is not None and (digest.size_bytes, digest.checksum) != (
        file.size_bytes,
        file.checksum,
    ):
        msg = f"a file of the savepoint is not what was stored; object={file.path}"
        raise CorruptStateError(msg)
