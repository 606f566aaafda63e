"""An object store in memory that is stricter than S3 and fails on demand.

Stricter: bad paths are refused, and a file may not replace another (`put_file` names are unique in
Headrace, so a second write is a bug). Linearizable: one lock, one operation at a time.

Failures come from a `Faults` object. The same seed gives the same failures for the same calls.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import random  # noqa: TID251 - seeded by the caller
import threading
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, TypeVar

from headrace.checkpoint.storage.digest import digest_of
from headrace.checkpoint.storage.guarantees import check_guarantees
from headrace.checkpoint.storage.local_files import opened_source, write_new_file
from headrace.checkpoint.storage.store import (
    ContentDigest,
    ObjectInfo,
    ObjectStore,
    checked_path,
)
from headrace.errors import (
    InternalError,
    InvalidConfigError,
    ObjectExistsError,
    ObjectMissingError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


R = TypeVar("R")


class Operation(enum.Enum):
    """Operations of `ObjectStore`, as faults and traces name them."""

    PUT = "put"
    CREATE = "create"
    GET = "get"
    LIST = "list"
    DELETE = "delete"

    @property
    def changes(self) -> bool:
        """Whether the operation changes the store, so that its reply can be lost."""
        return self in {Operation.PUT, Operation.CREATE, Operation.DELETE}


class Fault(enum.Enum):
    """What goes wrong with one operation."""

    NONE = "none"
    REFUSED = "refused"
    """It fails and has no effect."""
    REPLY_LOST = "reply-lost"
    """It takes effect and fails all the same."""
    TRUNCATED = "truncated"
    """A read returns the beginning alone, and says nothing."""
    DELAYED = "delayed"
    """It fails now and takes effect at any later time: a request that outlived its timeout."""


class Faults:
    """No faults; base class. ``choose`` is called once for each operation, before it."""

    def choose(self, operation: Operation, path: str) -> Fault:
        """Return what shall go wrong with this operation."""
        del operation, path
        return Fault.NONE

    def delay(self, effect: Callable[[], None]) -> None:
        """Take the effect of a delayed operation; to drop it means that it never happens."""
        del effect


@dataclass
class RandomFaults(Faults):
    """Independent faults with fixed rates.

    Attributes:
        seed: of all randomness.
        refused_rate: share of operations that fail without effect, 0..1.
        reply_lost_rate: share of changing operations whose reply is lost, 0..1.
        truncated_rate: share of reads that are cut off, 0..1.
        latency: called before every operation, may wait.
    """

    seed: int
    refused_rate: float = 0.0
    reply_lost_rate: float = 0.0
    truncated_rate: float = 0.0
    latency: Callable[[Operation, str], None] | None = None

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - not cryptography

    def choose(self, operation: Operation, path: str) -> Fault:
        """Return the next fault of the seeded sequence."""
        if self.latency is not None:
            self.latency(operation, path)
        draw = self._random.random()
        if draw < self.refused_rate:
            return Fault.REFUSED
        if operation.changes and draw < self.refused_rate + self.reply_lost_rate:
            return Fault.REPLY_LOST
        if operation is Operation.GET and draw < self.refused_rate + self.truncated_rate:
            return Fault.TRUNCATED
        return Fault.NONE


class Outage(Faults):
    """Storage that can be switched off and on."""

    def __init__(self) -> None:
        self.active = False

    def choose(self, operation: Operation, path: str) -> Fault:
        """Refuse everything while active."""
        del operation, path
        return Fault.REFUSED if self.active else Fault.NONE


@dataclass
class MemoryBucket:
    """Content and time of every object by path, and the lock that orders all operations."""

    objects: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)
    uri: str = "memory://test"

    def open(self, uri: str, faults: Faults | None = None) -> MemoryStore:
        """Return a client whose root is the directory at ``uri``, as `open_store` would."""
        if uri != self.uri and not uri.startswith(f"{self.uri}/"):
            msg = f"not in this bucket; uri={uri} bucket={self.uri}"
            raise InvalidConfigError(msg)
        return MemoryStore(root_uri=uri.rstrip("/"), bucket=self, faults=faults)


class MemoryStore:
    """`ObjectStore` in memory; several may share a bucket and so be clients of one storage."""

    def __init__(
        self,
        *,
        root_uri: str | None = None,
        bucket: MemoryBucket | None = None,
        faults: Faults | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """Create a client.

        Args:
            root_uri: a directory of the bucket; its top when not given.
            bucket: the storage; a fresh one when not given.
            faults: what goes wrong; replaceable at any time through the attribute.
            now_ms: clock of the storage.
        """
        self.bucket = bucket or MemoryBucket(uri=root_uri or "memory://test")
        self.root_uri = root_uri or self.bucket.uri
        self._prefix = f"{self.root_uri.removeprefix(self.bucket.uri).strip('/')}/".lstrip("/")
        self.faults = faults or Faults()
        self.calls: dict[Operation, int] = dict.fromkeys(Operation, 0)
        self._now_ms = now_ms

    def put(self, path: str, data: bytes) -> None:
        """Write an object, replacing what is there."""
        self._perform(Operation.PUT, path, lambda: self._write(path, data))

    def put_file(self, path: str, source: Path) -> ContentDigest:
        """Write an object from a local file; the path must be new."""
        with opened_source(source) as file:
            data = file.read()

        def write_new() -> None:
            if self._prefix + path in self.bucket.objects:
                msg = f"a file would replace another; path={path}"
                raise InternalError(msg)
            self._write(path, data)

        self._perform(Operation.PUT, path, write_new)
        return digest_of(data)

    def create(self, path: str, data: bytes) -> None:
        """Write an object if and only if there is none."""

        def write_if_absent() -> None:
            held = self.bucket.objects.get(self._prefix + path)
            if held is not None and held[0] != data:
                msg = f"object exists already; path={path}"
                raise ObjectExistsError(msg)
            self._write(path, data)

        self._perform(Operation.CREATE, path, write_if_absent)

    def get(self, path: str) -> bytes:
        """Read an object."""

        def read() -> bytes:
            held = self.bucket.objects.get(self._prefix + path)
            if held is None:
                msg = f"object does not exist; path={path}"
                raise ObjectMissingError(msg)
            return held[0]

        return self._perform(Operation.GET, path, read, _first_half)

    def get_file(self, path: str, target: Path) -> ContentDigest:
        """Read an object into a new local file."""
        data = self.get(path)
        return write_new_file(target, lambda file: _fill(file, data))

    def copy_from(self, source: ObjectStore, source_path: str, path: str) -> bool:
        """Copy from another store in memory."""
        if not isinstance(source, MemoryStore):
            return False
        self.put(path, source.get(source_path))
        return True

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in path order, as they were at the time of the call."""

        def read() -> Iterator[ObjectInfo]:
            return iter(
                [
                    ObjectInfo(path.removeprefix(self._prefix), len(data), modified_ms)
                    for path, (data, modified_ms) in sorted(self.bucket.objects.items())
                    if path.startswith(self._prefix + prefix)
                ]
            )

        return self._perform(Operation.LIST, prefix or ".", read)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, each one an operation of its own."""
        for path in paths:
            self._perform(Operation.DELETE, path, functools.partial(self._remove, path))

    def check(self) -> None:
        """Check the guarantees."""
        check_guarantees(self)

    def _write(self, path: str, data: bytes) -> None:
        self.bucket.objects[self._prefix + path] = (data, self._now_ms())

    def _remove(self, path: str) -> None:
        self.bucket.objects.pop(self._prefix + path, None)

    def _perform(
        self,
        operation: Operation,
        path: str,
        effect: Callable[[], R],
        truncate: Callable[[R], R] | None = None,
    ) -> R:
        if operation is not Operation.LIST:
            checked_path(path)
        fault = self.faults.choose(operation, path)
        if fault in {Fault.NONE, Fault.REPLY_LOST, Fault.TRUNCATED}:
            with self.bucket.lock:
                self.calls[operation] += 1
                result = effect()
            if fault is Fault.NONE:
                return result
            if fault is Fault.TRUNCATED and truncate is not None:
                return truncate(result)
        elif fault is Fault.DELAYED:
            self.faults.delay(functools.partial(self._land, effect))
        msg = f"injected fault; operation={operation.value} fault={fault.value} path={path}"
        raise StorageUnavailableError(msg)

    def _land(self, effect: Callable[[], object]) -> None:
        with self.bucket.lock, contextlib.suppress(ObjectExistsError):
            effect()


def _first_half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _fill(file: IO[bytes], data: bytes) -> ContentDigest:
    file.write(data)
    return digest_of(data)
