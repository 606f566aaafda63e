"""S3 options, by the keys that Flink's S3 file systems use."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX: Final = "s3."

_KEYS: Final = {
    "s3.endpoint": "endpoint",
    "s3.path.style.access": "path_style_access",
    "s3.access-key": "access_key",
    "s3.secret-key": "secret_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
}


@dataclass(frozen=True, slots=True)
class S3Settings:
    """Where S3 is and who we are there.

    What is None comes from where boto3 looks by itself: environment (``AWS_ACCESS_KEY_ID``,
    ``AWS_ENDPOINT_URL_S3``, ``AWS_REGION``, ...), profile, web identity token, instance role.

    Attributes:
        endpoint: URL of the service.
        path_style_access: put the bucket into the path instead of the host name (MinIO).
        access_key, secret_key, session_token: static credentials.
        region: region of the bucket.
    """

    endpoint: str | None = None
    path_style_access: bool = False
    access_key: str | None = None
    secret_key: str | None = dataclasses.field(default=None, repr=False)
    session_token: str | None = dataclasses.field(default=None, repr=False)
    region: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> S3Settings:
        """Pick the ``s3.`` options out of a job's options.

        Raises:
            InvalidConfigError: an ``s3.`` key is unknown, a value malformed, or half of the
                credentials is missing.
        """
        given = {key: value for key, value in options.items() if key.startswith(PREFIX)}
        if unknown := sorted(given.keys() - _KEYS.keys()):
            msg = (
                f"unknown S3 option, correct its name; option={','.join(unknown)} "
                f"known={','.join(_KEYS)}"
            )
            raise InvalidConfigError(msg)
        if ("s3.access-key" in given) != ("s3.secret-key" in given):
            msg = "S3 credentials need both, set s3.access-key and s3.secret-key or neither"
            raise InvalidConfigError(msg)
        texts = {_KEYS[key]: value for key, value in given.items()}
        path_style = texts.pop("path_style_access", "false").strip().lower()
        if path_style not in {"true", "false"}:
            msg = f"option must be true or false; option=s3.path.style.access value={path_style}"
            raise InvalidConfigError(msg)
        return cls(path_style_access=path_style == "true", **texts)
