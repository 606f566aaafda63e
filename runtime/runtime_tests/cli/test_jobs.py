"""``headrace savepoint`` and ``headrace stop`` against a driver that answers as it is told to."""

from __future__ import annotations

import json
import threading

import pytest
from typer.testing import CliRunner

from headrace.cli import jobs
from headrace.cli.jobs import SENDS_MAX, RemoteJob
from headrace.cli.main import build_app
from headrace.errors import InvalidConfigError, SavepointFailedError, SourceUnavailableError

DONE = {"status": {"id": "COMPLETED"}, "operation": {"location": "s3://bucket/sp"}}
BUSY = {"status": {"id": "IN_PROGRESS"}, "operation": None}
FAILED = {
    "status": {"id": "COMPLETED"},
    "operation": {"failure-cause": {"class": "SavepointFailed", "stack-trace": "disk full"}},
}
TAKEN = {"request-id": "x"}


class Driver:
    """Answers requests in the given order; an OSError stands for no answer."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.now_s = 0.0

    def send(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        status, body = answer
        return status, json.dumps(body).encode()

    def monotonic_s(self) -> float:
        return self.now_s

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        self.now_s += timeout_s
        return False

    def now_ms(self) -> int:
        return 0

    def take(self, path="savepoints", body=None, directory=None, timeout_s=5.0):
        job = RemoteJob("http://driver:8081/", "a" * 32, "secret", self.send, self)
        return job.take(path, body or {}, directory, timeout_s)

    def bodies(self):
        return [json.loads(r.data) for r in self.requests if r.data is not None]


def test_a_savepoint_is_ordered_and_awaited():
    driver = Driver((202, TAKEN), (200, BUSY), (200, DONE))
    assert driver.take(directory="s3://bucket") == "s3://bucket/sp"
    order, *polls = driver.requests
    assert order.full_url == f"http://driver:8081/jobs/{'a' * 32}/savepoints"
    assert order.get_header("Authorization") == "Bearer secret"
    [body] = driver.bodies()
    assert body["targetDirectory"] == "s3://bucket"
    assert [f"{order.full_url}/{body['triggerId']}"] * 2 == [poll.full_url for poll in polls]


def test_a_stop_says_whether_it_drains():
    driver = Driver((202, TAKEN), (200, DONE))
    driver.take("stop", {"drain": True})
    assert driver.requests[0].full_url.endswith("/stop")
    assert driver.bodies()[0]["drain"] is True


def test_an_order_without_an_answer_is_sent_again_and_means_the_same_savepoint():
    driver = Driver(OSError("reset"), OSError("reset"), (202, TAKEN), OSError("x"), (200, DONE))
    assert driver.take() == "s3://bucket/sp"
    assert len({body["triggerId"] for body in driver.bodies()}) == 1


def test_a_driver_that_does_not_answer_is_named():
    driver = Driver(*[OSError("refused")] * SENDS_MAX)
    with pytest.raises(SourceUnavailableError, match="driver=http://driver:8081"):
        driver.take()


def test_a_failed_savepoint_shows_its_cause():
    with pytest.raises(SavepointFailedError, match="SavepointFailed: disk full"):
        Driver((202, TAKEN), (200, FAILED)).take()


@pytest.mark.parametrize(
    ("status", "body", "shown"),
    [
        (401, {"detail": "this call needs the job's bearer token"}, "bearer token"),
        (422, {"detail": [{"msg": "wrong"}]}, "wrong"),
        (500, "Internal Server Error", "Internal Server Error"),
    ],
)
def test_a_refusal_is_shown_with_its_reason(status, body, shown):
    with pytest.raises(InvalidConfigError, match=shown):
        Driver((status, body)).take()


def test_a_savepoint_that_takes_too_long_names_its_trigger():
    driver = Driver((202, TAKEN), *[(200, BUSY)] * 20)
    with pytest.raises(SavepointFailedError, match="trigger_id=") as caught:
        driver.take(timeout_s=2.0)
    assert driver.bodies()[0]["triggerId"] in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["savepoint", "a" * 32], None),
        (["savepoint", "a" * 32, "--type", "canonical"], "CANONICAL"),
        (["stop", "a" * 32, "--type", "NATIVE", "--drain"], "NATIVE"),
    ],
)
def test_the_format_of_a_savepoint_is_named_as_flinks_command_names_it(
    monkeypatch, arguments, named
):
    driver = Driver((202, TAKEN), (200, DONE))
    monkeypatch.setattr(jobs, "send", driver.send)
    result = CliRunner().invoke(build_app(arguments, [], {}), arguments)
    assert (0, "s3://bucket/sp\n") == (result.exit_code, result.output)
    assert named == driver.bodies()[0].get("formatType")
