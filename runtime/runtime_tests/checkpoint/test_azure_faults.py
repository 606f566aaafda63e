"""The real Azure client over a service that fails at random: right, or no answer.

The client has one attempt here, so that every fault reaches `FsspecStore`.
"""

from __future__ import annotations

import contextlib
import random
import urllib.parse
import uuid
from pathlib import Path

import pytest

from headrace.checkpoint.storage import open_store
from headrace.checkpoint.storage.fsspec_store import FsspecStore, Patience
from headrace.checkpoint.storage.fsspec_store.azure import azure_binding
from headrace.errors import ObjectExistsError, ObjectMissingError, StorageUnavailableError
from headrace.testing.faulty_http import FaultyProxy, HttpFault
from runtime_tests.checkpoint.conftest import AZURE_HOST, BUCKET

pytestmark = pytest.mark.integration

HURRIED = Patience(attempts=1, connect_timeout_s=1, read_timeout_s=1)
RATES = {
    HttpFault.INTERNAL_ERROR: 0.06,
    HttpFault.SLOW_DOWN: 0.04,
    HttpFault.RESET: 0.04,
    HttpFault.LOST_REPLY: 0.1,
    HttpFault.LOST_REPLY_ERROR: 0.1,
    HttpFault.CUT_BODY: 0.06,
    HttpFault.SILENCE: 0.01,
}


def test_writes_that_return_are_there_creates_have_one_winner_and_reads_are_whole(
    azure_options: dict[str, str], tmp_path: Path
) -> None:
    upstream = urllib.parse.urlsplit(azure_options["fs.azure.endpoint"])
    assert upstream.hostname is not None
    assert upstream.port is not None
    chooser = random.Random(1)
    uri = f"abfss://{BUCKET}@{AZURE_HOST}/{uuid.uuid4().hex}"
    truth = open_store(uri, azure_options)
    answered = {True: 0, False: 0}

    @contextlib.contextmanager
    def attempt():
        try:
            yield
            answered[True] += 1
        except StorageUnavailableError:
            answered[False] += 1

    with FaultyProxy((upstream.hostname, upstream.port), 1, RATES) as proxy:
        through = {**azure_options, "fs.azure.endpoint": f"{proxy.url}{upstream.path}"}
        binding = azure_binding(urllib.parse.urlsplit(uri), through)
        assert binding is not None
        store = FsspecStore(binding, patience=HURRIED)
        for n in range(12):
            mine, size = f"mine {n}".encode(), chooser.choice([10, 3_000_000])
            with attempt():
                store.create(f"{n}/new", mine)
                assert mine == truth.get(f"{n}/new")
            truth.create(f"{n}/taken", b"theirs")
            with attempt(), pytest.raises(ObjectExistsError):
                store.create(f"{n}/taken", mine)
            assert b"theirs" == truth.get(f"{n}/taken")
            (tmp_path / "sent").write_bytes(chooser.randbytes(size))
            with attempt():
                sent = store.put_file(f"{n}/file", tmp_path / "sent")
                assert sent == truth.get_file(f"{n}/file", tmp_path / f"truth-{n}")
            truth.put(f"{n}/big", (tmp_path / "sent").read_bytes())
            with attempt():
                store.get_file(f"{n}/big", tmp_path / f"got-{n}")
            if (tmp_path / f"got-{n}").exists():
                assert (tmp_path / "sent").read_bytes() == (tmp_path / f"got-{n}").read_bytes()
            with attempt():
                listed = [info.path for info in store.list(f"{n}/")]
                assert [info.path for info in truth.list(f"{n}/")] == listed
            with attempt(), pytest.raises(ObjectMissingError):
                store.get(f"{n}/nothing")
            with attempt():
                store.delete([f"{n}/taken", f"{n}/nothing", f"{n}/big"])
                assert [] == [*truth.list(f"{n}/taken"), *truth.list(f"{n}/big")]
    assert answered[True] > 36
    assert answered[False] > 6
