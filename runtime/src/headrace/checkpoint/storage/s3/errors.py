"""From botocore's errors to the storage errors; nothing of botocore leaves this package.

The reader of an error does one of two things: wait and retry (`StorageUnavailableError`), or fix
what the message names (`StorageAccessError`). A code that is not in the table is judged by its HTTP
status, so that new codes of any S3 service fall on the right side.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

import botocore.exceptions
from boto3.s3.transfer import S3TransferRetriesExceededError

from headrace.errors import (
    HeadraceError,
    ObjectExistsError,
    ObjectMissingError,
    StorageAccessError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

CREDENTIALS: Final = "s3.access-key and s3.secret-key"
BUCKET: Final = "the bucket in state.checkpoints.dir"
REGION: Final = "s3.region and s3.endpoint"

SETTING_BY_CODE: Final = {
    "AccessDenied": f"{CREDENTIALS}, and the permissions of that identity on the bucket",
    "AllAccessDisabled": BUCKET,
    "AccountProblem": CREDENTIALS,
    "AuthorizationHeaderMalformed": REGION,
    "ExpiredToken": "s3.session-token, it has expired",
    "Forbidden": f"{CREDENTIALS}, and the permissions of that identity on the bucket",
    "403": f"{CREDENTIALS}, and the permissions of that identity on the bucket",
    "IllegalLocationConstraintException": REGION,
    "InvalidAccessKeyId": "s3.access-key, the service does not know it",
    "InvalidBucketName": BUCKET,
    "InvalidToken": "s3.session-token",
    "MethodNotAllowed": "s3.endpoint, it does not speak S3",
    "NoSuchBucket": f"{BUCKET}, it does not exist",
    "NotImplemented": "s3.endpoint, the service lacks a function that checkpoints need",
    "PermanentRedirect": REGION,
    "RequestTimeTooSkewed": "this machine's clock",
    "SignatureDoesNotMatch": "s3.secret-key, it does not belong to s3.access-key",
}
"""What to fix, by error code."""

MISSING_CODES: Final = frozenset({"NoSuchKey", "NotFound", "404"})

EXISTS_CODES: Final = frozenset({"PreconditionFailed", "412"})

CONFLICT_CODES: Final = frozenset({"ConditionalRequestConflict", "OperationAborted"})
"""409: another conditional write of the same object is in progress; botocore does not repeat it."""

TRANSIENT_CODES: Final = frozenset(
    {
        "BadDigest",
        "IncompleteBody",
        "InternalError",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)

_TRANSIENT_STATUS: Final = frozenset({408, 409, 425, 429})

_TRANSIENT_CLIENT_ERRORS: Final = (
    botocore.exceptions.ConnectionError,
    botocore.exceptions.HTTPClientError,
    botocore.exceptions.ResponseStreamingError,
    botocore.exceptions.IncompleteReadError,
    botocore.exceptions.ChecksumError,
    botocore.exceptions.FlexibleChecksumError,
)

_CREDENTIAL_ERRORS: Final = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
    botocore.exceptions.TokenRetrievalError,
    botocore.exceptions.NoAuthTokenError,
    botocore.exceptions.ProfileNotFound,
    botocore.exceptions.MetadataRetrievalError,
)


class ConditionalConflictError(StorageUnavailableError):
    """Two conditional writes met; `S3Store.create` repeats its own and tells nobody."""


@contextlib.contextmanager
def mapped_s3_errors(uri: str) -> Iterator[None]:
    """Turn botocore's and s3transfer's errors into the storage errors; ``uri`` was accessed."""
    try:
        yield
    except botocore.exceptions.ClientError as error:
        raise from_response(error, uri) from error
    except botocore.exceptions.BotoCoreError as error:
        raise from_client(error, uri) from error
    except S3TransferRetriesExceededError as error:
        msg = f"storage keeps breaking off its answers; uri={uri} cause={error.last_exception!r}"
        raise StorageUnavailableError(msg) from error


def from_response(error: botocore.exceptions.ClientError, uri: str) -> HeadraceError:
    """Return the error for an answer that the service gave."""
    code = str(error.response.get("Error", {}).get("Code", "unknown"))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return from_code(code, status, uri)


def from_code(code: str, status: int, uri: str) -> HeadraceError:
    """Return the error for an S3 error code and HTTP status (0 when there is none)."""
    where = f"uri={uri} code={code} status={status}"
    if code in SETTING_BY_CODE:
        return StorageAccessError(f"storage refuses access, check {SETTING_BY_CODE[code]}; {where}")
    if code in MISSING_CODES:
        return ObjectMissingError(f"object does not exist; {where}")
    if code in EXISTS_CODES:
        return ObjectExistsError(f"object exists already; {where}")
    if code in CONFLICT_CODES:
        return ConditionalConflictError(f"another conditional write is in progress; {where}")
    if code in TRANSIENT_CODES or status >= 500 or status in _TRANSIENT_STATUS:
        return StorageUnavailableError(f"storage did not serve the request; {where}")
    return StorageAccessError(
        f"storage refuses the request, check state.checkpoints.dir and the s3. options; {where}"
    )


def from_client(error: botocore.exceptions.BotoCoreError, uri: str) -> HeadraceError:
    """Return the error for a failure on our side of the wire."""
    where = f"uri={uri} cause={type(error).__name__}"
    if isinstance(error, botocore.exceptions.SSLError):
        return StorageAccessError(
            f"storage's certificate is not trusted, check s3.endpoint; {where}"
        )
    if isinstance(error, _CREDENTIAL_ERRORS):
        return StorageAccessError(f"storage needs credentials, set {CREDENTIALS}; {where}")
    if isinstance(error, _TRANSIENT_CLIENT_ERRORS):
        return StorageUnavailableError(
            f"storage does not answer, check s3.endpoint if this lasts; {where}"
        )
    return StorageAccessError(f"storage client refuses the s3. options, check them; {where}")
