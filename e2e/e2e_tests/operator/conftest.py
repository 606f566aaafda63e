"""Fixtures: a control plane for the session; a namespace, a node and an operator for each test."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e_tests.operator.control_plane import ControlPlane, find_kube, run_control_plane
from e2e_tests.operator.node import JobServer, Node

ROOT = Path(__file__).parents[3]
OPERATOR_NAMESPACE = "headrace-system"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def bare_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that knows nothing of Headrace."""
    with run_control_plane(find_kube(), tmp_path_factory.mktemp("plane")) as plane:
        yield plane


@pytest.fixture(scope="session")
def plane(bare_plane: ControlPlane) -> ControlPlane:
    """An API server with the definitions, applied twice as an upgrade does."""
    for _ in range(2):
        bare_plane.kubectl("apply", "-f", str(ROOT / "crds"))
    bare_plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    return bare_plane


@pytest.fixture(scope="session")
def operator_kubeconfig(plane: ControlPlane) -> Path:
    """The operator's own account with exactly the rights of its manifests."""
    printed = subprocess.run(
        [sys.executable, "-m", "headrace_operator", "manifests"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    plane.apply(*yaml.safe_load_all(printed))
    token = plane.kubectl("create", "token", "headrace-operator", "-n", OPERATOR_NAMESPACE)
    return plane.kubeconfig_for(token.stdout.strip(), "operator")


@pytest.fixture
def namespace(plane: ControlPlane) -> str:
    """A namespace of the test's own."""
    name = f"test-{next(_numbers)}"
    plane.kubectl("create", "namespace", name)
    return name


@pytest.fixture
def job_server() -> Iterator[JobServer]:
    server = JobServer()
    yield server
    server.close()


@pytest.fixture
def node(plane: ControlPlane, namespace: str, job_server: JobServer) -> Iterator[Node]:
    made = Node(str(plane.kubeconfig), namespace, job_server)
    yield made
    made.close()
    assert [] == made.errors


class OperatorProcess:
    """The operator as a process that can be killed."""

    def __init__(
        self,
        kubeconfig: Path,
        driver_port: int,
        log: Path,
        *options: str,
        name: str = "operator",
    ) -> None:
        self._command = [
            sys.executable,
            "-m",
            "headrace_operator",
            "run",
            "--poll-interval=0.3",
            "--resync-interval=5",
            "--deletion-timeout=20",
            f"--driver-port={driver_port}",
            "--health-port=0",
            "--metrics-port=0",
            *options,
        ]
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "POD_NAME": name}
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=output, stderr=subprocess.STDOUT
            )

    def kill(self) -> None:
        """SIGKILL: nothing is finished, nothing is cleaned up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """SIGTERM, as Kubernetes ends it."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None


@pytest.fixture
def make_operator(
    operator_kubeconfig: Path, namespace: str, job_server: JobServer, tmp_path: Path
) -> Iterator[Callable[..., OperatorProcess]]:
    """Makes operator processes that are not started yet."""
    made: list[OperatorProcess] = []

    def make(*options: str) -> OperatorProcess:
        log, scope = tmp_path / f"operator-{len(made)}.log", f"--namespace={namespace}"
        process = OperatorProcess(
            operator_kubeconfig, job_server.port, log, scope, *options, name=f"o{len(made)}"
        )
        made.append(process)
        return process

    yield make
    for process in made:
        process.kill()
        sys.stdout.write(process.log.read_text(encoding="utf-8")[-20_000:])


@pytest.fixture
def operator(make_operator: Callable[..., OperatorProcess]) -> OperatorProcess:
    """A running operator."""
    process = make_operator()
    process.start()
    return process


class Job:
    """One StreamJob, as a user sees it."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str = "payments") -> None:
        self.plane = plane
        self.namespace = namespace
        self.name = name

    def kubectl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.plane.kubectl("-n", self.namespace, *arguments, check=check)

    def apply(self, **spec: Any) -> None:
        self.plane.apply(self.manifest(**spec))

    def manifest(self, **spec: Any) -> dict[str, Any]:
        base = {
            "image": "registry.local/job:1",
            "program": {"inline": "print(1)"},
            "parallelism": 2,
            "restartPolicy": {"initialBackoffSeconds": 1, "maxBackoffSeconds": 1},
        }
        return {
            "apiVersion": "headrace.dev/v1alpha1",
            "kind": "StreamJob",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {**base, **spec},
        }

    def get(self) -> Any:
        return self.plane.get("-n", self.namespace, "streamjob", self.name)

    def status(self) -> dict[str, Any]:
        found = self.get()
        return {} if found is None else found.get("status", {})

    def condition(self, kind: str) -> dict[str, Any]:
        return next((c for c in self.status().get("conditions", []) if c["type"] == kind), {})

    def driver(self) -> Any:
        return self.plane.get("-n", self.namespace, "pod", f"{self.name}-driver")

    def events(self) -> dict[str, str]:
        listing = self.plane.get("-n", self.namespace, "events")
        return {event["reason"]: event["message"] for event in listing["items"]}

    def wait_for_condition(self, condition: str, timeout_s: int = 60) -> None:
        self.kubectl(
            "wait",
            f"streamjob/{self.name}",
            f"--for=condition={condition}",
            f"--timeout={timeout_s}s",
        )

    def wait_for_state(self, state: str, timeout_s: float = 60) -> None:
        eventually(lambda: self.status().get("lifecycleState") == state, timeout_s, self.status)

    def left_over(self) -> list[str]:
        """Names of everything that still carries the job's label, or belongs to it."""
        kinds = "pods,configmaps,services,secrets,serviceaccounts,roles,rolebindings"
        listing = self.plane.get("-n", self.namespace, kinds, "-l", f"headrace.dev/job={self.name}")
        return [f"{item['kind']}/{item['metadata']['name']}" for item in listing["items"]]


@pytest.fixture
def job(plane: ControlPlane, namespace: str) -> Job:
    return Job(plane, namespace)


def eventually(
    check: Callable[[], bool], timeout_s: float = 60, describe: Callable[[], Any] | None = None
) -> None:
    """Wait until ``check`` holds."""
    deadline = time.monotonic() + timeout_s
    while not check():
        if time.monotonic() > deadline:
            state = describe() if describe is not None else "no description"
            raise AssertionError(f"did not happen within {timeout_s} s; state={state}")
        time.sleep(0.1)
