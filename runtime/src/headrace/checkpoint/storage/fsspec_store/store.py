"""`ObjectStore` over a file system of fsspec.

fsspec promises little, so little is used, and each promise of `ObjectStore` has its own reason:
- whole or none, and `create`: one call writes one object (`pipe_file`, `put_file`). fsspec's open
  files are not used for writing: closing one, which the garbage collector does too, commits what it
  has, also after a failure;
- `create` whose reply was lost is read back. Whether ``mode="create"`` is honoured at all differs
  between file systems and some ignore it without a word; `check` finds out;
- files: sent by the client from their path, with a second look at size and time of the file, so
  that the digest is of what was sent; received in ranges, hashed on the way;
- `delete` takes one object at a time: fsspec's deletion of many stops at one that is missing.

A listing is held in memory, as by `FileStore`: 0.5 KB for each object.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import datetime as dt
import functools
import os
from typing import IO, TYPE_CHECKING, Final

from headrace.checkpoint.storage.digest import DigestBuilder, chunks_of
from headrace.checkpoint.storage.fsspec_store.binding import NORMAL, PROBING
from headrace.checkpoint.storage.fsspec_store.errors import mapped_errors
from headrace.checkpoint.storage.guarantees import PROBE_DIR, check_guarantees
from headrace.checkpoint.storage.local_files import opened_source, write_new_file
from headrace.checkpoint.storage.store import (
    ContentDigest,
    ObjectInfo,
    ObjectStore,
    checked_path,
)
from headrace.errors import (
    ObjectExistsError,
    ObjectMissingError,
    StorageAccessError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from headrace.checkpoint.storage.fsspec_store.binding import Binding, FileSystem, Patience

RANGE_BYTES: Final = 8 << 20
"""One request of a download; what a download holds in memory."""

_DELETERS: Final = 8
"""Deletions at once."""


class FsspecStore:
    """Objects below one root of a scheme; opens connections on first use."""

    def __init__(self, binding: Binding, *, patience: Patience = NORMAL) -> None:
        """Create a store.

        Args:
            binding: the place, and how its file system is made and understood.
            patience: timeouts and attempts of each call.
        """
        self.root_uri = binding.root_uri
        self._binding = binding
        self._patience = patience

    @functools.cached_property
    def _files(self) -> FileSystem:
        return self._binding.connect(self._patience)

    def put(self, path: str, data: bytes) -> None:
        """Write an object atomically, replacing what is there."""
        with self._mapped(path):
            self._files.pipe_file(self._key(path), data, mode="overwrite")

    def put_file(self, path: str, source: Path) -> ContentDigest:
        """Write an object from a local file; the client reads it in pieces."""
        with opened_source(source) as file:
            before = _state_of(file)
            digest = _digest_of(file)
            with self._mapped(path):
                self._files.put_file(str(source), self._key(path))
            if before != _state_of(file):
                msg = f"local file changed while it was sent; file={source} uri={self._uri(path)}"
                raise StorageUnavailableError(msg)
        return digest

    def create(self, path: str, data: bytes) -> None:
        """Write an object if and only if there is none; unclear answers are read back."""
        failure: ObjectExistsError | StorageUnavailableError
        try:
            with self._mapped(path):
                self._files.pipe_file(self._key(path), data, mode="create")
        except (ObjectExistsError, StorageUnavailableError) as error:
            failure = error
        else:
            return
        try:
            held = self.get(path)
        except ObjectMissingError:
            # Nobody's object is there: it was deleted meanwhile, or the write has not happened.
            msg = f"conditional write has no clear end; uri={self._uri(path)}"
            raise StorageUnavailableError(msg) from failure
        if held != data:
            msg = f"object exists already; uri={self._uri(path)}"
            raise ObjectExistsError(msg) from failure

    def get(self, path: str) -> bytes:
        """Read an object."""
        with self._mapped(path):
            return self._files.cat_file(self._key(path))

    def get_file(self, path: str, target: Path) -> ContentDigest:
        """Read an object into a new local file, range by range."""
        size_bytes = self._size_of(path)
        return write_new_file(target, lambda file: self._download(path, size_bytes, file))

    def copy_from(self, source: ObjectStore, source_path: str, path: str) -> bool:
        """Return False: copies inside a service are not part of what fsspec promises."""
        del source, source_path, path
        return False

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in path order."""
        folder, _, beginning = prefix.rpartition("/")
        directory = f"{self._binding.root}/{folder}".rstrip("/")
        with self._mapped(prefix):
            found = self._files.find(directory, detail=True, prefix=beginning)
        infos = [self._info(name, entry) for name, entry in found.items() if _is_file(entry)]
        if not infos:
            self._require_container()
        # File systems take a prefix more loosely, and order and directories as they like.
        yield from sorted(
            (info for info in infos if info.path.startswith(prefix)), key=lambda info: info.path
        )

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, some at once."""
        keys = [(path, self._key(path)) for path in paths]
        if len(keys) == 1:
            self._delete(*keys[0])
        elif keys:
            with (
                mapped_errors(self._binding, self.root_uri),
                concurrent.futures.ThreadPoolExecutor(min(_DELETERS, len(keys))) as pool,
            ):
                for deletion in [pool.submit(self._delete, *key) for key in keys]:
                    deletion.result()

    def check(self) -> None:
        """Check the guarantees with little patience, so that bad storage is named in seconds."""
        check_guarantees(FsspecStore(self._binding, patience=PROBING))

    def _delete(self, path: str, key: str) -> None:
        try:
            with self._mapped(path):
                self._files.rm_file(key)
        except ObjectMissingError:
            return

    def _size_of(self, path: str) -> int:
        with self._mapped(path):
            entry = self._files.info(self._key(path))
        if not _is_file(entry):
            msg = f"object does not exist, there is a directory; uri={self._uri(path)}"
            raise ObjectMissingError(msg)
        return _size_in(entry, self._uri(path))

    def _download(self, path: str, size_bytes: int, target: IO[bytes]) -> ContentDigest:
        builder = DigestBuilder()
        for start in range(0, size_bytes, RANGE_BYTES):
            end = min(start + RANGE_BYTES, size_bytes)
            with self._mapped(path):
                data = self._files.cat_file(self._key(path), start=start, end=end)
            if len(data) != end - start:
                msg = (
                    f"storage broke off its answer; uri={self._uri(path)} start={start} end={end} "
                    f"received={len(data)}"
                )
                raise StorageUnavailableError(msg)
            builder.update(data)
            target.write(data)
        return builder.digest()

    def _require_container(self) -> None:
        """Tell an empty place from one that is not there, which file systems list alike."""
        try:
            self.get(f"{PROBE_DIR}/none")
        except ObjectMissingError:
            return

    def _info(self, name: str, entry: Mapping[str, object]) -> ObjectInfo:
        path = name.removeprefix("/").removeprefix(f"{self._binding.root}/")
        changed = entry.get(self._binding.modified)
        if isinstance(changed, dt.datetime):
            changed = changed.timestamp()
        if not isinstance(changed, (int, float)):
            msg = f"storage lists an object without its time; uri={self._uri(path)}"
            raise StorageAccessError(msg)
        return ObjectInfo(path, _size_in(entry, self._uri(path)), int(changed * 1000))

    def _key(self, path: str) -> str:
        return f"{self._binding.root}/{checked_path(path)}"

    def _uri(self, path: str) -> str:
        return f"{self.root_uri}/{path}"

    def _mapped(self, path: str) -> contextlib.AbstractContextManager[None]:
        return mapped_errors(self._binding, self._uri(path))


def _is_file(entry: Mapping[str, object]) -> bool:
    return entry["type"] == "file"


def _size_in(entry: Mapping[str, object], uri: str) -> int:
    size = entry["size"]
    if not isinstance(size, int):
        msg = f"storage does not say how long an object is; uri={uri} size={size!r}"
        raise StorageAccessError(msg)
    return size


def _state_of(file: IO[bytes]) -> tuple[int, int, int]:
    status = os.fstat(file.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns


def _digest_of(file: IO[bytes]) -> ContentDigest:
    builder = DigestBuilder()
    for chunk in chunks_of(file):
        builder.update(chunk)
    return builder.digest()
