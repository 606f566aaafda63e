"""Objects as files below a directory: ``file://``, for local disks and shared mounts (D19, L4).

How the guarantees of `ObjectStore` are kept:
- whole or none: bytes go to ``<root>/.tmp/<uuid>``, are fsynced, then renamed into place, and the
  directory is fsynced, so a power cut leaves the old object or the new one;
- `create`: hard link instead of rename. ``link`` fails if the name exists, atomically, on NFS too,
  where ``O_EXCL`` plus a later write would show a partial file;
- `delete` fsyncs as well, so deletions become durable in the order of the calls. Directories that
  become empty are removed; a writer that loses its directory that way makes it again.

On NFS mount with ``lookupcache=positive`` (or ``noac``): with the default attribute cache a listing
may miss what another host has just written, and fencing relies on complete listings.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeVar

from headrace.checkpoint.storage.digest import copy_with_digest
from headrace.checkpoint.storage.guarantees import check_guarantees
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
    from collections.abc import Callable, Iterable, Iterator

TEMPORARY_DIR: Final = ".tmp"
"""Where files are written before they get their name; never listed."""

TEMPORARY_AGE_S_MAX: Final = 24 * 3600
"""A temporary file older than this belongs to a writer that died."""

_T = TypeVar("_T")

_ACCESS_ERRNOS: Final = frozenset(
    {
        errno.EACCES,
        errno.ENOENT,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.EMLINK,
        errno.EXDEV,
        errno.ENOTSUP,
        errno.EINVAL,
    }
)

_PARENT_ATTEMPTS: Final = 16
"""How often a writer makes its directory again after a deleter has removed it."""


@contextlib.contextmanager
def mapped_os_errors(uri: str, *, reads: bool = False) -> Iterator[None]:
    """Turn OSError into the storage errors.

    Args:
        uri: what is accessed.
        reads: an object is read, so that a missing file means a missing object; while writing it
            means a directory that cannot be made.
    """
    try:
        yield
    except OSError as error:
        if reads and isinstance(error, FileNotFoundError):
            msg = f"object does not exist; uri={uri}"
            raise ObjectMissingError(msg) from error
        reason = f"uri={uri} errno={errno.errorcode.get(error.errno or 0, 'unknown')}"
        if error.errno in _ACCESS_ERRNOS:
            msg = f"directory refuses access, check state.checkpoints.dir and its mount; {reason}"
            raise StorageAccessError(msg) from error
        msg = f"file system failed; {reason}"
        raise StorageUnavailableError(msg) from error


class FileStore:
    """An `ObjectStore` over a directory, which is made on first use."""

    def __init__(self, root: Path) -> None:
        """Create a store.

        Args:
            root: absolute directory, on one file system.
        """
        self._root = root
        self.root_uri = root.as_uri()

    def put(self, path: str, data: bytes) -> None:
        """Write an object atomically, replacing what is there."""
        with mapped_os_errors(self._uri(path)), self._temporary() as temporary:
            _write_synced(temporary, lambda file: _write_all(file, data))
            self._place(temporary, path, os.replace)

    def put_file(self, path: str, source: Path) -> ContentDigest:
        """Copy a local file into an object."""
        with (
            mapped_os_errors(self._uri(path)),
            opened_source(source) as file,
            self._temporary() as temporary,
        ):
            digest = _write_synced(temporary, lambda target: copy_with_digest(file, target))
            self._place(temporary, path, os.replace)
        return digest

    def create(self, path: str, data: bytes) -> None:
        """Write an object if and only if there is none."""
        with mapped_os_errors(self._uri(path)), self._temporary() as temporary:
            _write_synced(temporary, lambda file: _write_all(file, data))
            try:
                self._place(temporary, path, os.link)
            except FileExistsError as error:
                # An NFS client that repeats a request meets its own link: the content tells.
                if self._target(path).read_bytes() != data:
                    msg = f"object exists already; uri={self._uri(path)}"
                    raise ObjectExistsError(msg) from error

    def get(self, path: str) -> bytes:
        """Read an object."""
        with mapped_os_errors(self._uri(path), reads=True):
            return self._target(path).read_bytes()

    def get_file(self, path: str, target: Path) -> ContentDigest:
        """Copy an object into a new local file."""
        with (
            mapped_os_errors(self._uri(path), reads=True),
            self._target(path).open("rb", 0) as source,
        ):
            return write_new_file(target, lambda file: copy_with_digest(source, file))

    def copy_from(self, source: ObjectStore, source_path: str, path: str) -> bool:
        """Return False: `copy_object` reads the source file and checks what it reads."""
        del source, source_path, path
        return False

    def local_path(self, path: str) -> Path:
        """Return where an object lies, for readers that check what they read."""
        return self._target(path)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in path order."""
        with mapped_os_errors(f"{self.root_uri}/{prefix}"):
            folder = prefix.rpartition("/")[0]
            start = self._root / folder if folder else self._root
            found = list(self._walk(start, f"{folder}/" if folder else "", prefix))
        yield from found

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects and the directories that become empty, durably."""
        touched: set[Path] = set()
        for path in paths:
            with mapped_os_errors(self._uri(path)), contextlib.suppress(FileNotFoundError):
                target = self._target(path)
                target.unlink()
                touched.add(target.parent)
        with mapped_os_errors(self.root_uri):
            for directory in touched:
                _sync_directory(self._remove_empty(directory))

    def check(self) -> None:
        """Check the guarantees, and remove what writers that died have left in ``.tmp``."""
        check_guarantees(self)
        with mapped_os_errors(self.root_uri), self._temporary() as now:
            now.touch()
            # File times are compared with the file system's own clock, which may not be ours.
            oldest_s = now.stat().st_mtime - TEMPORARY_AGE_S_MAX
            for temporary in now.parent.iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if temporary.stat().st_mtime < oldest_s:
                        temporary.unlink()

    def _uri(self, path: str) -> str:
        return f"{self.root_uri}/{path}"

    def _target(self, path: str) -> Path:
        return self._root / checked_path(path)

    @contextlib.contextmanager
    def _temporary(self) -> Iterator[Path]:
        directory = self._root / TEMPORARY_DIR
        directory.mkdir(parents=True, exist_ok=True)
        temporary = directory / uuid.uuid4().hex
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _place(self, temporary: Path, path: str, place: Callable[[Path, Path], None]) -> None:
        target = self._target(path)
        for attempt in range(_PARENT_ATTEMPTS):
            try:
                _make_parents(target.parent)
                place(temporary, target)
            except FileNotFoundError:
                if attempt == _PARENT_ATTEMPTS - 1:
                    raise
            else:
                break
        _sync_directory(target.parent)

    def _remove_empty(self, directory: Path) -> Path:
        """Remove ``directory`` and parents that are empty; return the first that stays."""
        while directory != self._root:
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise
                return directory
            directory = directory.parent
        return directory

    def _walk(self, directory: Path, relative: str, prefix: str) -> Iterator[ObjectInfo]:
        try:
            entries = list(os.scandir(directory))
        except FileNotFoundError:
            return
        for entry in sorted(entries, key=_path_order):
            path = relative + entry.name
            if entry.is_dir(follow_symlinks=False):
                if path != TEMPORARY_DIR and (path.startswith(prefix) or prefix.startswith(path)):
                    yield from self._walk(Path(entry.path), f"{path}/", prefix)
            elif path.startswith(prefix):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    yield ObjectInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)


def _path_order(entry: os.DirEntry[str]) -> str:
    return f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name


def _write_all(file: IO[bytes], data: bytes) -> None:
    file.write(data)


def _write_synced(target: Path, write: Callable[[IO[bytes]], _T]) -> _T:
    with target.open("xb") as file:
        result = write(file)
        file.flush()
        os.fsync(file.fileno())
    return result


def _make_parents(directory: Path) -> None:
    missing = []
    while not directory.is_dir():
        missing.append(directory)
        directory = directory.parent
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        _sync_directory(new.parent)


def _sync_directory(directory: Path) -> None:
    """Make the entries of a directory durable; if it is gone, its removal."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return _sync_directory(directory.parent)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
