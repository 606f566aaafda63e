"""An operator for one job over a fake cluster, with a manual clock and a driver that answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.api.driver import JobError, JobState, JobStatus, TerminationMessage
from headrace.api.v1alpha1 import StreamJobStatus
from headrace_operator.kube.api import Kind
from headrace_operator.metrics import Metrics
from headrace_operator.observe.driver import NoAnswer
from headrace_operator.observe.snapshot import EVERYTHING
from headrace_operator.reconcile.actor import JobActor, Tools
from headrace_operator.reconcile.events import EventRecorder
from headrace_operator.reconcile.execute import Executor
from headrace_operator.settings import Settings
from operator_tests.fake_cluster import FakeCluster, KilledError
from operator_tests.world import checkpoint, job_status, spec_manifest

NAMESPACE, NAME = "bank", "payments"


@dataclass
class ManualClock:
    at: datetime = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic_s(self) -> float:
        return self.at.timestamp()

    def advance(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)


@dataclass
class FakeDriver:
    """Answers for whatever runs at an address."""

    answers: dict[str, JobStatus] = field(default_factory=dict)
    asked: int = 0

    async def job_status(self, ip: str, job_id: str) -> JobStatus | NoAnswer:
        self.asked += 1
        return self.answers.get(ip, NoAnswer("ConnectionRefused"))


def stream_job(**changes: Any) -> dict[str, Any]:
    return {
        "apiVersion": "headrace.dev/v1alpha1",
        "kind": "StreamJob",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": spec_manifest(**changes),
    }


class Operator:
    """One operator process after the other, over the same cluster."""

    def __init__(self, before: Operator | None = None, **settings: Any) -> None:
        """A new process, over an empty cluster or over a copy of an earlier world."""
        self.cluster = FakeCluster() if before is None else before.cluster.copied()
        self.clock = ManualClock() if before is None else ManualClock(before.clock.at)
        self.cluster.now = lambda: self.clock.at.isoformat().replace("+00:00", "Z")
        self.driver = FakeDriver() if before is None else FakeDriver(dict(before.driver.answers))
        self.settings = Settings(**settings)
        self.metrics = Metrics()
        self._tokens = 0
        self.restart()

    def restart(self, first_seen: dict[str, Any] | None = None) -> None:
        """A new process, which knows nothing but what a watch told it first."""
        self.tools = Tools(
            kube=self.cluster,
            driver_client=self.driver,
            executor=Executor(self.cluster, EventRecorder(self.cluster, "test"), self._token),
            settings=self.settings,
            clock=self.clock,
            metrics=self.metrics,
            turnstile=asyncio.Semaphore(self.settings.concurrent_turns),
        )
        self.actor = JobActor(NAMESPACE, NAME, self.tools, first_seen)

    def _token(self) -> str:
        self._tokens += 1
        return f"token-{self._tokens}"

    async def turns(self, count: int = 1) -> float | None:
        """Take turns as if everything had been noticed; return the last pause."""
        pause: float | None = 0.0
        for _ in range(count):
            self.notice_everything()
            pause = await self.actor.turn()
        return pause

    def notice_everything(self) -> None:
        """As if every watch had reported something."""
        self.actor._stale = EVERYTHING

    async def settle(self, turns: int = 12) -> None:
        """Take turns until one changes nothing."""
        for _ in range(turns):
            before = len(self.writes)
            await self.turns()
            if len(self.writes) == before:
                return
        raise AssertionError(f"does not come to rest; last calls: {self.cluster.calls[-12:]}")

    @property
    def writes(self) -> list[str]:
        return [call for call in self.cluster.calls if not call.startswith(("get", "list"))]

    @property
    def job(self) -> dict[str, Any] | None:
        return self.cluster.objects.get((Kind.STREAM_JOB, NAMESPACE, NAME))

    @property
    def status(self) -> StreamJobStatus:
        assert self.job is not None
        return StreamJobStatus.model_validate(self.job.get("status", {}))

    @property
    def events(self) -> list[str]:
        return [
            manifest["reason"]
            for (kind, _, _), manifest in self.cluster.objects.items()
            if kind is Kind.EVENT
        ]

    def start_driver_pod(self, ip: str = "10.0.0.1", *, generation: int = 1) -> None:
        """The kubelet runs the driver pod, and the job inside becomes ready."""
        self.cluster.set_pod(
            NAMESPACE,
            "payments-driver",
            phase="Running",
            podIP=ip,
            conditions=[{"type": "Ready", "status": "True"}],
        )
        self.driver.answers[ip] = job_status(
            JobState.RUNNING,
            generation=generation,
            last_checkpoint=checkpoint(generation, generation=generation),
        )

    def fail_driver_pod(self, kind: str, message: str) -> None:
        """The job in the driver ends for good and says why."""
        said = TerminationMessage(state=JobState.FAILED, error=JobError(kind=kind, message=message))
        ended = {"exitCode": 1, "reason": "Error", "message": said.model_dump_json(by_alias=True)}
        self.cluster.set_pod(
            NAMESPACE,
            "payments-driver",
            phase="Failed",
            containerStatuses=[{"name": "driver", "state": {"terminated": ended}}],
        )

    def add_executor(self, number: int) -> None:
        """Spark creates an executor pod, owned by the driver pod."""
        driver = self.cluster.objects[Kind.POD, NAMESPACE, "payments-driver"]
        self.cluster.add(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"payments-exec-{number}",
                    "namespace": NAMESPACE,
                    "labels": {"headrace.dev/job": NAME, "headrace.dev/role": "executor"},
                    "ownerReferences": [{"uid": driver["metadata"]["uid"]}],
                },
                "spec": {"nodeName": "node1"},
                "status": {"phase": "Running", "podIP": f"10.0.1.{number}"},
            }
        )

    def pass_through(self) -> None:
        """What the rest of the cluster does between two turns: end pods, run new ones."""
        self.cluster.reap()
        driver = self.cluster.objects.get((Kind.POD, NAMESPACE, "payments-driver"))
        if driver is not None and not driver.get("status"):
            self.start_driver_pod(generation=len(self.cluster.created_pods))

    async def live(self, turns: int) -> None:
        """Take turns in a cluster that is alive; whoever is killed is started again."""
        for _ in range(turns):
            try:
                await self.turns()
            except KilledError:
                self.cluster.live_on()
                self.restart()
            except Exception:  # noqa: BLE001 - what an actor's guard does
                self.notice_everything()
            self.pass_through()
            self.clock.advance(1)
