"""A file system of fsspec in memory that can be told to fail, and the binding to test with it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fsspec.implementations.memory import MemoryFileSystem

from headrace.checkpoint.storage.fsspec_store import Binding, FsspecStore, Patience
from headrace.checkpoint.storage.fsspec_store.binding import Verdict


class FakeFiles(MemoryFileSystem):
    """Objects of its own, one call at a time, so that ``create`` is atomic.

    Attributes:
        before, after: method -> error that its calls raise before or after taking effect.
        calls: what was called, with the arguments after the path.
        ignores_create: treat ``create`` as ``overwrite``, as some file systems do.
        cuts_reads_by: bytes that every read of a range leaves out.
    """

    cachable = False

    def __init__(self) -> None:
        super().__init__(use_listings_cache=False)
        self.store = {}
        self.pseudo_dirs = [""]
        self.before: dict[str, Exception] = {}
        self.after: dict[str, Exception] = {}
        self.calls: list[tuple[object, ...]] = []
        self.ignores_create = False
        self.cuts_reads_by = 0
        self._lock = threading.RLock()

    def pipe_file(self, path, value, mode="overwrite"):
        if self.ignores_create:
            mode = "overwrite"
        return self._do("pipe_file", super().pipe_file, path, value, mode=mode)

    def put_file(self, lpath, rpath):
        return self._do("put_file", super().put_file, lpath, rpath)

    def cat_file(self, path, start=None, end=None):
        data = self._do("cat_file", super().cat_file, path, start=start, end=end)
        return data[: len(data) - self.cuts_reads_by] if end is not None else data

    def info(self, path, **kwargs):
        return self._do("info", super().info, path)

    def find(self, path, *, detail, prefix):
        return self._do("find", super().find, path, detail=detail)

    def rm_file(self, path):
        return self._do("rm_file", super().rm_file, path)

    def _do(self, name, method, *args, **kwargs):
        with self._lock:
            self.calls.append((name, *args[1:], *kwargs.values()))
            if name in self.before:
                raise self.before[name]
            result = method(*args, **kwargs)
            if name in self.after:
                raise self.after[name]
            return result


def fake_store(
    files: FakeFiles, judge: Callable[[Exception], Verdict | None] = lambda error: None
) -> FsspecStore:
    """Return a store over ``files``; ``errors`` of the binding are those of a made-up client."""

    def connect(patience: Patience) -> FakeFiles:
        return files

    binding = Binding(
        root_uri="fake://container/job",
        root="container/job",
        connect=connect,
        judge=judge,
        errors=(ClientError,),
        modified="created",
    )
    return FsspecStore(binding)


class ClientError(Exception):
    """What a client library raises that has errors of its own."""
