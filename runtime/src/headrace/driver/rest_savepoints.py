"""REST calls that take savepoints (K5), with Flink's paths, bodies and asynchronous answers.

``POST`` answers at once with a trigger id; ``GET`` with that id tells how far it is. A trigger id
that the caller chooses makes the call repeatable: the same id is the same savepoint, also when the
first answer was lost or another driver gets the second call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Protocol

from fastapi import FastAPI, Header, HTTPException

from headrace.api.driver import (
    FailureCause,
    OperationStatus,
    OperationStatusBody,
    RequestModel,
    SavepointAnswer,
    SavepointOutcome,
    SavepointRequest,
    StopRequest,
    TriggerAnswer,
)
from headrace.checkpoint.protocol.savepoints import SavepointFormat
from headrace.driver.savepoints import SavepointOrder
from headrace.engine.spark_log import source_offsets
from headrace.errors import (
    HeadraceError,
    InvalidConfigError,
    StorageAccessError,
    StorageUnavailableError,
)
from headrace.ids import TriggerId

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.checkpoint.protocol.types import CheckpointMetadata
    from headrace.driver.savepoints import SavepointOperation, SavepointService
    from headrace.ids import OperatorUid

_STATUS_BY_ERROR = {InvalidConfigError: 400, StorageAccessError: 400, StorageUnavailableError: 503}
"""HTTP status of an order that was refused; 409 for every other error."""


class Guard(Protocol):
    """Who may call what."""

    def check_job(self, job_id: str) -> object:
        """Raise 404 unless ``job_id`` is this driver's job."""
        ...

    def check_token(self, authorization: str | None) -> None:
        """Raise 401 unless the header holds the job's token."""
        ...


def add_savepoint_routes(
    app: FastAPI, guard: Guard, service: Callable[[], SavepointService | None]
) -> None:
    """Add the routes.

    Args:
        app: the driver's application.
        guard: checks job ids and tokens.
        service: returns the running job's savepoints, None while there is no running job.
    """

    def running() -> SavepointService:
        found = service()
        if found is None:
            raise HTTPException(409, "the job has not started")
        return found

    @app.post("/jobs/{job_id}/savepoints", status_code=202)
    def trigger_savepoint(
        job_id: str,
        request: SavepointRequest,
        authorization: Annotated[str | None, Header()] = None,
    ) -> dict[str, str]:
        guard.check_token(authorization)
        guard.check_job(job_id)
        return _ordered(running(), request, stop=False, drain=False)

    @app.post("/jobs/{job_id}/stop", status_code=202)
    def stop_with_savepoint(
        job_id: str,
        request: StopRequest,
        authorization: Annotated[str | None, Header()] = None,
    ) -> dict[str, str]:
        guard.check_token(authorization)
        guard.check_job(job_id)
        return _ordered(running(), request, stop=True, drain=request.drain)

    @app.get("/jobs/{job_id}/savepoints/{trigger_id}")
    def savepoint(job_id: str, trigger_id: str) -> dict[str, object]:
        guard.check_job(job_id)
        found = running()
        operation = found.read(trigger_id)
        if operation is None:
            raise HTTPException(404, f"no such trigger in this driver; trigger_id={trigger_id}")
        return describe(operation, found.settings.source_uids).model_dump(
            mode="json", by_alias=True
        )


def _ordered(
    service: SavepointService, request: RequestModel, *, stop: bool, drain: bool
) -> dict[str, str]:
    trigger_id = TriggerId(request.trigger_id) if request.trigger_id is not None else None
    named = request.format_type
    form = SavepointFormat(named.value) if named is not None else None
    order = SavepointOrder(request.target_directory, trigger_id, form, stop=stop, drain=drain)
    try:
        accepted = service.order(order)
    except HeadraceError as error:
        status = _STATUS_BY_ERROR.get(type(error), 409)
        raise HTTPException(status, f"{error.kind}: {error}") from error
    return TriggerAnswer(request_id=accepted).model_dump(by_alias=True)


def describe(
    operation: SavepointOperation, source_uids: tuple[OperatorUid, ...]
) -> SavepointAnswer:
    """Return what REST says about an order."""
    if not operation.has_ended:
        return SavepointAnswer(status=OperationStatusBody(id=OperationStatus.IN_PROGRESS))
    outcome = SavepointOutcome(
        triggered_ms=operation.triggered_ms, completed_ms=operation.ended_ms or 0
    )
    if operation.error is not None:
        cause = FailureCause(kind=operation.error.kind, message=str(operation.error))
        outcome = outcome.model_copy(update={"failure_cause": cause})
    if operation.savepoint is not None:
        metadata = operation.savepoint.metadata
        outcome = outcome.model_copy(
            update={
                "location": operation.savepoint.location,
                "checkpoint_id": metadata.checkpoint_id,
                "size_bytes": operation.savepoint.size_bytes,
                "key_groups": metadata.max_parallelism,
                "parallelism": metadata.parallelism,
                "offsets": _offsets(metadata, source_uids),
            }
        )
    status = OperationStatusBody(id=OperationStatus.COMPLETED)
    return SavepointAnswer(status=status, operation=outcome)


def _offsets(metadata: CheckpointMetadata, source_uids: tuple[OperatorUid, ...]) -> dict[str, str]:
    if metadata.source is None:
        return {}
    offsets = source_offsets(metadata.source)
    return {
        uid: offset for uid, offset in zip(source_uids, offsets, strict=False) if offset is not None
    }
