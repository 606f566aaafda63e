"""Options of checkpoint storage; keys as the file systems of Flink take them."""

from __future__ import annotations

from typing import Final

from headrace.config.option import Option, Section
from headrace.config.values import BOOLEAN, STRING, optional

_SECTION: Final = Section.STORAGE

STORAGE_PREFIXES: Final = ("s3.", "fs.azure.")
"""Beginnings of the keys that storage is opened with; an option of storage has one of them."""

S3_ENDPOINT: Final = Option(
    "s3.endpoint",
    optional(STRING),
    None,
    _SECTION,
    "URL of an S3-compatible server. Not set: AWS.",
)
S3_REGION: Final = Option(
    "s3.region",
    optional(STRING),
    None,
    _SECTION,
    "Region. Not set: the environment's.",
    aliases=("s3.endpoint.region",),
)
S3_PATH_STYLE: Final = Option(
    "s3.path.style.access",
    BOOLEAN,
    False,
    _SECTION,
    "Put the bucket into the path instead of the host name; MinIO needs it.",
    aliases=("s3.path-style-access",),
)
S3_ACCESS_KEY: Final = Option(
    "s3.access-key",
    optional(STRING),
    None,
    _SECTION,
    "Access key. Better not set: from the environment, a Secret or workload identity.",
    aliases=("s3.access.key",),
    sensitive=True,
)
S3_SECRET_KEY: Final = Option(
    "s3.secret-key",
    optional(STRING),
    None,
    _SECTION,
    "Secret key that goes with `s3.access-key`.",
    aliases=("s3.secret.key",),
    sensitive=True,
)
S3_SESSION_TOKEN: Final = Option(
    "s3.session-token",
    optional(STRING),
    None,
    _SECTION,
    "Session token of temporary credentials.",
    sensitive=True,
)

AZURE_ACCOUNT_KEY: Final = Option(
    "fs.azure.account.key",
    optional(STRING),
    None,
    _SECTION,
    "Shared key of the Azure storage account. Better not set: from the environment, a Secret or "
    "workload identity.",
    sensitive=True,
)
AZURE_SAS_TOKEN: Final = Option(
    "fs.azure.sas.fixed.token",
    optional(STRING),
    None,
    _SECTION,
    "Shared access signature, instead of `fs.azure.account.key`.",
    sensitive=True,
)
AZURE_ENDPOINT: Final = Option(
    "fs.azure.endpoint",
    optional(STRING),
    None,
    _SECTION,
    "URL of the account's Blob service, for private clouds and emulators. Not set: by the host in "
    "the URI.",
)

OPTIONS: Final = (
    S3_ENDPOINT,
    S3_REGION,
    S3_PATH_STYLE,
    S3_ACCESS_KEY,
    S3_SECRET_KEY,
    S3_SESSION_TOKEN,
    AZURE_ACCOUNT_KEY,
    AZURE_SAS_TOKEN,
    AZURE_ENDPOINT,
)
