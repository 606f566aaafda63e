"""What checkpoint storage must give: six operations with stated guarantees.

Required of an implementation:
- read-after-write: an object is visible to every reader once `put`/`create` has returned;
- listings are complete: an object whose write returned before `list` began is listed;
- `create` is linearizable: of concurrent creates of one path exactly one returns.
S3 (since 2020, conditional writes since 2024), MinIO and POSIX file systems give these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object; ``path`` is relative to the store's root."""

    path: str
    size_bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """Objects below one root URI; thread-safe. Paths are relative, ``/``-separated, no ``..``.

    Every method raises `StorageUnavailableError` (may pass: the caller may retry),
    `StorageAccessError` (will not pass: credentials, bucket, permission) and, where an object must
    exist, `ObjectMissingError`.
    """

    root_uri: str

    def put(self, path: str, data: bytes) -> None:
        """Write an object atomically, replacing what is there."""
        ...

    def put_file(self, path: str, source: Path) -> None:
        """Write an object from a local file atomically; streams, so memory stays bounded."""
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

    def get_file(self, path: str, target: Path) -> None:
        """Read an object into a new local file; leaves no partial file behind.

        Raises:
            ObjectMissingError: there is none.
        """
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose path starts with ``prefix``, in path order."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; a missing one is no error."""
        ...
