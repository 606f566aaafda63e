"""The REST client of a job's driver: one question, one short timeout, no retries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import aiohttp
from pydantic import ValidationError

from headrace.api.driver import JobStatus


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """The driver did not give a usable answer."""

    cause: str


class DriverClient(Protocol):
    """How the operator asks a driver about its job."""

    async def job_status(self, ip: str, job_id: str) -> JobStatus | NoAnswer:
        """Return ``GET /jobs/<id>`` of the driver at ``ip``."""
        ...


class HttpDriverClient:
    """`DriverClient` over HTTP; made and used in one event loop."""

    def __init__(self, *, timeout_s: float, port: int) -> None:
        self._port = port
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=timeout_s))

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def job_status(self, ip: str, job_id: str) -> JobStatus | NoAnswer:
        """Return the driver's account of the job, or why there is none."""
        host = f"[{ip}]" if ":" in ip else ip
        try:
            async with self._session.get(f"http://{host}:{self._port}/jobs/{job_id}") as answer:
                body = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return NoAnswer(f"{type(error).__name__}: {error}".rstrip(": "))
        if answer.status != 200:
            return NoAnswer(f"status={answer.status}")
        try:
            return JobStatus.model_validate_json(body)
        except ValidationError as error:
            return NoAnswer(f"not a job status; problems={error.error_count()}")
