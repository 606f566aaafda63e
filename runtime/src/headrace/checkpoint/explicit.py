"""Reading a checkpoint or savepoint by explicit URI, of this job or another (D18, E8).

The one thing that differs is what paths are relative to: those of a checkpoint to the directory
above its own, because it shares files with its neighbours; those of a savepoint to its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.checkpoint.inventory import check_files, read_metadata
from headrace.checkpoint.protocol.paths import METADATA_NAME
from headrace.checkpoint.protocol.savepoints import CHECKPOINT, SAVEPOINT
from headrace.checkpoint.protocol.types import (
    CheckpointMetadata,
    FileHandle,
    SlotSnapshot,
)
from headrace.errors import CorruptStateError, NoRestorableStateError, ObjectMissingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.checkpoint.storage import ObjectStore


def read_checkpoint_at(uri: str, open_root: Callable[[str], ObjectStore]) -> CheckpointMetadata:
    """Read the checkpoint or savepoint at ``uri`` and make its file handles absolute.

    Args:
        uri: of its directory, or of the ``_metadata`` in it.
        open_root: opens a store over a directory.

    Raises:
        NoRestorableStateError: there is no complete checkpoint at ``uri``.
        CorruptStateError: metadata or files do not hold.
        InvalidConfigError: the URI cannot be opened.
    """
    directory = uri.rstrip("/").removesuffix(f"/{METADATA_NAME}")
    store = open_root(directory)
    try:
        metadata = read_metadata(store, METADATA_NAME)
    except ObjectMissingError as error:
        msg = f"no complete checkpoint there, correct the path to restore from; path={uri}"
        raise NoRestorableStateError(msg) from error
    root = root_of_files(metadata, directory)
    check_files(store if root == directory else open_root(root), metadata, name=directory)
    return _absolute(metadata, root)


def root_of_files(metadata: CheckpointMetadata, directory: str) -> str:
    """Return the URI of the directory that the file paths of ``metadata`` are relative to.

    Raises:
        CorruptStateError: the metadata is of a kind that this release does not know.
    """
    if metadata.kind == SAVEPOINT:
        return directory
    if metadata.kind == CHECKPOINT:
        return directory.rpartition("/")[0]
    msg = (
        "metadata is neither of a checkpoint nor of a savepoint, use the release that wrote it; "
        f"path={directory} kind={metadata.kind!r}"
    )
    raise CorruptStateError(msg)


def _absolute(metadata: CheckpointMetadata, root: str) -> CheckpointMetadata:
    def files(handles: list[FileHandle]) -> list[FileHandle]:
        return [msgspec.structs.replace(file, path=f"{root}/{file.path}") for file in handles]

    def slot(snapshot: SlotSnapshot) -> SlotSnapshot:
        return msgspec.structs.replace(
            snapshot,
            keyed=[msgspec.structs.replace(k, files=files(k.files)) for k in snapshot.keyed],
            committables=[
                msgspec.structs.replace(c, files=files(c.files)) for c in snapshot.committables
            ],
        )

    return msgspec.structs.replace(metadata, slots=[slot(s) for s in metadata.slots])
