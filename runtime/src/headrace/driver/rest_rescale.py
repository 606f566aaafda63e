"""REST calls that rescale a running job (F-section).

``POST`` answers at once; ``GET`` tells how far the present or the last rescale is and what it cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import FastAPI, Header, HTTPException

from headrace.api.driver import RescaleReport, RescaleRequest, TriggerAnswer
from headrace.errors import HeadraceError, InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.driver.rescaling import RescaleOperation, RescaleService
    from headrace.driver.rest_savepoints import Guard


def add_rescale_routes(
    app: FastAPI, guard: Guard, service: Callable[[], RescaleService | None]
) -> None:
    """Add the routes.

    Args:
        app: the driver's application.
        guard: checks job ids and tokens.
        service: returns the running job's rescales, None while there is no running job.
    """

    def running() -> RescaleService:
        found = service()
        if found is None:
            raise HTTPException(409, "the job has not started")
        return found

    @app.post("/jobs/{job_id}/rescale", status_code=202)
    def rescale(
        job_id: str,
        request: RescaleRequest,
        authorization: Annotated[str | None, Header()] = None,
    ) -> dict[str, str]:
        guard.check_token(authorization)
        guard.check_job(job_id)
        try:
            operation = running().order(request.parallelism)
        except HeadraceError as error:
            status = 400 if isinstance(error, InvalidConfigError) else 409
            raise HTTPException(status, f"{error.kind}: {error}") from error
        return TriggerAnswer(request_id=operation.trigger_id).model_dump(by_alias=True)

    @app.get("/jobs/{job_id}/rescale")
    def last_rescale(job_id: str) -> dict[str, object]:
        guard.check_job(job_id)
        operation = running().operation()
        if operation is None:
            raise HTTPException(404, "this driver has not rescaled the job")
        return describe(operation).model_dump(mode="json", by_alias=True)


def describe(operation: RescaleOperation) -> RescaleReport:
    """Return what REST says about a rescale."""
    return RescaleReport(
        request_id=operation.trigger_id,
        phase=operation.phase.value,
        from_parallelism=operation.from_parallelism,
        to_parallelism=operation.to_parallelism,
        key_groups_moved=operation.key_groups_moved,
        bytes_moved=operation.bytes_moved,
        prepare_ms=operation.prepare_ms,
        pause_ms=operation.pause_ms,
        started_ms=operation.started_ms,
        ended_ms=operation.ended_ms,
        failure=operation.error,
    )
