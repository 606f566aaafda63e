"""Building boto3 clients, and the few of their methods that are used, with types."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Final, Protocol, TypedDict, cast

import boto3.session
import botocore.config
import botocore.exceptions
from boto3.s3.transfer import TransferConfig

from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator

    from headrace.checkpoint.storage.s3.settings import S3Settings

POOL_CONNECTIONS: Final = 16
"""Connections that one client keeps; more transfers at once than that queue."""

PART_BYTES: Final = 16 * 1024 * 1024
"""Part of a multipart upload: S3 allows 10,000 parts, so files up to 160 GB."""

TRANSFER: Final = TransferConfig(
    multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
)
"""One file moves in the caller's thread: `TransferPool` bounds threads, and so memory."""


class Patience:
    """How long a client tries; botocore's own ``standard`` retry mode with jittered back-off."""

    def __init__(self, *, attempts: int, connect_timeout_s: float, read_timeout_s: float) -> None:
        self.attempts = attempts
        self.connect_timeout_s = connect_timeout_s
        self.read_timeout_s = read_timeout_s


NORMAL: Final = Patience(attempts=5, connect_timeout_s=5, read_timeout_s=30)
"""Gives up on storage that is away after about half a minute; far below a checkpoint timeout."""

PROBING: Final = Patience(attempts=2, connect_timeout_s=3, read_timeout_s=5)
"""For the start-up check: an answer within about ten seconds, whatever it is."""


class Body(Protocol):
    """Body of a GET."""

    def read(self) -> bytes:
        """Return everything."""
        ...


class GetResponse(TypedDict):
    """Answer of ``get_object``."""

    Body: Body


class ListedObject(TypedDict):
    """One entry of ``list_objects_v2``."""

    Key: str
    Size: int
    LastModified: dt.datetime


class ListPage(TypedDict, total=False):
    """Answer of ``list_objects_v2``."""

    Contents: list[ListedObject]


class DeleteFailure(TypedDict):
    """One failed deletion."""

    Key: str
    Code: str


class DeleteResponse(TypedDict, total=False):
    """Answer of ``delete_objects``."""

    Errors: list[DeleteFailure]


class Paginator(Protocol):
    """Pages of a listing."""

    def paginate(self, *, Bucket: str, Prefix: str) -> Iterator[ListPage]:  # noqa: N803
        """Yield pages in key order."""
        ...


class S3Client(Protocol):
    """What is used of boto3's S3 client, which is thread-safe."""

    def put_object(self, **arguments: object) -> object:
        """PUT."""
        ...

    def get_object(self, **arguments: object) -> GetResponse:
        """GET."""
        ...

    def delete_objects(self, **arguments: object) -> DeleteResponse:
        """Multi-object DELETE."""
        ...

    def get_paginator(self, operation: str) -> Paginator:
        """Return a paginator."""
        ...

    def upload_fileobj(
        self,
        source: IO[bytes],
        bucket: str,
        key: str,
        *,
        Config: TransferConfig,  # noqa: N803
    ) -> None:
        """PUT or multipart upload; reads ``source`` once and in order if it cannot seek."""
        ...

    def copy(
        self,
        source: dict[str, str],
        bucket: str,
        key: str,
        *,
        Config: TransferConfig,  # noqa: N803
    ) -> None:
        """HEAD of the source, then COPY or a multipart copy."""
        ...

    def download_fileobj(
        self,
        bucket: str,
        key: str,
        target: IO[bytes],
        *,
        Config: TransferConfig,  # noqa: N803
    ) -> None:
        """GET with retries of broken streams; writes in order if ``target`` cannot seek."""
        ...


def build_client(settings: S3Settings, patience: Patience) -> S3Client:
    """Return a client; opens no connection.

    Raises:
        InvalidConfigError: the endpoint or region is malformed.
    """
    config = botocore.config.Config(
        connect_timeout=patience.connect_timeout_s,
        read_timeout=patience.read_timeout_s,
        retries={"mode": "standard", "total_max_attempts": patience.attempts},
        max_pool_connections=POOL_CONNECTIONS,
        s3={"addressing_style": "path"} if settings.path_style_access else {},
        user_agent_extra="headrace",
    )
    # A session of our own: boto3's default one is shared by the process and not thread-safe.
    session = boto3.session.Session(
        aws_access_key_id=settings.access_key,
        aws_secret_access_key=settings.secret_key,
        aws_session_token=settings.session_token,
        region_name=settings.region,
    )
    try:
        client = session.client("s3", endpoint_url=settings.endpoint, config=config)
    except (ValueError, botocore.exceptions.BotoCoreError) as error:
        msg = (
            "S3 client cannot be built, correct s3.endpoint or s3.region; "
            f"endpoint={settings.endpoint} region={settings.region} error={error}"
        )
        raise InvalidConfigError(msg) from error
    return cast("S3Client", client)
