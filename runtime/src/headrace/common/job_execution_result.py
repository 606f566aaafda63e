"""What `execute` returns, as ``pyflink.common.job_execution_result``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.ids import JobId


@dataclass(frozen=True, slots=True)
class JobExecutionResult:
    """Result of a job that has ended.

    Attributes:
        job_id: the job.
        net_runtime_ms: from the first start to the end, restarts included.
        accumulators: named results of the job.
    """

    job_id: JobId
    net_runtime_ms: int
    accumulators: Mapping[str, object] = field(default_factory=dict)

    def get_job_id(self) -> JobId:
        """Return the job's id."""
        return self.job_id

    def get_net_runtime(self) -> int:
        """Return the run time in milliseconds."""
        return self.net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> object:
        """Return a named result, None when there is none."""
        return self.accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, object]:
        """Return all named results."""
        return dict(self.accumulators)
