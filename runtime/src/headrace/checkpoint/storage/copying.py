"""Copying an object from one store to another by the shortest way that there is.

Inside the storage where both are in the same one (S3), from file to store, or through a local file.
Whenever bytes pass through our hands they are hashed, so that rot in the source is found now and
not on the day when the copy is needed.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from headrace.checkpoint.storage.file import FileStore
from headrace.errors import ObjectMissingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.checkpoint.storage.store import ContentDigest, ObjectStore


def copy_object(
    source: ObjectStore,
    source_path: str,
    target: ObjectStore,
    path: str,
    scratch: Callable[[], Path],
) -> ContentDigest | None:
    """Copy ``source_path`` of ``source`` to ``path`` of ``target``.

    Args:
        source: store that holds the object.
        source_path: what to copy.
        target: store that gets the copy.
        path: its path there; must be new.
        scratch: returns a local directory that has room for the object; asked only when one is
            needed.

    Returns:
        the digest of what was read, None when the storage copied by itself.

    Raises:
        ObjectMissingError: there is no such object in ``source``.
        StorageUnavailableError, StorageAccessError: either storage or the local disk failed.
    """
    if target.copy_from(source, source_path, path):
        return None
    if isinstance(source, FileStore):
        file = source.local_path(source_path)
        if not file.is_file():
            msg = f"object does not exist; uri={source.root_uri}/{source_path}"
            raise ObjectMissingError(msg)
        return target.put_file(path, file)
    local = scratch() / uuid.uuid4().hex
    try:
        digest = source.get_file(source_path, local)
        target.put_file(path, local)
    finally:
        local.unlink(missing_ok=True)
    return digest
