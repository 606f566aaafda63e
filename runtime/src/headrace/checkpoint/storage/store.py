"""What checkpoint storage must give: eight operations with stated guarantees.

Required of an implementation:
- read-after-write: an object is visible to every reader once `put`/`create` has returned;
- listings are complete: an object whose write returned before `list` began is listed;
- `create` is linearizable: of concurrent creates of one path exactly one returns;
- a reader sees a whole object or none, also after a crash of the writer.
S3 (since 2020, conditional writes since 2024), MinIO and POSIX file systems give these. `check`
asks a store at start-up for as much of it as can be seen from one client.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from headrace.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_PATH: Final = re.compile(r"(?!\.{1,2}/)[\w.=-][\w.=@ -]*(/(?!\.{1,2}(/|$))[\w.=-][\w.=@ -]*)*")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object; ``path`` is relative to the store's root."""

    path: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class ContentDigest:
    """Length and XXH3-128 (32 lower-case hexadecimal digits) of bytes that were moved."""

    size_bytes: int
    checksum: str


class ObjectStore(Protocol):
    """Objects below one root URI; thread-safe. Paths are relative, ``/``-separated, no ``..``.

    Every method raises `StorageUnavailableError` (may pass: the caller may retry; a write may or
    may not have happened), `StorageAccessError` (will not pass: credentials, bucket, permission)
    and, where an object must exist, `ObjectMissingError`.
    """

    root_uri: str

    def put(self, path: str, data: bytes) -> None:
        """Write an object atomically, replacing what is there."""
        ...

    def put_file(self, path: str, source: Path) -> ContentDigest:
        """Write an object from a local file atomically; streams, so memory stays bounded.

        Returns the digest of the bytes that were sent, computed on the way.
        """
        ...

    def create(self, path: str, data: bytes) -> None:
        """Write an object if and only if there is none.

        A reply that was lost is resolved by reading back: if the object holds exactly ``data``
        the create counts as ours, so ``data`` must be unique to the caller.

        Raises:
            ObjectExistsError: another writer's object is there.
        """
        ...

    def get(self, path: str) -> bytes:
        """Read an object.

        Raises:
            ObjectMissingError: there is none.
        """
        ...

    def get_file(self, path: str, target: Path) -> ContentDigest:
        """Read an object into a new local file; leaves no partial file behind.

        Returns the digest of the bytes that came, computed on the way.

        Raises:
            ObjectMissingError: there is none.
        """
        ...

    def copy_from(self, source: ObjectStore, source_path: str, path: str) -> bool:
        """Copy another store's object inside the storage, without its bytes coming here.

        Returns False, having done nothing, when the two have no such way; `copy_object` then
        takes another one.

        Raises:
            ObjectMissingError: there is no such object in ``source``.
        """
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with ``prefix``, in path order."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; a missing one is no error. On return the deletions are durable."""
        ...

    def check(self) -> None:
        """Write, read, list and delete a probe object, within seconds (used at start-up).

        Raises:
            StorageAccessError: storage refuses what is configured, or lacks a guarantee.
            StorageUnavailableError: storage does not answer.
        """
        ...


def checked_path(path: str) -> str:
    """Return ``path`` if it may be an object's: relative, clean, of harmless characters.

    Raises:
        InternalError: it may not.
    """
    if not _PATH.fullmatch(path):
        msg = f"not an object path; path={path!r}"
        raise InternalError(msg)
    return path
