"""A job over files with its driver, and the oracle of a counting one's output."""

from __future__ import annotations

import contextlib
import json
import random
import time
import urllib.error
import urllib.request
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.api.driver import DriverConfig, OperationStatus, SavepointAnswer
from headrace.testing.driver_process import TOKEN, DriverProcess, kill_process
from runtime_tests.kill.ledger import free_port

PROGRAM = Path(__file__).with_name("count_program.py")


@dataclass(slots=True)
class World:
    """Input, output and state of jobs that follow each other."""

    directory: Path
    chooser: random.Random = field(default_factory=lambda: random.Random(7))
    written: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.input.mkdir(parents=True)

    @property
    def input(self) -> Path:
        return self.directory / "input"

    def write_lines(self, lines: int, keys: int = 40) -> None:
        """Let one file of random keys appear at once."""
        chosen = [f"key-{self.chooser.randrange(keys)}" for _ in range(lines)]
        self.written.update(chosen)
        self.write(chosen)

    def write(self, lines: list[str]) -> None:
        """Let one file appear at once."""
        unfinished = self.directory / "unfinished"
        unfinished.write_text("\n".join(lines) + "\n")
        unfinished.rename(self.input / f"{uuid.uuid4().hex}.txt")

    def counts(self) -> Counter[str]:
        """Return the output that everything written so far must give."""
        return Counter(
            f"{key}:{n + 1}" for key, lines in self.written.items() for n in range(lines)
        )

    def ends(self) -> Counter[str]:
        """Return what a drain adds."""
        return Counter(f"{key}:end:{lines}" for key, lines in self.written.items())


def output_of(directory: Path) -> Counter[str]:
    """Return the lines of all published files."""
    return Counter(
        line for path in directory.rglob("part-*") for line in path.read_text().splitlines()
    )


@dataclass(slots=True)
class Job:
    """One job over the world's input."""

    driver: DriverProcess
    output: Path

    def lines(self) -> Counter[str]:
        """Return the lines that are published by now."""
        return output_of(self.output)

    @property
    def checkpoints(self) -> Path:
        return self.driver.directory / "checkpoints" / self.driver.config.job_id

    def call(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, object]]:
        """Call the driver's REST API; returns status and body."""
        port = self.driver.config.config["rest.port"]
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/jobs/{self.driver.config.job_id}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def order(self, path: str, **body: object) -> str:
        """Order a savepoint or a stop; returns the trigger id."""
        status, answer = self.call("POST", path, body)
        assert status == 202, answer
        return str(answer["request-id"])

    def outcome(self, trigger_id: str, timeout_s: float = 120) -> SavepointAnswer:
        """Wait until an order has ended."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                status, answer = self.call("GET", f"/savepoints/{trigger_id}")
                assert status == 200, answer
                parsed = SavepointAnswer.model_validate(answer)
                if parsed.status.id is OperationStatus.COMPLETED:
                    return parsed
            time.sleep(0.1)
        raise AssertionError(f"no outcome\n{self.driver.log_tail()}")

    def location(self, trigger_id: str) -> str:
        """Wait for a savepoint; returns where it is."""
        outcome = self.outcome(trigger_id).operation
        assert outcome is not None
        assert outcome.failure_cause is None, outcome
        assert outcome.location is not None
        return outcome.location

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 240) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline, self.driver.log_tail()
            assert self.driver.returncode is None, self.driver.log_tail()
            time.sleep(0.1)

    def wait_for_output(self, expected: Counter[str]) -> None:
        """Wait until as many lines are there as expected, then compare."""
        self.wait_until(lambda: self.lines().total() >= expected.total())
        self.assert_output(expected)

    def assert_output(self, expected: Counter[str]) -> None:
        actual = self.lines()
        missing, surplus = expected - actual, actual - expected
        assert (Counter(), Counter()) == (missing, surplus)

    def wait_for_end(self, timeout_s: float = 120) -> int:
        """Wait until the driver has ended; returns its exit code."""
        deadline = time.monotonic() + timeout_s
        while self.driver.returncode is None:
            assert time.monotonic() < deadline, self.driver.log_tail()
            time.sleep(0.1)
        return self.driver.returncode

    def termination(self) -> dict[str, object]:
        """Return what the driver left for the operator."""
        text = (self.driver.directory / "termination").read_text()
        loaded: dict[str, object] = json.loads(text)
        return loaded


@contextlib.contextmanager
def running_job(
    world: World,
    name: str,
    output: Path,
    *,
    program: Path = PROGRAM,
    args: Sequence[str] = (),
    parallelism: int = 2,
    restore: str | None = None,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Job]:
    """Run a job until the block ends; kills whatever is left of it."""
    directory = world.directory / name
    directory.mkdir()
    config = DriverConfig(
        job_id=uuid.uuid4().hex,
        job_name=name,
        namespace="test",
        program=str(program),
        args=list(args or (str(world.input), str(output))),
        parallelism=parallelism,
        max_parallelism=128,
        config={
            "rest.port": str(free_port()),
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"file://{directory}/checkpoints",
            "execution.checkpointing.savepoint-dir": f"file://{world.directory}/savepoints",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "100 ms",
            **({"execution.savepoint.path": restore} if restore else {}),
            **(options or {}),
        },
        spark_conf={"spark.master": f"local[{max(2, parallelism)}]"},
    )
    driver = DriverProcess(config, directory, environment or {})
    driver.start()
    try:
        yield Job(driver, output)
    finally:
        driver.kill()
        for pid in driver.slots():
            kill_process(pid)
