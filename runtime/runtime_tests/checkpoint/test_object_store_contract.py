"""What every object store promises, tested on each (files, memory, an S3 server)."""

from __future__ import annotations

import concurrent.futures
import os
from pathlib import Path

import pytest
import xxhash

from headrace.checkpoint.storage import ObjectStore
from headrace.errors import (
    InternalError,
    ObjectExistsError,
    ObjectMissingError,
    StorageUnavailableError,
)


def _paths(store: ObjectStore, prefix: str = "") -> list[str]:
    return [info.path for info in store.list(prefix)]


def test_an_object_reads_back_as_it_was_put(store: ObjectStore) -> None:
    store.put("chk-1/_metadata", b"\x00content\xff")
    assert store.get("chk-1/_metadata") == b"\x00content\xff"


def test_an_empty_object_is_an_object(store: ObjectStore) -> None:
    store.put("chk-1/empty", b"")
    assert store.get("chk-1/empty") == b""
    assert [(i.path, i.size_bytes) for i in store.list()] == [("chk-1/empty", 0)]


def test_put_replaces_what_is_there(store: ObjectStore) -> None:
    store.put("a/b", b"old, and longer")
    store.put("a/b", b"new")
    assert store.get("a/b") == b"new"


def test_create_refuses_a_second_writer_and_keeps_the_first_content(store: ObjectStore) -> None:
    store.create("a/b", b"first")
    with pytest.raises(ObjectExistsError):
        store.create("a/b", b"second")
    assert store.get("a/b") == b"first"


def test_create_with_the_same_content_counts_as_a_repeated_request(store: ObjectStore) -> None:
    store.create("a/b", b"mine")
    store.create("a/b", b"mine")
    assert store.get("a/b") == b"mine"


def test_a_deleted_object_can_be_created_again(store: ObjectStore) -> None:
    store.create("a/b", b"first")
    store.delete(["a/b"])
    store.create("a/b", b"second")
    assert store.get("a/b") == b"second"


def test_of_many_threads_that_create_one_path_exactly_one_wins(store: ObjectStore) -> None:
    def create(thread: int) -> int | None:
        try:
            store.create("generations/0000000001/claim", f"claimant {thread}".encode())
        except ObjectExistsError:
            return None
        return thread

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        winners = [w for w in pool.map(create, range(16)) if w is not None]
    assert len(winners) == 1
    assert store.get("generations/0000000001/claim") == f"claimant {winners[0]}".encode()


def test_reading_a_missing_object_says_so(store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(ObjectMissingError, match="chk-9/_metadata"):
        store.get("chk-9/_metadata")
    with pytest.raises(ObjectMissingError):
        store.get_file("chk-9/_metadata", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_listing_is_in_path_order_with_sizes(store: ObjectStore) -> None:
    # "a-b" sorts before "a/b", which sorts before "a0": the order of whole paths, not of folders.
    for path in ["a0", "a/b", "a-b", "a/b-c/d", "a/b/c", "chk-10/x", "chk-9/x"]:
        if path != "a/b":
            store.put(path, path.encode())
    expected = ["a-b", "a/b-c/d", "a/b/c", "a0", "chk-10/x", "chk-9/x"]
    assert expected == sorted(expected)
    assert expected == _paths(store)
    assert [len(path) for path in expected] == [info.size_bytes for info in store.list()]


def test_listing_takes_any_prefix_not_only_folders(store: ObjectStore) -> None:
    for path in ["chk-1/a", "chk-10/a", "chk-2/a", "shared/x"]:
        store.put(path, b"")
    assert _paths(store, "chk-1") == ["chk-1/a", "chk-10/a"]
    assert _paths(store, "chk-1/") == ["chk-1/a"]
    assert _paths(store, "shared/") == ["shared/x"]
    assert _paths(store, "sh") == ["shared/x"]
    assert _paths(store, "none/") == []


def test_listing_an_empty_store_is_empty(store: ObjectStore) -> None:
    assert _paths(store) == []


def test_deleting_is_idempotent_and_takes_many(store: ObjectStore) -> None:
    paths = [f"shared/{i}" for i in range(20)]
    for path in paths:
        store.put(path, b"x")
    store.delete([*paths[:15], "shared/never-there"])
    store.delete(paths[:15])
    assert sorted(paths[15:]) == _paths(store)


def test_a_file_travels_with_its_size_and_checksum(store: ObjectStore, tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "source").write_bytes(content)
    sent = store.put_file("shared/file", tmp_path / "source")
    received = store.get_file("shared/file", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == content
    assert (len(content), xxhash.xxh3_128_hexdigest(content)) == (sent.size_bytes, sent.checksum)
    assert sent == received


def test_a_big_file_travels_whole(store: ObjectStore, tmp_path: Path) -> None:
    """40 MiB: three parts of an S3 multipart upload."""
    content = os.urandom(1 << 20) * 40
    (tmp_path / "source").write_bytes(content)
    sent = store.put_file("shared/big", tmp_path / "source")
    received = store.get_file("shared/big", tmp_path / "target")
    assert sent == received
    assert xxhash.xxh3_128_hexdigest(content) == received.checksum


def test_a_missing_local_file_fails_without_an_object(store: ObjectStore, tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailableError, match="nowhere"):
        store.put_file("shared/file", tmp_path / "nowhere")
    assert _paths(store) == []


def test_an_existing_local_target_is_never_overwritten(store: ObjectStore, tmp_path: Path) -> None:
    store.put("shared/file", b"content")
    (tmp_path / "target").write_bytes(b"precious")
    with pytest.raises(StorageUnavailableError):
        store.get_file("shared/file", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == b"precious"


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/.", "a\nb", "a\\b"])
def test_a_path_that_leaves_the_root_is_an_internal_error(store: ObjectStore, path: str) -> None:
    with pytest.raises(InternalError):
        store.put(path, b"")


def test_the_start_up_check_passes_and_leaves_nothing(store: ObjectStore) -> None:
    store.check()
    assert _paths(store) == []
