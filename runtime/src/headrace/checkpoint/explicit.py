"""Reading a checkpoint or savepoint by explicit URI, of this job or another (D18, E8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.checkpoint.inventory import check_files
from headrace.checkpoint.protocol.paths import METADATA_NAME
from headrace.checkpoint.protocol.types import (
    CheckpointMetadata,
    FileHandle,
    SlotSnapshot,
    decode_metadata,
)
from headrace.errors import NoRestorableStateError, ObjectMissingError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.checkpoint.storage import ObjectStore


def read_checkpoint_at(uri: str, open_root: Callable[[str], ObjectStore]) -> CheckpointMetadata:
    """Read ``<root>/<directory>`` (or its ``_metadata``) and make its file handles absolute.

    Args:
        uri: of the checkpoint's directory.
        open_root: opens a store over ``<root>``.

    Raises:
        NoRestorableStateError: there is no complete checkpoint at ``uri``.
        CorruptStateError: metadata or files do not hold.
        InvalidConfigError: the URI cannot be opened.
    """
    root, _, directory = uri.rstrip("/").removesuffix(f"/{METADATA_NAME}").rpartition("/")
    store = open_root(root)
    try:
        data = store.get(f"{directory}/{METADATA_NAME}")
    except ObjectMissingError as error:
        msg = f"no complete checkpoint there, correct the path to restore from; path={uri}"
        raise NoRestorableStateError(msg) from error
    metadata = decode_metadata(data, path=uri)
    check_files(store, metadata)
    return _absolute(metadata, root)


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
