"""The job's bearer token: random, made once, never read back by the operator.

Deleting the Secret is how a token is rotated: the operator makes a new one and restarts the driver
from its last checkpoint, so that driver and executors share it again.
"""

from __future__ import annotations

from typing import Final

from headrace.api.names import token_secret_name
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.resources.identity import JobIdentity, head

TOKEN_KEY: Final = "token"  # noqa: S105 - the key's name, not a token
TOKEN_BYTES: Final = 32


def build_token_secret(job: JobIdentity, token: str) -> Manifest:
    """Return the Secret that holds ``token``; immutable, so that it cannot drift from the pods."""
    return {
        **head(Kind.SECRET),
        "metadata": job.metadata(token_secret_name(job.name)),
        "type": "Opaque",
        "immutable": True,
        "stringData": {TOKEN_KEY: token},
    }
