"""Figures of a running job, from epochs and checkpoints to REST and Prometheus (K1, K2, K8)."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from headrace.api.driver import CheckpointSummary, JobState, JobStatus
from headrace.checkpoint.history import CheckpointHistory
from headrace.driver.admission import AdmissionStatus
from headrace.driver.progress import JobProgress
from headrace.driver.rest import RestServer, build_app
from headrace.driver.status import StatusBoard

JOB = "0123456789abcdef0123456789abcdef"


@dataclass
class Clock:
    """Time that the test moves."""

    seconds: float = 1_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic_s(self) -> float:
        return self.seconds


class Job:
    """Progress over a board, fed with epochs of one second and two slots."""

    def __init__(self) -> None:
        self.clock = Clock()
        status = JobStatus(job_id=JOB, name="payments", state=JobState.RUNNING, parallelism=2)
        self.board = StatusBoard(status, self.clock)
        self.progress = JobProgress(self.board, self.clock)

    def epoch(
        self, records: int, admission: AdmissionStatus, watermark_ms: int | None = None
    ) -> None:
        self.clock.seconds += 1
        result = SimpleNamespace(
            records_in=records // 2,
            watermark_ms=watermark_ms,
            decode_ns=1_000_000,
            user_ns=3_000_000,
            timers_ns=0,
        )
        self.progress.epoch_finished(
            SimpleNamespace(
                epoch=3, results=(result, result), duration_ms=900.0, admission=admission
            )
        )


@pytest.fixture
def job():
    return Job()


def test_lag_and_limit_of_an_epoch_are_shown(job):
    job.epoch(100, AdmissionStatus(lag=4_711, max_rows=64_000))

    metrics = job.board.metrics()
    assert 4_711 == job.board.get().source_lag == metrics["sourceLag"] == metrics["pendingRecords"]
    assert 64_000 == metrics["epochMaxRows"]


def test_a_lag_that_is_not_known_is_not_shown_as_zero(job):
    job.epoch(100, AdmissionStatus(lag=5, max_rows=64_000))
    job.epoch(100, AdmissionStatus(lag=None, max_rows=None))

    assert job.board.get().source_lag is None
    assert not {"sourceLag", "pendingRecords", "epochMaxRows"} & job.board.metrics().keys()


def test_the_watermark_and_how_far_it_lags_behind_the_clock_are_shown(job):
    job.epoch(100, AdmissionStatus(None, None), watermark_ms=990_000)

    metrics = job.board.metrics()
    assert (990_000, 11_000) == (metrics["currentInputWatermark"], metrics["watermarkLag"])


def test_rates_are_over_the_last_seconds(job):
    for _ in range(30):
        job.epoch(1_000, AdmissionStatus(None, None))

    assert 1_000 == pytest.approx(job.board.metrics()["numRecordsInPerSecond"], rel=0.01)


def test_rest_and_prometheus_answer_by_the_exact_names(job):
    """The names that dashboards ask for, and what a checkpoint of 3 s with 42 new bytes gives."""
    job.epoch(1_000, AdmissionStatus(lag=7, max_rows=1_000))
    job.epoch(1_000, AdmissionStatus(lag=7, max_rows=1_000))
    history = CheckpointHistory()
    summary = CheckpointSummary(
        id=5,
        status="COMPLETED",
        generation=1,
        epoch=3,
        path="chk-5",
        trigger_ms=0,
        duration_ms=3_000,
        sync_ms=2.5,
        state_size_bytes=4_200,
        uploaded_bytes=42,
    )
    history.triggered(summary)
    history.completed(summary)
    job.progress.checkpoints(history)
    server = RestServer(build_app(job.board, "token", lambda: None), "127.0.0.1", 0)
    port = server.start()
    try:
        names = "numRecordsInPerSecond,checkpointDuration,stateSizeBytes,lastCheckpointSize"
        asked = f"jobs/{JOB}/metrics?get={names},lastCheckpointDuration,sourceLag,unknown"
        answer = json.loads(get(port, asked))
        text = get(port, "metrics")
    finally:
        server.stop()

    assert [
        {"id": "numRecordsInPerSecond", "value": "1000"},
        {"id": "checkpointDuration", "value": "3000"},
        {"id": "stateSizeBytes", "value": "4200"},
        {"id": "lastCheckpointSize", "value": "42"},
        {"id": "lastCheckpointDuration", "value": "3000"},
        {"id": "sourceLag", "value": "7"},
    ] == answer
    assert f'headrace_job_sourceLag{{job_id="{JOB}",job_name="payments"}} 7.0' in text
    for name in names.split(","):
        assert f"headrace_job_{name}{{" in text


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
        return answer.read().decode()
