"""A store over a file system of fsspec that fails, lies or is slow: right, refused, or by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.exceptions import FSTimeoutError

from headrace.checkpoint.storage.fsspec_store import FsspecStore
from headrace.checkpoint.storage.fsspec_store.binding import Failure, Verdict
from headrace.checkpoint.storage.fsspec_store.store import RANGE_BYTES
from headrace.errors import (
    HeadraceError,
    ObjectExistsError,
    ObjectMissingError,
    StorageAccessError,
    StorageUnavailableError,
)
from runtime_tests.checkpoint.fsspec_fakes import ClientError, FakeFiles, fake_store


@pytest.fixture
def files() -> FakeFiles:
    return FakeFiles()


@pytest.fixture
def fake(files: FakeFiles) -> FsspecStore:
    return fake_store(files)


def test_a_create_whose_reply_was_lost_is_ours(files: FakeFiles, fake: FsspecStore) -> None:
    files.after["pipe_file"] = ConnectionResetError()
    fake.create("a/b", b"mine")
    assert b"mine" == fake.get("a/b")


def test_a_create_that_the_client_repeated_meets_its_own_object(
    files: FakeFiles, fake: FsspecStore
) -> None:
    files.after["pipe_file"] = FileExistsError()
    fake.create("a/b", b"mine")
    assert b"mine" == fake.get("a/b")


def test_a_lost_reply_over_anothers_object_is_a_refusal(
    files: FakeFiles, fake: FsspecStore
) -> None:
    fake.create("a/b", b"theirs")
    files.before["pipe_file"] = ConnectionResetError()
    with pytest.raises(ObjectExistsError, match="fake://container/job/a/b"):
        fake.create("a/b", b"mine")
    assert b"theirs" == fake.get("a/b")


@pytest.mark.parametrize("error", [ConnectionResetError(), FileExistsError()])
def test_a_create_without_any_object_is_storage_that_is_away(
    files: FakeFiles, fake: FsspecStore, error: Exception
) -> None:
    files.before["pipe_file"] = error
    with pytest.raises(StorageUnavailableError, match="no clear end"):
        fake.create("a/b", b"mine")


def test_a_create_that_can_be_neither_written_nor_read_says_so(
    files: FakeFiles, fake: FsspecStore
) -> None:
    files.before |= {"pipe_file": TimeoutError(), "cat_file": TimeoutError()}
    with pytest.raises(StorageUnavailableError):
        fake.create("a/b", b"mine")


def test_a_file_system_that_ignores_conditional_create_is_refused_by_name(
    files: FakeFiles, fake: FsspecStore
) -> None:
    files.ignores_create = True
    with pytest.raises(StorageAccessError, match="conditional create is not honoured") as caught:
        fake.check()
    assert "state.checkpoints.dir" in str(caught.value)
    assert "uri=fake://container/job" in str(caught.value)
    assert {} == files.store, "the probe is removed"


CALLS: dict[str, Callable[[FsspecStore, Path], object]] = {
    "pipe_file": lambda store, _: store.put("a", b"x"),
    "put_file": lambda store, local: store.put_file("a", local),
    "cat_file": lambda store, _: store.get("a"),
    "info": lambda store, local: store.get_file("a", local.with_name("new")),
    "find": lambda store, _: list(store.list()),
    "rm_file": lambda store, _: store.delete(["a", "b", "c"]),
}


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), StorageUnavailableError),
        (FSTimeoutError(), StorageUnavailableError),
        (ConnectionResetError(), StorageUnavailableError),
        (OSError(5, "input/output error"), StorageUnavailableError),
        (ClientError(), StorageUnavailableError),
        (RuntimeError("the process is ending"), StorageUnavailableError),
        (PermissionError(), StorageAccessError),
        (NotADirectoryError(), StorageAccessError),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
@pytest.mark.parametrize("method", CALLS)
def test_every_call_tells_what_may_pass_from_what_must_be_fixed(
    files: FakeFiles,
    fake: FsspecStore,
    tmp_path: Path,
    method: str,
    error: Exception,
    expected: type[HeadraceError],
) -> None:
    (tmp_path / "local").write_bytes(b"x")
    files.before[method] = error
    with pytest.raises(expected, match=f"cause={type(error).__name__}") as caught:
        CALLS[method](fake, tmp_path / "local")
    assert error is caught.value.__cause__


@pytest.mark.parametrize("error", [KeyError("a bug"), NotImplementedError(), RecursionError()])
def test_an_error_that_nobody_knows_is_not_taken_for_storage(
    files: FakeFiles, fake: FsspecStore, error: Exception
) -> None:
    files.before["cat_file"] = error
    with pytest.raises(type(error)):
        fake.get("a")


def test_a_file_comes_in_ranges_that_bound_memory(
    files: FakeFiles, fake: FsspecStore, tmp_path: Path
) -> None:
    content = os.urandom(1 << 20) * 20 + b"end"
    fake.put("shared/file", content)
    files.calls.clear()
    fake.get_file("shared/file", tmp_path / "target")
    assert content == (tmp_path / "target").read_bytes()
    ranges = [call[1:] for call in files.calls if call[0] == "cat_file"]
    expected = [(0, RANGE_BYTES), (RANGE_BYTES, 2 * RANGE_BYTES), (2 * RANGE_BYTES, len(content))]
    assert expected == ranges


@pytest.mark.parametrize("cut", [1, 1000])
def test_a_read_that_was_cut_off_leaves_no_file(
    files: FakeFiles, fake: FsspecStore, tmp_path: Path, cut: int
) -> None:
    fake.put("shared/file", bytes(1000))
    files.cuts_reads_by = cut
    with pytest.raises(StorageUnavailableError, match=f"received={1000 - cut}"):
        fake.get_file("shared/file", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_directory_is_no_object(fake: FsspecStore, tmp_path: Path) -> None:
    fake.put("a/b", b"x")
    with pytest.raises(ObjectMissingError, match="there is a directory"):
        fake.get_file("a", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_local_file_that_changes_while_it_is_sent_is_not_stored_under_a_wrong_digest(
    files: FakeFiles, fake: FsspecStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"first")
    send = files.put_file

    def grow_and_send(lpath: str, rpath: str) -> None:
        with source.open("ab") as file:
            file.write(b" and more")
        send(lpath, rpath)

    monkeypatch.setattr(files, "put_file", grow_and_send)
    with pytest.raises(StorageUnavailableError, match="changed while it was sent"):
        fake.put_file("shared/file", source)


def test_one_missing_object_does_not_end_a_deletion(files: FakeFiles, fake: FsspecStore) -> None:
    for path in ["a", "c"]:
        fake.put(path, b"x")
    fake.delete(["a", "b", "c"])
    assert {} == files.store


def test_a_container_that_is_missing_is_not_an_empty_listing(files: FakeFiles) -> None:
    """Some file systems list both alike, so that a job would find no checkpoint and begin anew."""

    def judge(error: Exception) -> Verdict | None:
        missing = isinstance(error, FileNotFoundError)
        return Verdict(Failure.REFUSED, "the container") if missing else None

    with pytest.raises(StorageAccessError, match="the container"):
        list(fake_store(files, judge).list())


def test_listings_are_sorted_and_without_directories_whatever_comes(
    files: FakeFiles, fake: FsspecStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(path: str, *, detail: bool, prefix: str) -> dict[str, dict[str, object]]:
        assert ("container/job/a", "b") == (path, prefix)
        file = {"type": "file", "size": 1, "created": 1.5}
        return {
            "container/job/a/b2": file,
            "container/job/a/b": {**file, "type": "directory"},
            "container/job/a/b1/x": file,
            "container/job/a/c": file,
        }

    monkeypatch.setattr(files, "find", find)
    expected = [("a/b1/x", 1, 1500), ("a/b2", 1, 1500)]
    found = [(info.path, info.size_bytes, info.modified_ms) for info in fake.list("a/b")]
    assert expected == found
