"""`ObjectStore` over one bucket and prefix.

Conditional create is a PUT with ``If-None-Match: *``. Its three unclear answers are settled by
reading back: 412 after a reply that was lost and retried by botocore (our own object is there), 409
while another conditional write is in progress, and no answer at all.

Retries, back-off and multipart transfers are botocore's and s3transfer's own.
"""

from __future__ import annotations

import functools
from typing import IO, TYPE_CHECKING, Final, cast

from headrace.checkpoint.storage.digest import DigestBuilder
from headrace.checkpoint.storage.guarantees import check_guarantees
from headrace.checkpoint.storage.local_files import opened_source, write_new_file
from headrace.checkpoint.storage.s3.client import NORMAL, PROBING, TRANSFER, build_client
from headrace.checkpoint.storage.s3.errors import (
    ConditionalConflictError,
    from_code,
    mapped_s3_errors,
)
from headrace.checkpoint.storage.store import (
    ContentDigest,
    ObjectInfo,
    ObjectStore,
    checked_path,
)
from headrace.errors import (
    HeadraceError,
    ObjectExistsError,
    ObjectMissingError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from headrace.checkpoint.storage.s3.client import Patience, S3Client
    from headrace.checkpoint.storage.s3.settings import S3Settings

_DELETE_BATCH: Final = 1000
"""S3's limit for one multi-object delete."""

_CREATE_ATTEMPTS: Final = 5
"""Rounds of a conditional create while S3 answers that another one is in progress (409)."""


class S3Store:
    """Objects below ``s3://<bucket>/<prefix>``; opens connections on first use."""

    def __init__(
        self, bucket: str, prefix: str, settings: S3Settings, *, patience: Patience = NORMAL
    ) -> None:
        """Create a store.

        Args:
            bucket: name of an existing bucket.
            prefix: without slashes at its ends; may be empty.
            settings: endpoint, credentials, region.
            patience: timeouts and attempts of each call.
        """
        self.root_uri = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._settings = settings
        self._patience = patience

    @functools.cached_property
    def _client(self) -> S3Client:
        return build_client(self._settings, self._patience)

    def put(self, path: str, data: bytes) -> None:
        """Write an object atomically, replacing what is there."""
        with mapped_s3_errors(self._uri(path)):
            self._client.put_object(Bucket=self._bucket, Key=self._key(path), Body=data)

    def put_file(self, path: str, source: Path) -> ContentDigest:
        """Write an object from a local file, in parts when it is big."""
        with mapped_s3_errors(self._uri(path)), opened_source(source) as file:
            reader = _HashingReader(file)
            self._client.upload_fileobj(
                cast("IO[bytes]", reader), self._bucket, self._key(path), Config=TRANSFER
            )
            return reader.builder.digest()

    def create(self, path: str, data: bytes) -> None:
        """Write an object if and only if there is none; unclear answers are read back."""
        collision: HeadraceError | None = None
        for _ in range(_CREATE_ATTEMPTS):
            try:
                return self._put_if_absent(path, data)
            except (ObjectExistsError, StorageUnavailableError) as error:
                if self._holds(path, data):
                    return None
                if not isinstance(error, (ObjectExistsError, ConditionalConflictError)):
                    raise
                collision = error
        msg = f"conditional writes keep colliding; uri={self._uri(path)}"
        raise StorageUnavailableError(msg) from collision

    def get(self, path: str) -> bytes:
        """Read an object."""
        with mapped_s3_errors(self._uri(path)):
            response = self._client.get_object(Bucket=self._bucket, Key=self._key(path))
            return response["Body"].read()

    def get_file(self, path: str, target: Path) -> ContentDigest:
        """Read an object into a new local file."""
        with mapped_s3_errors(self._uri(path)):
            return write_new_file(target, functools.partial(self._download, self._key(path)))

    def copy_from(self, source: ObjectStore, source_path: str, path: str) -> bool:
        """Copy inside S3, in parts when it is big; only from the same service and identity."""
        if not isinstance(source, S3Store) or source._settings != self._settings:  # noqa: SLF001
            return False
        origin = {"Bucket": source._bucket, "Key": source._key(source_path)}  # noqa: SLF001
        with mapped_s3_errors(f"{source.root_uri}/{source_path}"):
            self._client.copy(origin, self._bucket, self._key(path), Config=TRANSFER)
        return True

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in path order, a page of 1000 at a time."""
        with mapped_s3_errors(f"{self.root_uri}/{prefix}"):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for entry in page.get("Contents", []):
                    yield ObjectInfo(
                        path=entry["Key"].removeprefix(self._prefix),
                        size_bytes=entry["Size"],
                        modified_ms=int(entry["LastModified"].timestamp() * 1000),
                    )

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects, a thousand in a request."""
        keys = [{"Key": self._key(path)} for path in paths]
        for start in range(0, len(keys), _DELETE_BATCH):
            batch = keys[start : start + _DELETE_BATCH]
            with mapped_s3_errors(self.root_uri):
                response = self._client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": batch, "Quiet": True}
                )
            for failed in response.get("Errors", []):
                raise from_code(failed["Code"], 0, f"s3://{self._bucket}/{failed['Key']}")

    def check(self) -> None:
        """Check the guarantees with little patience, so that bad storage is named in seconds."""
        check_guarantees(
            S3Store(self._bucket, self._prefix.rstrip("/"), self._settings, patience=PROBING)
        )

    def _put_if_absent(self, path: str, data: bytes) -> None:
        with mapped_s3_errors(self._uri(path)):
            self._client.put_object(
                Bucket=self._bucket, Key=self._key(path), Body=data, IfNoneMatch="*"
            )

    def _holds(self, path: str, data: bytes) -> bool:
        """Return whether the object is there with our data, False if there is none.

        Raises:
            ObjectExistsError: another writer's object is there.
        """
        try:
            held = self.get(path)
        except ObjectMissingError:
            return False
        if held != data:
            msg = f"object exists already; uri={self._uri(path)}"
            raise ObjectExistsError(msg)
        return True

    def _download(self, key: str, target: IO[bytes]) -> ContentDigest:
        writer = _HashingWriter(target)
        self._client.download_fileobj(self._bucket, key, cast("IO[bytes]", writer), Config=TRANSFER)
        return writer.builder.digest()

    def _key(self, path: str) -> str:
        return self._prefix + checked_path(path)

    def _uri(self, path: str) -> str:
        return f"{self.root_uri}/{path}"


class _HashingReader:
    """Source that cannot seek, so that s3transfer reads it once and in order."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.builder = DigestBuilder()

    def read(self, length: int = -1) -> bytes:
        data = self._source.read(length)
        self.builder.update(data)
        return data


class _HashingWriter:
    """Target that cannot seek, so that s3transfer writes it in order."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self.builder = DigestBuilder()

    def write(self, data: bytes) -> int:
        self.builder.update(data)
        return self._target.write(data)
