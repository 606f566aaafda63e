"""What the driver says, and since when it is silent or stands still.

The only memory of the operator that is not in the cluster: after a restart the clocks of silence
and of standing still begin anew, which can only delay a restart of a hung job.
"""

from __future__ import annotations

from datetime import datetime

from headrace.api.driver import JobState, JobStatus
from headrace_operator.observe.driver import DriverClient, NoAnswer
from headrace_operator.observe.facts import DriverAnswer, DriverSilence, PodFacts


class DriverWatch:
    """Asks the driver and remembers since when it is silent or stands still."""

    def __init__(self, client: DriverClient) -> None:
        self._client = client
        self._pod_uid = ""
        self._last: JobStatus | None = None
        self._silent_since: datetime | None = None
        self._progress: tuple[object, ...] = ()
        self._progress_at: datetime | None = None

    async def ask(
        self, driver: PodFacts | None, job_id: str, now: datetime
    ) -> DriverAnswer | DriverSilence | None:
        """Return what the driver says; None when there is none to ask."""
        if driver is None or driver.phase != "Running" or not driver.ip:
            return None
        if driver.uid != self._pod_uid:
            self._pod_uid, self._last = driver.uid, None
            self._silent_since = self._progress_at = None
        answer = await self._client.job_status(driver.ip, job_id)
        if isinstance(answer, NoAnswer):
            self._silent_since = self._silent_since or now
            return DriverSilence(self._silent_since, answer.cause, self._last)
        self._silent_since, self._last = None, answer
        return DriverAnswer(answer, self._stalled_since(answer, now))

    def _stalled_since(self, job: JobStatus, now: datetime) -> datetime | None:
        """Only a job that calls itself running can hang; restoring much state takes its time."""
        if job.state is not JobState.RUNNING:
            self._progress_at = None
            return None
        checkpoint = job.last_checkpoint.id if job.last_checkpoint is not None else 0
        progress = (job.generation, job.epoch, job.epochs_committed, checkpoint)
        if self._progress_at is None or progress != self._progress:
            self._progress, self._progress_at = progress, now
        return self._progress_at
