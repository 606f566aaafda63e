"""The real S3 client over a service that fails at random: an answer is right or there is none."""

from __future__ import annotations

import contextlib
import random
import urllib.parse
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.checkpoint.storage.s3 import S3Settings, S3Store
from headrace.checkpoint.storage.s3.client import TRANSFER, Patience
from headrace.errors import ObjectExistsError, ObjectMissingError, StorageUnavailableError
from headrace.testing.faulty_http import FaultyProxy, HttpFault
from runtime_tests.checkpoint.conftest import BUCKET

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

HURRIED = Patience(attempts=3, connect_timeout_s=1, read_timeout_s=1)
RATES = {
    HttpFault.INTERNAL_ERROR: 0.08,
    HttpFault.SLOW_DOWN: 0.05,
    HttpFault.RESET: 0.05,
    HttpFault.LOST_REPLY: 0.08,
    HttpFault.LOST_REPLY_ERROR: 0.08,
    HttpFault.CUT_BODY: 0.08,
    HttpFault.SILENCE: 0.01,
}


@pytest.fixture(params=range(2))
def world(request: pytest.FixtureRequest, s3_options: dict[str, str]) -> Iterator[World]:
    url = urllib.parse.urlsplit(s3_options["s3.endpoint"])
    assert url.hostname is not None
    assert url.port is not None
    with FaultyProxy((url.hostname, url.port), request.param, RATES) as proxy:
        yield World(proxy, s3_options, random.Random(request.param))


class World:
    """A store behind the proxy, the same one beside it, and what must be in both."""

    def __init__(self, proxy: FaultyProxy, options: dict[str, str], chooser: random.Random) -> None:
        self.proxy = proxy
        self.chooser = chooser
        prefix = uuid.uuid4().hex
        settings = S3Settings.from_options({**options, "s3.endpoint": proxy.url})
        self.store = S3Store(BUCKET, prefix, settings, patience=HURRIED)
        self.truth = S3Store(BUCKET, prefix, S3Settings.from_options(options))
        self.failures = 0
        self.successes = 0

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """Allow that there is no answer; anything else must be right."""
        try:
            yield
            self.successes += 1
        except StorageUnavailableError:
            self.failures += 1


def test_reads_are_whole_or_refused(world: World, tmp_path: Path) -> None:
    content = world.chooser.randbytes(40_000)
    world.truth.put("a/small", content)
    (tmp_path / "big").write_bytes(world.chooser.randbytes(TRANSFER.multipart_threshold + 1000))
    digest = world.truth.put_file("a/big", tmp_path / "big")
    for n in range(16):
        with world.attempt():
            assert content == world.store.get("a/small")
        if n % 8 == 0:
            with world.attempt():
                assert digest == world.store.get_file("a/big", tmp_path / f"copy-{n}")
                assert (tmp_path / "big").read_bytes() == (tmp_path / f"copy-{n}").read_bytes()
        with world.attempt():
            assert ["a/big", "a/small"] == [info.path for info in world.store.list("a/")]
        with world.attempt(), pytest.raises(ObjectMissingError):
            world.store.get("a/nothing")
    assert world.successes > 20
    assert sum(world.proxy.met.values()) - world.proxy.met[HttpFault.NONE] > 10


def test_a_write_that_returned_is_there_and_a_create_has_one_winner(
    world: World, tmp_path: Path
) -> None:
    for n in range(10):
        path, mine = f"b/{n}", f"mine {n}".encode()
        with world.attempt():
            world.store.put(f"{path}-put", mine)
            assert mine == world.truth.get(f"{path}-put")
        (tmp_path / "file").write_bytes(mine)
        with world.attempt():
            digest = world.store.put_file(f"{path}-file", tmp_path / "file")
            assert digest.size_bytes == len(world.truth.get(f"{path}-file"))
        with world.attempt():
            world.store.create(f"{path}-new", mine)
            assert mine == world.truth.get(f"{path}-new")
        world.truth.create(f"{path}-taken", b"theirs")
        with world.attempt(), pytest.raises(ObjectExistsError):
            world.store.create(f"{path}-taken", mine)
        assert world.truth.get(f"{path}-taken") == b"theirs"
        with world.attempt():
            world.store.delete([f"{path}-taken"])
            assert [] == list(world.truth.list(f"{path}-taken"))
        with world.attempt():
            assert world.store.copy_from(world.store, f"{path}-put", f"{path}-copy")
            assert mine == world.truth.get(f"{path}-copy")
    assert world.successes > 20


def test_a_file_whose_every_read_breaks_off_is_storage_that_is_away(
    world: World, tmp_path: Path
) -> None:
    world.truth.put("a/file", bytes(1000))
    world.proxy.rates = {HttpFault.CUT_BODY: 1.0}
    with pytest.raises(StorageUnavailableError):
        world.store.get_file("a/file", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
