"""What a slot process is told when it is started, and where it finds its secret.

The arguments are visible in the process list, so the token is not among them: it comes from the
environment of the executor (`ENV_TOKEN`), which Kubernetes fills from a Secret.
"""

from __future__ import annotations

import os
import socket
from typing import Final

import msgspec

from headrace.errors import InvalidConfigError
from headrace.ids import JobId

ENV_TOKEN: Final = "HEADRACE_TOKEN"  # noqa: S105 - the variable's name, not a token


ENV_LOG_LEVEL: Final = "HEADRACE_LOG_LEVEL"
"""Level of the slot processes' log; in a pod INFO, in a local run WARNING."""


class SlotArguments(msgspec.Struct, frozen=True):
    """First command-line argument of ``python -m headrace.slot``, as JSON.

    Attributes:
        coordinator: ``host:port`` of the control channel.
        executor_pid: the process dies with this one.
        layout: which set of slots it belongs to.
        local_dir: parent of its working directory; None = the executor's first local directory.
    """

    job_id: JobId
    slot: int
    layout: int
    coordinator: str
    executor_id: str
    executor_pid: int
    local_dir: str | None


def slot_token() -> str:
    """Return the job's token from the environment.

    Raises:
        InvalidConfigError: it is not set.
    """
    token = os.environ.get(ENV_TOKEN)
    if not token:
        msg = f"the environment has no job token, set it from the Secret; variable={ENV_TOKEN}"
        raise InvalidConfigError(msg)
    return token


def own_address(coordinator: str) -> str:
    """Return the local address from which the coordinator is reached."""
    host, _, port = coordinator.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))  # no packet is sent
        return str(probe.getsockname()[0])
