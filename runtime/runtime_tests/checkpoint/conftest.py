"""Stores to test against, and small builders of checkpoint parts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.checkpoint.storage import ObjectStore, open_store
from headrace.checkpoint.transfer import TransferPool
from headrace.testing.object_store import MemoryStore

S3_OPTIONS = {
    "s3.path.style.access": "true",
    "s3.access-key": "test",
    "s3.secret-key": "test",
    "s3.region": "us-east-1",
}


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    """Options of a moto server with a bucket named ``checkpoints``."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {**S3_OPTIONS, "s3.endpoint": f"http://{host}:{port}"}
    client = boto3.client(
        "s3",
        endpoint_url=options["s3.endpoint"],
        aws_access_key_id="test",
        aws_secret_access_key="test",
        region_name="us-east-1",
    )
    client.create_bucket(Bucket="checkpoints")
    yield options
    client.close()
    server.stop()


StoreFactory = Callable[[], ObjectStore]


@pytest.fixture(
    params=["memory", "file", pytest.param("s3", marks=pytest.mark.integration)],
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of each kind."""
    if request.param == "memory":
        return MemoryStore()
    if request.param == "file":
        return open_store((tmp_path / "with space" / "checkpoints").as_uri(), {})
    options = request.getfixturevalue("s3_options")
    return open_store(f"s3://checkpoints/{uuid.uuid4().hex}/job", options)


@pytest.fixture
def file_store(tmp_path: Path) -> ObjectStore:
    return open_store((tmp_path / "checkpoints").as_uri(), {})


@pytest.fixture
def pool() -> Iterator[TransferPool]:
    pool = TransferPool(3)
    yield pool
    pool.close()
