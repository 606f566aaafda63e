"""A real driver as a child process, on local Spark, for tests that kill things.

`DriverProcess` starts ``headrace driver`` as a pod would, knows the processes that belong to its
job (slots, executor JVMs), and kills them with SIGKILL. `supervise` plays the operator's part: a
driver that was killed is started again with the same job id.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.api.driver import DriverConfig, JobStatus
from headrace.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TOKEN: Final = "test-token"  # noqa: S105 - a token of tests
POLL_S: Final = 0.1


@dataclass(slots=True)
class DriverProcess:
    """One driver process and what belongs to it.

    Attributes:
        config: what the operator would write into the ConfigMap; ``rest.port`` must be set in it.
        directory: for the driver's files; logs go to ``driver-<n>.log``.
        environment: extra environment variables.
    """

    config: DriverConfig
    directory: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    starts: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the driver."""
        self.starts += 1
        path = self.directory / "job.json"
        path.write_text(json.dumps(self.config.model_dump(mode="json", by_alias=True)))
        environment = {
            **os.environ,
            "HEADRACE_TOKEN": TOKEN,
            "POD_IP": "127.0.0.1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "HEADRACE_TERMINATION_LOG": str(self.directory / "termination"),
            **self.environment,
        }
        with (self.directory / f"driver-{self.starts}.log").open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "headrace.driver", str(path)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
            )

    @property
    def returncode(self) -> int | None:
        """Exit code, None while it runs."""
        return self._process.poll() if self._process else None

    @property
    def pid(self) -> int:
        """Process id of the driver's Python.

        Raises:
            InternalError: it was not started.
        """
        if self._process is None:
            msg = "the driver was not started, call start first"
            raise InternalError(msg)
        return self._process.pid

    def jvm(self) -> int | None:
        """Return the id of the driver's JVM, None before it starts."""
        own = _descendants(self.pid)
        found = (pid for pid, command in _processes() if pid in own and _is_spark_submit(command))
        return next(found, None)

    def status(self) -> JobStatus | None:
        """Return the job's status over REST, None while the driver does not answer."""
        port = self.config.config["rest.port"]
        url = f"http://127.0.0.1:{port}/jobs/{self.config.job_id}"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return JobStatus.model_validate_json(answer.read())
        except (OSError, urllib.error.URLError, ValueError):
            return None

    def wait(self, condition: Callable[[JobStatus | None], bool], timeout_s: float) -> bool:
        """Wait until the status satisfies ``condition`` or the driver has ended."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if condition(self.status()):
                return True
            if self.returncode is not None:
                return condition(self.status())
            time.sleep(POLL_S)  # noqa: TID251 - polls other processes
        return False

    def slots(self) -> list[int]:
        """Return the ids of the job's slot processes."""
        return [pid for pid, command in _processes() if self._is_slot(command)]

    def _is_slot(self, command: list[str]) -> bool:
        return "headrace.slot" in command and self.config.job_id in command[-1]

    def executors(self) -> list[int]:
        """Return the ids of the executor JVMs (``local-cluster`` masters only)."""
        own = _descendants(self._process.pid) if self._process else set()
        return [
            pid
            for pid, command in _processes()
            if pid in own and "org.apache.spark.executor.CoarseGrainedExecutorBackend" in command
        ]

    def kill(self) -> None:
        """Kill the driver with SIGKILL, and wait until everything that hung on it is gone."""
        if self._process is None:
            return
        family = _descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        for pid in family:  # the JVM of the driver is a child of the Python process
            kill_process(pid)
        deadline = time.monotonic() + 30
        while self.slots() and time.monotonic() < deadline:
            time.sleep(POLL_S)  # noqa: TID251 - polls other processes

    def log_tail(self, lines: int = 60) -> str:
        """Return the end of the newest log."""
        path = self.directory / f"driver-{self.starts}.log"
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def _is_spark_submit(command: list[str]) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in command


def kill_process(pid: int) -> None:
    """Kill a process with SIGKILL; one that is gone already is no error."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _processes() -> Iterator[tuple[int, list[str]]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                yield int(entry.name), [part for part in command if part]


def _descendants(root: int) -> set[int]:
    """Return the ids of all processes below ``root``, executors' sessions included."""
    parents: dict[int, int] = {}
    for pid, _ in _processes():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            parents[pid] = int(fields[1])
    found: set[int] = set()
    frontier = {root}
    while frontier:
        frontier = {pid for pid, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return found
