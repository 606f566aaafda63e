"""``abfs://`` and ``abfss://``: Azure Blob storage and Data Lake Storage by adlfs.

adlfs' conditional create is the service's own (``If-None-Match: *``). Three things are our own, as
adlfs has them otherwise:
- the client, because adlfs sets neither its retries nor the timeouts of all calls, and speaks TLS
  alone, which no emulator does;
- listings, because adlfs lists a container that does not exist as an empty one;
- errors: adlfs shows "no such container" and "no such object", and every conflict and "there is one
  already", as the same error of Python. Here they come as azure-core raises them, with their code.

Accounts with a hierarchical namespace list their directories as objects; these are dropped.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import urllib.parse
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp
from adlfs import AzureBlobFileSystem
from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
from azure.core.exceptions import AzureError, ClientAuthenticationError, HttpResponseError
from azure.storage.blob.aio import BlobServiceClient, ExponentialRetry
from fsspec.asyn import sync_wrapper

from headrace.checkpoint.storage.fsspec_store.binding import Binding, Failure, Verdict
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azure.core.credentials_async import AsyncTokenCredential

    from headrace.checkpoint.storage.fsspec_store.binding import FileSystem, Patience

PREFIX: Final = "fs.azure."

BLOCK_BYTES: Final = 8 << 20
"""Block of an upload: the service allows 50,000, so files up to 390 GB."""

SINGLE_BYTES: Final = 1 << 20
"""Longest object that is one request: aiohttp sends it in one go, on the loop of all transfers."""

CONCURRENCY: Final = 2
"""Blocks of one transfer at once; bounds its memory."""

_KEYS: Final = {
    "fs.azure.account.key": "account_key",
    "fs.azure.sas.fixed.token": "sas_token",
    "fs.azure.endpoint": "endpoint",
}

_PLACE: Final = re.compile(r"[a-z0-9$][a-z0-9-]*@[a-z0-9]+(\.[a-z0-9-]+)+")

_CREDENTIALS: Final = (
    "fs.azure.account.key or fs.azure.sas.fixed.token, or the identity that is used without them, "
    "its permissions on the container, and this machine's clock"
)
_CONTAINER: Final = "the container in state.checkpoints.dir, it does not exist"
_ENDPOINT: Final = "the account in state.checkpoints.dir and fs.azure.endpoint"

_BY_CODE: Final = {
    "BlobNotFound": Verdict(Failure.MISSING),
    "BlobAlreadyExists": Verdict(Failure.EXISTS),
    "ConditionNotMet": Verdict(Failure.EXISTS),
    "TargetConditionNotMet": Verdict(Failure.EXISTS),
    "ContainerNotFound": Verdict(Failure.REFUSED, _CONTAINER),
    "ContainerDisabled": Verdict(Failure.REFUSED, _CONTAINER),
    "InvalidResourceName": Verdict(Failure.REFUSED, "the container in state.checkpoints.dir"),
}
"""What an answer means, by the service's error code."""

_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429})
"""409 with another code: a container or account that is being made, deleted or moved."""


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """Where the account is and who we are there.

    Without key and token the identity comes from where azure-identity looks by itself: environment
    (``AZURE_CLIENT_ID``, ...), workload identity, managed identity; before that from adlfs'
    ``AZURE_STORAGE_ACCOUNT_KEY`` and ``AZURE_STORAGE_SAS_TOKEN``.

    Attributes:
        account_key: shared key of the account.
        sas_token: shared access signature, without the question mark.
        endpoint: URL of the account's Blob service; None: by the host in the URI.
    """

    account_key: str | None = dataclasses.field(default=None, repr=False)
    sas_token: str | None = dataclasses.field(default=None, repr=False)
    endpoint: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> AzureSettings:
        """Pick the ``fs.azure.`` options out of a job's options.

        Raises:
            InvalidConfigError: a key is unknown, two exclude each other, or a URL is malformed.
        """
        given = {key: value for key, value in options.items() if key.startswith(PREFIX)}
        if unknown := sorted(given.keys() - _KEYS.keys()):
            msg = (
                f"unknown Azure option, correct its name; option={','.join(unknown)} "
                f"known={','.join(_KEYS)}"
            )
            raise InvalidConfigError(msg)
        settings = cls(**{_KEYS[key]: value for key, value in given.items()})
        if settings.account_key and settings.sas_token:
            msg = (
                "Azure takes one credential, unset fs.azure.account.key or fs.azure.sas.fixed.token"
            )
            raise InvalidConfigError(msg)
        if settings.endpoint is not None:
            url = urllib.parse.urlsplit(settings.endpoint)
            if url.scheme not in {"http", "https"} or not url.hostname or url.query:
                # Not the value: there may be a token in it.
                msg = (
                    "option must be an http URL without a query, set fs.azure.sas.fixed.token if "
                    f"there is one; option=fs.azure.endpoint host={url.hostname}"
                )
                raise InvalidConfigError(msg)
        return settings


def azure_binding(parts: urllib.parse.SplitResult, options: Mapping[str, str]) -> Binding | None:
    """Return the binding of ``abfss://<container>@<account>.<domain>/<prefix>``.

    Returns:
        None when the URI has another form.

    Raises:
        InvalidConfigError: an option is malformed.
    """
    if not _PLACE.fullmatch(parts.netloc) or "//" in parts.path.strip("/"):
        return None
    container, _, host = parts.netloc.partition("@")
    account, _, domain = host.partition(".")
    settings = AzureSettings.from_options(options)
    # Both interfaces reach the same objects; conditional writes are the Blob service's.
    url = settings.endpoint or f"https://{account}.{re.sub('^dfs[.]', 'blob.', domain)}"
    root = f"{container}/{parts.path.strip('/')}".rstrip("/")
    return Binding(
        root_uri=f"abfss://{container}@{host}{parts.path}".rstrip("/"),
        root=root,
        connect=lambda patience: _connect(account, url, settings, patience),
        judge=judge,
        errors=(AzureError, aiohttp.ClientError),
        modified="last_modified",
    )


def judge(error: Exception) -> Verdict | None:
    """Say what an error of azure-core, or of aiohttp below it, means."""
    if isinstance(error, ClientAuthenticationError):
        return Verdict(Failure.REFUSED, _CREDENTIALS)
    if isinstance(error, HttpResponseError):
        code = getattr(error, "error_code", None)
        return _of_response(str(getattr(code, "value", code)), error.status_code or 0)
    cause = error.inner_exception if isinstance(error, AzureError) else error
    if isinstance(cause, aiohttp.ClientSSLError):
        return Verdict(Failure.REFUSED, f"{_ENDPOINT}, its certificate is not trusted")
    return Verdict(Failure.UNAVAILABLE) if isinstance(error, AzureError) else None


def _of_response(code: str, status: int) -> Verdict:
    if code in _BY_CODE:
        return _BY_CODE[code]
    if status >= 500 or status in _TRANSIENT_STATUS or status == 0:
        return Verdict(Failure.UNAVAILABLE)
    if status in {401, 403}:
        return Verdict(Failure.REFUSED, _CREDENTIALS)
    return Verdict(Failure.REFUSED, _ENDPOINT)


def _connect(account: str, url: str, settings: AzureSettings, patience: Patience) -> FileSystem:
    return _BlobFileSystem(account, url, settings, patience)


def _with_azure_errors(coroutine: str) -> Callable[..., object]:
    """Return a method of adlfs for callers without a loop, with azure-core's errors.

    This happens where adlfs has just replaced one by the other: in the caller's thread the link
    between the two may be another one, which Python makes to what the caller is handling.
    """
    method = getattr(AzureBlobFileSystem, coroutine)

    @functools.wraps(method)
    async def run(self: object, *args: object, **kwargs: object) -> object:
        try:
            result: object = await method(self, *args, **kwargs)
        except OSError as error:
            origin = error.__cause__ or error.__context__
            if isinstance(origin, AzureError):
                raise origin from None
            raise
        return result

    called: Callable[..., object] = sync_wrapper(run)
    return called


class _BlobFileSystem(AzureBlobFileSystem):  # type: ignore[misc] # adlfs has no types
    """adlfs' file system with a client of our own; neither it nor listings are cached."""

    cachable = False

    def __init__(self, account: str, url: str, settings: AzureSettings, patience: Patience) -> None:
        self._url = url
        self._settings = settings
        self._patience = patience
        super().__init__(
            account_name=account,
            account_key=settings.account_key,
            sas_token=settings.sas_token,
            anon=False,
            blocksize=BLOCK_BYTES,
            max_concurrency=CONCURRENCY,
            assume_container_exists=True,
            use_listings_cache=False,
        )

    def do_connect(self) -> None:
        """Make the client; adlfs' constructor calls this."""
        self.service_client = BlobServiceClient(
            self._url,
            credential=self._choose_credential(),
            retry_policy=ExponentialRetry(
                initial_backoff=1,
                increment_base=2,
                retry_total=self._patience.attempts - 1,
                random_jitter_range=1,
            ),
            connection_timeout=self._patience.connect_timeout_s,
            read_timeout=self._patience.read_timeout_s,
            max_single_put_size=SINGLE_BYTES,
            max_block_size=BLOCK_BYTES,
            max_single_get_size=BLOCK_BYTES,
            max_chunk_get_size=BLOCK_BYTES,
        )

    async def _find(
        self, path: str, *, prefix: str = "", **_: object
    ) -> dict[str, dict[str, object]]:
        container, _slash, key = path.partition("/")
        beginning = f"{key}/{prefix}" if key else prefix
        found: dict[str, dict[str, object]] = {}
        async with self.service_client.get_container_client(container) as client:
            async for blob in client.list_blobs(name_starts_with=beginning, include=["metadata"]):
                found[f"{container}/{blob.name}"] = {
                    "type": "directory" if _is_folder(blob.metadata or {}) else "file",
                    "size": blob.size,
                    "last_modified": blob.last_modified,
                }
        return found

    find = sync_wrapper(_find)
    pipe_file = _with_azure_errors("_pipe_file")
    put_file = _with_azure_errors("_put_file")
    cat_file = _with_azure_errors("_cat_file")
    info = _with_azure_errors("_info")
    rm_file = _with_azure_errors("_rm_file")

    def _choose_credential(
        self,
    ) -> AzureNamedKeyCredential | AzureSasCredential | AsyncTokenCredential:
        settings = self._settings
        # What the options say goes before what adlfs has found in the environment.
        key = settings.account_key or (None if settings.sas_token else self.account_key)
        token = settings.sas_token or self.sas_token
        if key:
            return AzureNamedKeyCredential(self.account_name, key)
        if token:
            return AzureSasCredential(token.removeprefix("?"))
        if self.credential is None:
            msg = (
                "AZURE_STORAGE_CONNECTION_STRING is not used for checkpoints, unset it or set "
                f"fs.azure.account.key; account={self.account_name}"
            )
            raise InvalidConfigError(msg)
        credential: AsyncTokenCredential = self.credential
        return credential


def _is_folder(metadata: Mapping[str, str]) -> bool:
    return any(
        name.lower() in {"hdi_isfolder", "is_directory"} and value.lower() == "true"
        for name, value in metadata.items()
    )
