"""Local files at the near end of a transfer, the same for every store.

Failures here are StorageUnavailableError: a full local disk fails the checkpoint or the restore
attempt, like storage that does not answer.
"""

from __future__ import annotations

import contextlib
from typing import IO, TYPE_CHECKING

from headrace.errors import StorageUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from headrace.checkpoint.storage.store import ContentDigest


def write_new_file(target: Path, write: Callable[[IO[bytes]], ContentDigest]) -> ContentDigest:
    """Create a local file and fill it; remove it again if that fails.

    Raises:
        StorageUnavailableError: the local disk refused (also when the file exists).
    """
    try:
        file = target.open("xb")
        try:
            with file:
                return write(file)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    except OSError as error:
        msg = f"copy to a local file failed, check the local volume; file={target} error={error}"
        raise StorageUnavailableError(msg) from error


@contextlib.contextmanager
def opened_source(source: Path) -> Iterator[IO[bytes]]:
    """Open a local file that is to be stored.

    Raises:
        StorageUnavailableError: it cannot be opened.
    """
    try:
        file = source.open("rb", 0)
    except OSError as error:
        msg = f"local file cannot be read, check the local volume; file={source} error={error}"
        raise StorageUnavailableError(msg) from error
    with file:
        yield file
