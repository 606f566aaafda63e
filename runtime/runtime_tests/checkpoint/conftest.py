"""Stores to test against, and small builders of checkpoint parts."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.checkpoint.storage import ObjectStore, open_store
from headrace.checkpoint.transfer import TransferPool
from headrace.cli.cache import cache_dir
from headrace.testing.object_store import MemoryBucket, MemoryStore
from runtime_tests.checkpoint import azurite_server
from runtime_tests.checkpoint.fsspec_fakes import FakeFiles, fake_store

BUCKET = "checkpoints"

EXTERNAL_ENDPOINT = "HEADRACE_TEST_S3_ENDPOINT"
"""Environment variable: run the S3 tests on a real service (MinIO, say) instead of moto.

Its credentials are then taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
"""


@pytest.fixture(scope="session")
def s3_options() -> Iterator[dict[str, str]]:
    """Options of an S3 service with a bucket named ``checkpoints``."""
    import boto3
    from moto.server import ThreadedMotoServer

    server: ThreadedMotoServer | None = None
    options = {
        "s3.path.style.access": "true",
        "s3.access-key": os.environ.get("AWS_ACCESS_KEY_ID", "test"),
        "s3.secret-key": os.environ.get("AWS_SECRET_ACCESS_KEY", "test"),
        "s3.region": "us-east-1",
    }
    if EXTERNAL_ENDPOINT in os.environ:
        options["s3.endpoint"] = os.environ[EXTERNAL_ENDPOINT]
    else:
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        options["s3.endpoint"] = f"http://{host}:{port}"
    client = boto3.client(
        "s3",
        endpoint_url=options["s3.endpoint"],
        aws_access_key_id=options["s3.access-key"],
        aws_secret_access_key=options["s3.secret-key"],
        region_name="us-east-1",
    )
    if BUCKET not in [bucket["Name"] for bucket in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    client.close()
    yield options
    if server is not None:
        server.stop()


@pytest.fixture(scope="session")
def azure_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Options of an Azure storage account with a container named ``checkpoints``."""
    from azure.core.credentials import AzureNamedKeyCredential
    from azure.storage.blob import BlobServiceClient

    installed = azurite_server.install(cache_dir())
    with azurite_server.running(installed, tmp_path_factory.mktemp("azurite")) as url:
        credential = AzureNamedKeyCredential(azurite_server.ACCOUNT, azurite_server.KEY)
        with BlobServiceClient(url, credential) as client:
            client.create_container(BUCKET)
        yield {"fs.azure.endpoint": url, "fs.azure.account.key": azurite_server.KEY}


AZURE_HOST = f"{azurite_server.ACCOUNT}.dfs.core.windows.net"


@pytest.fixture(
    params=[
        "memory",
        "file",
        "fsspec",
        pytest.param("s3", marks=pytest.mark.integration),
        pytest.param("azure", marks=pytest.mark.integration),
    ],
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store of each kind."""
    if request.param == "memory":
        return MemoryStore()
    if request.param == "file":
        return open_store((tmp_path / "with space" / "checkpoints").as_uri(), {})
    if request.param == "fsspec":
        return fake_store(FakeFiles())
    if request.param == "azure":
        options = request.getfixturevalue("azure_options")
        return open_store(f"abfss://{BUCKET}@{AZURE_HOST}/{uuid.uuid4().hex}/job", options)
    options = request.getfixturevalue("s3_options")
    return open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}/job", options)


@dataclass(frozen=True, slots=True)
class Place:
    """A storage that several directories lie in."""

    uri: str
    open: Callable[[str], ObjectStore]


@pytest.fixture(
    params=[
        "memory",
        "file",
        pytest.param("s3", marks=pytest.mark.integration),
        pytest.param("azure", marks=pytest.mark.integration),
    ],
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place of each kind."""
    if request.param == "memory":
        bucket = MemoryBucket()
        return Place(f"{bucket.uri}/place", bucket.open)
    if request.param == "file":
        return Place((tmp_path / "with space").as_uri(), lambda uri: open_store(uri, {}))
    options = request.getfixturevalue(f"{request.param}_options")
    bucket_uri = f"s3://{BUCKET}" if request.param == "s3" else f"abfss://{BUCKET}@{AZURE_HOST}"
    uri = f"{bucket_uri}/{uuid.uuid4().hex}"
    return Place(uri, lambda uri: open_store(uri, options))


@pytest.fixture
def file_store(tmp_path: Path) -> ObjectStore:
    return open_store((tmp_path / "checkpoints").as_uri(), {})


@pytest.fixture
def pool() -> Iterator[TransferPool]:
    pool = TransferPool(3)
    yield pool
    pool.close()
