"""From a client's errors to the storage errors, by type alone; no client's error gets further."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.storage.fsspec_store.binding import Failure, Verdict
from headrace.errors import (
    HeadraceError,
    ObjectExistsError,
    ObjectMissingError,
    StorageAccessError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.checkpoint.storage.fsspec_store.binding import Binding

_COMMON: Final[tuple[tuple[tuple[type[Exception], ...], Verdict], ...]] = (
    ((FileNotFoundError,), Verdict(Failure.MISSING)),
    ((FileExistsError,), Verdict(Failure.EXISTS)),
    (
        (PermissionError,),
        Verdict(Failure.REFUSED, "the credentials and permissions of this identity"),
    ),
    (
        (IsADirectoryError, NotADirectoryError),
        Verdict(Failure.REFUSED, "state.checkpoints.dir, a directory and an object share a name"),
    ),
)
"""Python's own errors, as fsspec's file systems use them; any other OSError may pass."""


@contextlib.contextmanager
def mapped_errors(binding: Binding, uri: str) -> Iterator[None]:
    """Turn the errors of a scheme's client into the storage errors; ``uri`` was accessed."""
    # TimeoutError, asyncio's and fsspec's too, is an OSError. RuntimeError is what asyncio and its
    # threads raise when the process is ending; its kinds below are errors of a program.
    client_errors: tuple[type[Exception], ...] = (OSError, RuntimeError, *binding.errors)
    try:
        yield
    except (NotImplementedError, RecursionError):
        raise
    except client_errors as error:
        raise storage_error(binding.judge(error) or _common(error), error, uri) from error


def storage_error(verdict: Verdict, error: Exception, uri: str) -> HeadraceError:
    """Return the error for a verdict."""
    where = f"uri={uri} cause={type(error).__name__}"
    if verdict.failure is Failure.MISSING:
        return ObjectMissingError(f"object does not exist; {where}")
    if verdict.failure is Failure.EXISTS:
        return ObjectExistsError(f"object exists already; {where}")
    if verdict.failure is Failure.REFUSED:
        return StorageAccessError(f"storage refuses access, check {verdict.advice}; {where}")
    if isinstance(error, RuntimeError):
        return StorageUnavailableError(f"storage client ends with its process; {where}")
    return StorageUnavailableError(
        f"storage did not serve the request, check its endpoint if this lasts; {where}"
    )


def _common(error: Exception) -> Verdict:
    for types, verdict in _COMMON:
        if isinstance(error, types):
            return verdict
    return Verdict(Failure.UNAVAILABLE)
