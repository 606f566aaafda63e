"""From a URI and the job's options to a store; the one place that knows the schemes (D19)."""

from __future__ import annotations

import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.storage.file import FileStore
from headrace.config.values import UNSUPPORTED_SCHEMES
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.checkpoint.storage.store import ObjectStore

SUPPORTED_SCHEMES: Final = ("file", "s3", "abfss")


def open_store(uri: str, options: Mapping[str, str]) -> ObjectStore:
    """Return a store over everything below ``uri``; opens no connection.

    Args:
        uri: ``file:///absolute/directory``, ``s3://bucket/prefix`` (``s3a`` means the same) or
            ``abfss://container@account.dfs.core.windows.net/prefix`` (``abfs`` means the same).
        options: the job's options by Flink's keys; those of the scheme are used (``s3.``,
            ``fs.azure.``).

    Raises:
        InvalidConfigError: the scheme is not supported, the URI or an option is malformed, or the
            client library of the scheme is not installed.
    """
    parts = urllib.parse.urlsplit(uri)
    if parts.query or parts.fragment:
        raise _refused("URI must not have a query or a fragment", uri)
    if parts.scheme == "file":
        path = Path(urllib.parse.unquote(parts.path))
        if parts.netloc or not path.is_absolute() or ".." in path.parts:
            raise _refused("file URI must be file:///<absolute path>", uri)
        return FileStore(path)
    if parts.scheme in {"s3", "s3a"}:
        return _open_s3(uri, parts, options)
    if parts.scheme in {"abfs", "abfss"}:
        return _open_azure(uri, parts, options)
    reason = UNSUPPORTED_SCHEMES.get(parts.scheme)
    raise _refused(f"scheme is not supported{f': {reason}' if reason else ''}", uri)


def _open_s3(uri: str, parts: urllib.parse.SplitResult, options: Mapping[str, str]) -> ObjectStore:
    prefix = parts.path.strip("/")
    if not parts.netloc or "//" in prefix:
        raise _refused("S3 URI must be s3://<bucket>/<prefix>", uri)
    try:
        from headrace.checkpoint.storage.s3 import S3Settings, S3Store  # noqa: PLC0415
    except ImportError as error:
        msg = (
            f"S3 needs the extra `headrace[s3]`, install it; option=state.checkpoints.dir uri={uri}"
        )
        raise InvalidConfigError(msg) from error
    return S3Store(parts.netloc, prefix, S3Settings.from_options(options))


def _open_azure(
    uri: str, parts: urllib.parse.SplitResult, options: Mapping[str, str]
) -> ObjectStore:
    try:
        from headrace.checkpoint.storage.fsspec_store import FsspecStore  # noqa: PLC0415
        from headrace.checkpoint.storage.fsspec_store.azure import azure_binding  # noqa: PLC0415
    except ImportError as error:
        msg = (
            "Azure needs the extra `headrace[azure]`, install it; "
            f"option=state.checkpoints.dir uri={uri}"
        )
        raise InvalidConfigError(msg) from error
    binding = azure_binding(parts, options)
    if binding is None:
        form = "abfss://<container>@<account>.dfs.core.windows.net/<prefix>"
        raise _refused(f"Azure URI must be {form}", uri)
    return FsspecStore(binding)


def _refused(fact: str, uri: str) -> InvalidConfigError:
    msg = (
        f"{fact}, correct state.checkpoints.dir or the savepoint's directory; uri={uri} "
        f"supported={','.join(f'{scheme}://' for scheme in SUPPORTED_SCHEMES)}"
    )
    return InvalidConfigError(msg)
