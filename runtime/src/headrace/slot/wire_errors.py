"""Typed errors over process borders: `ErrorInfo` <-> `HeadraceError`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace import errors
from headrace.errors import HeadraceError, UserCodeError
from headrace.slot.messages import ErrorInfo
from headrace.slot.user_code import user_traceback

if TYPE_CHECKING:
    from collections.abc import Iterator


def to_error_info(error: BaseException) -> ErrorInfo:
    """Return how an exception crosses a border; an exception that is not ours is user code's."""
    if isinstance(error, UserCodeError):
        return ErrorInfo(error.kind, str(error), error.traceback_text, error.restartable)
    if isinstance(error, HeadraceError):
        return ErrorInfo(error.kind, str(error), user_traceback(error), error.restartable)
    return ErrorInfo(UserCodeError.kind, f"{type(error).__name__}: {error}", user_traceback(error))


def from_error_info(info: ErrorInfo) -> HeadraceError:
    """Return an exception of the class whose ``kind`` the info names."""
    cls = _CLASSES.get(info.kind, errors.InternalError)
    if cls is UserCodeError:
        return UserCodeError(info.message, traceback_text=info.traceback_text)
    error = cls(info.message)
    if info.traceback_text:
        error.add_note(info.traceback_text)
    return error


def _subclasses(cls: type[HeadraceError]) -> Iterator[type[HeadraceError]]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


# Finer classes inside a package share the kind of their parent, and cross a border as that parent.
_CLASSES: dict[str, type[HeadraceError]] = {
    cls.kind: cls for cls in _subclasses(HeadraceError) if "kind" in vars(cls)
}
