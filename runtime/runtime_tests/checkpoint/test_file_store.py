"""What is particular to checkpoints in a directory."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from headrace.checkpoint.storage.file import TEMPORARY_AGE_S_MAX, FileStore, mapped_os_errors
from headrace.errors import (
    HeadraceError,
    ObjectExistsError,
    ObjectMissingError,
    StorageAccessError,
    StorageUnavailableError,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints" / "job"


@pytest.fixture
def store(root: Path) -> FileStore:
    return FileStore(root)


def test_the_root_is_made_on_first_use_and_not_before(store: FileStore, root: Path) -> None:
    assert list(store.list()) == []
    assert not root.exists()
    store.put("chk-1/_metadata", b"x")
    assert (root / "chk-1" / "_metadata").read_bytes() == b"x"


def test_directories_that_become_empty_are_removed_up_to_the_root(
    store: FileStore, root: Path
) -> None:
    store.put("generations/0000000001/claim", b"x")
    store.put("chk-1/a", b"x")
    store.put("chk-1/b", b"x")
    store.delete(["generations/0000000001/claim", "chk-1/a"])
    assert sorted(p.name for p in root.iterdir()) == [".tmp", "chk-1"]
    store.delete(["chk-1/b"])
    assert [p.name for p in root.iterdir()] == [".tmp"]


def test_no_temporary_file_stays_behind(store: FileStore, root: Path, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"x")
    store.put("a/put", b"x")
    store.create("a/create", b"x")
    store.put_file("a/file", tmp_path / "source")
    with pytest.raises(ObjectExistsError):
        store.create("a/create", b"y")
    assert list((root / ".tmp").iterdir()) == []


def test_a_reader_never_sees_a_partial_object(store: FileStore) -> None:
    contents = [bytes([i]) * 200_000 for i in range(2)]
    store.put("a/b", contents[0])
    stop = threading.Event()
    seen: list[bytes] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(store.get("a/b"))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(100):
        store.put("a/b", contents[i % 2])
    stop.set()
    reader.join()
    assert set(seen) <= set(contents)


def test_writers_and_deleters_of_one_directory_do_not_break_each_other(store: FileStore) -> None:
    """A deleter may remove the directory that a writer has just made."""
    failures: list[HeadraceError] = []

    def work(thread: int) -> None:
        try:
            for i in range(100):
                store.put(f"chk-1/{thread}-{i}", b"x")
                store.delete([f"chk-1/{thread}-{i}"])
        except HeadraceError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(store.list()) == []


def test_temporary_files_of_dead_writers_are_removed_at_start_up(
    store: FileStore, root: Path
) -> None:
    store.put("a", b"x")
    old, young = root / ".tmp" / "old", root / ".tmp" / "young"
    old.write_bytes(b"torn")
    young.write_bytes(b"being written")
    age_s = old.stat().st_mtime - TEMPORARY_AGE_S_MAX - 60
    os.utime(old, (age_s, age_s))
    store.check()
    assert [p.name for p in (root / ".tmp").iterdir()] == ["young"]


def test_a_root_below_a_file_is_an_access_error_that_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    store = FileStore(tmp_path / "file" / "job")
    with pytest.raises(StorageAccessError, match=r"state\.checkpoints\.dir .*ENOTDIR"):
        store.check()


def test_a_directory_that_cannot_be_made_is_an_access_error_that_names_the_setting() -> None:
    """/proc takes no directories from anybody, root included."""
    with pytest.raises(StorageAccessError, match=r"state\.checkpoints\.dir"):
        FileStore(Path("/proc/headrace-checkpoints")).put("a", b"")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError(2, "x"), ObjectMissingError),
        (PermissionError(13, "x"), StorageAccessError),
        (OSError(30, "read-only file system"), StorageAccessError),
        (NotADirectoryError(20, "x"), StorageAccessError),
        (OSError(18, "cross-device link"), StorageAccessError),
        (OSError(28, "no space left"), StorageUnavailableError),
        (OSError(122, "quota exceeded"), StorageUnavailableError),
        (OSError(5, "input/output error"), StorageUnavailableError),
        (OSError(116, "stale NFS handle"), StorageUnavailableError),
        (OSError(24, "too many open files"), StorageUnavailableError),
        (OSError("without a number"), StorageUnavailableError),
    ],
)
def test_operating_system_errors_say_what_to_do(error: OSError, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="file:///x"), mapped_os_errors("file:///x", reads=True):
        raise error
