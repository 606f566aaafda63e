"""The driver's REST API (K1, K5): the job's status for people, dashboards and the operator.

Read-only calls are open inside the cluster; everything that changes something needs the job's
bearer token. Paths and names are Flink's where Flink has them. Runs in a thread of its own; reads
the `StatusBoard` only, so a slow client never holds the job.
"""

from __future__ import annotations

import hmac
import logging
import threading
from typing import TYPE_CHECKING, Annotated, Final, Protocol

import uvicorn
from fastapi import FastAPI, Header, HTTPException, Query, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from headrace.api.driver import JobState, JobStatus
from headrace.driver.rest_rescale import add_rescale_routes
from headrace.driver.rest_savepoints import add_savepoint_routes
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.driver.rescaling import RescaleService
    from headrace.driver.savepoints import SavepointService
    from headrace.driver.status import StatusBoard

log = logging.getLogger(__name__)

START_TIMEOUT_S: Final = 10.0


class JobControl(Protocol):
    """What REST may ask of the job."""

    savepoints: SavepointService
    rescales: RescaleService

    def stop(self, *, cancel: bool) -> None:
        """Ask the job to end between two epochs."""
        ...


class _Guard:
    """Checks job ids and the job's token."""

    def __init__(self, board: StatusBoard, token: str) -> None:
        self._board = board
        self._expected = f"Bearer {token}"

    def check_job(self, job_id: str) -> JobStatus:
        """Return the job's status; 404 when it is not this driver's job."""
        status = self._board.get()
        if status.job_id != job_id:
            raise HTTPException(404, f"no such job; job_id={job_id} this_driver={status.job_id}")
        return status

    def check_token(self, authorization: str | None) -> None:
        """Raise 401 unless the header holds the token."""
        if not hmac.compare_digest(authorization or "", self._expected):
            raise HTTPException(401, "this call needs the job's bearer token")


def build_app(board: StatusBoard, token: str, control: Callable[[], JobControl | None]) -> FastAPI:  # noqa: C901 - a nested function a route, none of them branches
    """Return the ASGI application of one job."""
    app = FastAPI(title="Headrace driver", docs_url=None, redoc_url=None)
    registry = CollectorRegistry()
    registry.register(_BoardCollector(board))

    guard = _Guard(board, token)

    def savepoints() -> SavepointService | None:
        running = control()
        return running.savepoints if running is not None else None

    def rescales() -> RescaleService | None:
        running = control()
        return running.rescales if running is not None else None

    add_savepoint_routes(app, guard, savepoints)
    add_rescale_routes(app, guard, rescales)

    @app.get("/jobs")
    def jobs() -> dict[str, object]:
        status = board.get()
        return {"jobs": [{"id": status.job_id, "status": status.state.value}]}

    @app.get("/jobs/{job_id}")
    def job(job_id: str) -> dict[str, object]:
        return guard.check_job(job_id).model_dump(mode="json", by_alias=True)

    @app.get("/jobs/{job_id}/checkpoints")
    def checkpoints(job_id: str) -> dict[str, object]:
        guard.check_job(job_id)
        entries, counts = board.checkpoints()
        totals = (
            {
                "triggered": counts.triggered,
                "in_progress": counts.in_progress,
                "completed": counts.completed,
                "failed": counts.failed,
                "restored": counts.restored,
            }
            if counts
            else {}
        )
        history = [entry.model_dump(mode="json", by_alias=True) for entry in entries]
        return {"counts": totals, "history": history}

    @app.get("/jobs/{job_id}/metrics")
    def metrics(job_id: str, get: Annotated[str | None, Query()] = None) -> list[dict[str, str]]:
        guard.check_job(job_id)
        values = board.metrics()
        if get is None:
            return [{"id": name} for name in sorted(values)]
        names = [name for name in get.split(",") if name]
        return [{"id": n, "value": _number(values[n])} for n in names if n in values]

    @app.patch("/jobs/{job_id}", status_code=202)
    def stop_job(
        job_id: str,
        mode: Annotated[str, Query(pattern="^(cancel|stop)$")] = "cancel",
        authorization: Annotated[str | None, Header()] = None,
    ) -> dict[str, str]:
        guard.check_token(authorization)
        guard.check_job(job_id)
        running = control()
        if running is None:
            raise HTTPException(409, "the job has not started or has ended")
        running.stop(cancel=mode == "cancel")
        return {"status": "stopping"}

    @app.get("/healthz")
    def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/readyz")
    def readyz() -> dict[str, str]:
        status = board.get()
        if status.state is not JobState.RUNNING or status.epochs_committed == 0:
            raise HTTPException(503, f"not ready; state={status.state} epoch={status.epoch}")
        return {"status": "ok"}

    @app.get("/metrics")
    def prometheus() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return app


def _number(value: float) -> str:
    """Return a metric as Flink's REST API writes it: text, whole numbers without a fraction."""
    return str(int(value)) if value == int(value) else str(value)


class _BoardCollector:
    """The job's gauges for Prometheus, read at scrape time."""

    def __init__(self, board: StatusBoard) -> None:
        self._board = board

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Yield every gauge of the job."""
        status = self._board.get()
        values = {
            **self._board.metrics(),
            "restarts": float(status.restarts),
            "generation": float(status.generation),
            "parallelism": float(status.parallelism),
            "running": float(status.state is JobState.RUNNING),
        }
        for name, value in sorted(values.items()):
            family = GaugeMetricFamily(
                f"headrace_job_{name}", f"Job gauge {name}.", labels=["job_id", "job_name"]
            )
            family.add_metric([status.job_id, status.name], value)
            yield family


class RestServer:
    """Serves the API in a thread until `stop`."""

    def __init__(self, app: FastAPI, host: str, port: int) -> None:
        config = uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, name="rest", daemon=True)
        self._address = f"{host}:{port}"

    def start(self) -> int:
        """Start to serve; returns the port.

        Raises:
            InvalidConfigError: the port is taken.
        """
        self._thread.start()
        waiter = threading.Event()
        for _ in range(int(START_TIMEOUT_S / 0.05)):
            if self._server.started:
                port: int = self._server.servers[0].sockets[0].getsockname()[1]
                log.info("REST listens port=%s", port)
                return port
            if not self._thread.is_alive():
                break
            waiter.wait(0.05)
        msg = f"the REST port cannot be opened, set rest.port; address={self._address}"
        raise InvalidConfigError(msg)

    def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(5.0)
