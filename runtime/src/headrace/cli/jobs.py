"""``headrace savepoint`` and ``headrace stop``: a running job over its driver's REST.

The client chooses the trigger id, so every request may be sent again when its answer was lost: it
means the same savepoint.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.api.driver import (
    ENV_TOKEN,
    REST_PORT,
    OperationStatus,
    SavepointAnswer,
    SavepointFormatType,
)
from headrace.clock import SystemClock
from headrace.errors import (
    HeadraceError,
    InvalidConfigError,
    SavepointFailedError,
    SourceUnavailableError,
)
from headrace.ids import new_trigger_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.clock import Clock

DRIVER_DEFAULT: Final = f"http://localhost:{REST_PORT}"
POLL_S: Final = 0.5
REQUEST_TIMEOUT_S: Final = 30.0
SENDS_MAX: Final = 5
"""So often is a request sent whose answer does not come."""

JobId = Annotated[str, typer.Argument(metavar="JOB_ID", help="32 hexadecimal digits.")]
Driver = Annotated[
    str, typer.Option("--driver", help="REST address, e.g. of kubectl port-forward.")
]
Token = Annotated[str, typer.Option("--token", envvar=ENV_TOKEN, help="Bearer token of the job.")]
FormatType = Annotated[
    SavepointFormatType | None,
    typer.Option(
        "--type",
        case_sensitive=False,
        help="Format of the savepoint; by default the one that the job is configured with.",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", help="Seconds to wait for the outcome.")]


def savepoint(
    job_id: JobId,
    directory: Annotated[
        str | None, typer.Argument(help="Parent directory; by default the job's own.")
    ] = None,
    format_type: FormatType = None,
    driver: Driver = DRIVER_DEFAULT,
    token: Token = "",
    timeout: Timeout = 600.0,
) -> None:
    """Take a savepoint of a running job and print where it is."""
    job = RemoteJob(driver, job_id, token, send, SystemClock())
    sys.stdout.write(f"{job.take('savepoints', _named(format_type), directory, timeout)}\n")


def stop(  # noqa: PLR0913, PLR0917 - each is an option of the command
    job_id: JobId,
    directory: Annotated[
        str | None, typer.Option("--savepoint-path", "-p", help="Parent of the savepoint.")
    ] = None,
    drain: Annotated[
        bool, typer.Option("--drain", "-d", help="Fire all timers first; for good.")
    ] = False,
    format_type: FormatType = None,
    driver: Driver = DRIVER_DEFAULT,
    token: Token = "",
    timeout: Timeout = 600.0,
) -> None:
    """Stop a running job with a savepoint and print where it is."""
    job = RemoteJob(driver, job_id, token, send, SystemClock())
    body = {"drain": drain, **_named(format_type)}
    sys.stdout.write(f"{job.take('stop', body, directory, timeout)}\n")


def _named(format_type: SavepointFormatType | None) -> dict[str, object]:
    return {} if format_type is None else {"formatType": format_type.value}


def send(request: urllib.request.Request) -> tuple[int, bytes]:
    """Send a request; returns status and body.

    Raises:
        OSError: nobody answered.
    """
    try:
        with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except http.client.HTTPException as error:
        msg = f"the answer was cut off: {error!r}"
        raise OSError(msg) from error


@dataclass(frozen=True, slots=True)
class RemoteJob:
    """A job behind its driver's REST."""

    driver: str
    job_id: str
    token: str
    send: Callable[[urllib.request.Request], tuple[int, bytes]]
    clock: Clock

    def take(
        self, path: str, body: dict[str, object], directory: str | None, timeout_s: float
    ) -> str:
        """Order a savepoint and wait for it; returns its location.

        Args:
            path: ``savepoints`` or ``stop``.
            body: what the request says besides directory and trigger id.
            directory: parent directory, None for the job's own.
            timeout_s: how long to wait; the savepoint may still be made afterwards.

        Raises:
            InvalidConfigError: the driver refuses the request.
            SavepointFailedError: it was not made, or not in time.
            SourceUnavailableError: the driver does not answer.
        """
        trigger_id = new_trigger_id()
        deadline_s = self.clock.monotonic_s() + timeout_s
        self._call("POST", path, {**body, "targetDirectory": directory, "triggerId": trigger_id})
        while self.clock.monotonic_s() < deadline_s:
            answer = SavepointAnswer.model_validate_json(
                self._call("GET", f"savepoints/{trigger_id}", None)
            )
            if answer.status.id is OperationStatus.COMPLETED and answer.operation is not None:
                cause = answer.operation.failure_cause
                if cause is not None:
                    raise SavepointFailedError(f"{cause.kind}: {cause.message}")
                return answer.operation.location or ""
            self._pause()
        msg = f"no outcome in time, ask again; trigger_id={trigger_id} timeout_s={timeout_s:g}"
        raise SavepointFailedError(msg)

    def _call(self, method: str, path: str, body: dict[str, object] | None) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the user names the driver
            f"{self.driver.rstrip('/')}/jobs/{urllib.parse.quote(self.job_id)}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        for left in reversed(range(SENDS_MAX)):
            try:
                status, answer = self.send(request)
            except OSError as error:
                if left == 0:
                    msg = f"the driver does not answer, check --driver; driver={self.driver}"
                    raise SourceUnavailableError(msg) from error
                self._pause()
            else:
                return _checked(status, answer)
        msg = "unreachable: the last attempt raises"
        raise AssertionError(msg)

    def _pause(self) -> None:
        self.clock.wait(threading.Event(), POLL_S)


def _checked(status: int, answer: bytes) -> bytes:
    if status < 400:
        return answer
    raise _refusal(status, answer)


def _refusal(status: int, answer: bytes) -> HeadraceError:
    try:
        detail = json.loads(answer)["detail"]
    except (ValueError, KeyError, TypeError):
        detail = answer[:200].decode(errors="replace")
    return InvalidConfigError(f"the driver refuses: {detail}; status={status}")
