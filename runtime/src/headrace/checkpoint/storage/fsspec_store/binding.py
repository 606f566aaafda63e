"""What `FsspecStore` asks of a scheme: a file system of few methods, and a judge of its errors.

The methods are fsspec's own; what each one must do here is more than fsspec promises, and file
systems differ in it, so a scheme is supported when somebody has read its sources and the contract
suite runs on it, not when fsspec knows its name.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client tries.

    Attributes:
        attempts: requests for one call, the first included.
        connect_timeout_s: of one connection.
        read_timeout_s: without a byte from the service.
    """

    attempts: int
    connect_timeout_s: float
    read_timeout_s: float


NORMAL: Final = Patience(attempts=5, connect_timeout_s=5, read_timeout_s=30)
"""Gives up on storage that is away after about half a minute; far below a checkpoint timeout."""

PROBING: Final = Patience(attempts=2, connect_timeout_s=3, read_timeout_s=5)
"""For the start-up check: an answer within about ten seconds, whatever it is."""


class FileSystem(Protocol):
    """What is used of fsspec's `AbstractFileSystem`; thread-safe, caches nothing."""

    def pipe_file(self, path: str, value: bytes, *, mode: str) -> object:
        """Write an object atomically; ``create`` raises if there is one, ``overwrite`` replaces."""
        ...

    def put_file(self, lpath: str, rpath: str) -> object:
        """Write an object from a local file atomically, in bounded memory."""
        ...

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """Read an object, or its bytes from ``start`` to before ``end``."""
        ...

    def info(self, path: str) -> Mapping[str, object]:
        """Return ``type`` (``file`` or ``directory``) and ``size`` of what has this name."""
        ...

    def find(self, path: str, *, detail: bool, prefix: str) -> Mapping[str, Mapping[str, object]]:
        """Return what lies below a directory under names that begin with ``prefix``, by name."""
        ...

    def rm_file(self, path: str) -> object:
        """Delete one object; a missing one may raise."""
        ...


class Failure(enum.Enum):
    """What an error of a client means."""

    MISSING = "missing"
    EXISTS = "exists"
    REFUSED = "refused"
    """It will not pass: what the advice names must be fixed."""
    UNAVAILABLE = "unavailable"
    """It may pass."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an error means, and for REFUSED what to check."""

    failure: Failure
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Binding:
    """One place in one scheme.

    Attributes:
        root_uri: of the place, as the user writes it, without credentials.
        root: of the place, as the file system takes it; without slashes at its ends.
        connect: returns a file system; it opens no connection yet.
        judge: says what an error means, by its type and attributes; None for what the client does
            not raise itself, which is then judged as Python's own errors are.
        errors: types of the errors that the client raises, besides Python's `OSError`.
        modified: where the time of the last change stands in a listing; a datetime, or seconds.
    """

    root_uri: str
    root: str
    connect: Callable[[Patience], FileSystem]
    judge: Callable[[Exception], Verdict | None]
    errors: tuple[type[Exception], ...]
    modified: str
