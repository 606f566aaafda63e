"""RocksDB's errors as ours.

rocksdict raises bare `Exception` whose text begins with RocksDB's status code ("Corruption: ...").
That code is the only classification there is, so this module, and nothing else, reads it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from headrace.errors import CorruptStateError, HeadraceError, InternalError, LocalStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOCAL: Final = ("IO error", "No space", "Resource busy", "Timed out", "Operation aborted")
"""Status codes that speak of this machine's disk, not of the data."""

_MISSING: Final = "No such file"


def translate(error: Exception, what: str, path: Path) -> HeadraceError:
    """Return our error for one that rocksdict raised.

    Args:
        error: what was raised.
        what: the fact to state, e.g. ``reading state failed``.
        path: the database.
    """
    text = str(error)
    message = f"{what}: {text}; database={path}"
    if text.startswith("Corruption"):
        return CorruptStateError(message)
    if text.startswith(_LOCAL):
        return LocalStorageError(message)
    return InternalError(message)


@contextlib.contextmanager
def translating(what: str, path: Path) -> Iterator[None]:
    """Turn errors of rocksdict inside the block into ours."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        raise translate(error, what, path) from error


@contextlib.contextmanager
def reading_stored_files(path: Path) -> Iterator[None]:
    """Turn errors of opening or reading restored files into ours.

    A file that is missing, cut or changed is the checkpoint's fault and no failover mends it; a
    disk that is full or fails is not.
    """
    try:
        yield
    except HeadraceError:
        raise
    except Exception as error:
        text = str(error)
        if text.startswith(_LOCAL) and _MISSING not in text:
            raise translate(error, "opening state failed", path) from error
        msg = f"stored state cannot be read, restore another checkpoint: {text}; files={path}"
        raise CorruptStateError(msg) from error
