"""A StreamJob under test: applied, changed, waited for, deleted; a failed wait explains itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from headrace.api.names import API_VERSION
from headrace.clock import Clock
from headrace_demo.broker import create_topics
from headrace_demo.diagnosis import diagnose
from headrace_demo.kubernetes import KubernetesApi
from headrace_demo.manifests import build_stream_job, render
from headrace_demo.observation import Observed, Observer
from headrace_demo.worlds import World
from headrace_devcluster.polling import poll_until

PARTITIONS = 4
READY_TIMEOUT_S = 240.0
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Jobs:
    """Makes jobs in one world."""

    world: World
    api: KubernetesApi
    clock: Clock

    def create_topics(self, *names: str) -> None:
        create_topics(self.world.servers, names, PARTITIONS)

    def job(self, name: str) -> Job:
        observer = Observer(self.api, self.world.namespace, name, self.clock)
        return Job(self.world, observer, name)

    def list_objects(self) -> set[str]:
        """Every object of the namespace but events, as ``kind/name``."""
        kubectl = self.world.kubectl
        kinds = kubectl.run("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
        wanted = ",".join(kind for kind in kinds if not kind.startswith("events"))
        listed = kubectl.run("get", wanted, "-n", self.world.namespace, "-o", "name")
        return set(listed.split())


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a StreamJob."""

    kind: str
    reason: str
    message: str
    at: datetime
    """When it was said first."""


@dataclass(frozen=True, slots=True)
class Job:
    """One StreamJob, that may not exist yet."""

    world: World
    observer: Observer
    name: str

    def manifest(self, spec: Mapping[str, object]) -> dict[str, object]:
        """The example's manifest with fields of its spec replaced."""
        example = build_stream_job(self.world.namespace, self.world.images)
        merged = {**cast("dict[str, object]", example["spec"]), **spec}
        return {
            "apiVersion": API_VERSION,
            "kind": "StreamJob",
            "metadata": {"name": self.name, "namespace": self.world.namespace},
            "spec": merged,
        }

    def example_config(self) -> dict[str, str]:
        """The options of the example."""
        spec = cast("dict[str, dict[str, str]]", self.manifest({})["spec"])
        return spec["config"]

    def apply(self, spec: Mapping[str, object]) -> int:
        """Applies the manifest as a user does; returns its generation."""
        text = render([self.manifest(spec)])
        applied = self.world.kubectl.run("apply", "-f", "-", "-o", "json", stdin=text)
        return int(json.loads(applied)["metadata"]["generation"])

    def wait(
        self, condition: Callable[[Observed], bool], what: str, timeout_s: float = READY_TIMEOUT_S
    ) -> Observed:
        """Waits until a condition holds, and fails with everything that may explain why not."""
        seen = self.observer.observe()

        def holds() -> bool:
            nonlocal seen
            seen = self.observer.observe()
            return condition(seen)

        if not poll_until(holds, timeout_s, POLL_S, self.observer.clock):
            diagnosis = diagnose(self.world.kubectl, self.world.namespace, self.name)
            raise AssertionError(f"not in {timeout_s:.0f} s: {what}\n{diagnosis}")
        return seen

    def wait_in_effect(self, generation: int, parallelism: int) -> Observed:
        """Waits until the job is ready with this spec."""
        return self.wait(
            lambda seen: (
                seen.is_ready
                and seen.status is not None
                and seen.status.observed_generation == generation
                and seen.status.parallelism == parallelism
            ),
            f"generation {generation} is ready with parallelism {parallelism}",
        )

    def events(self) -> list[Event]:
        """Events of the StreamJob."""
        path = (
            f"/api/v1/namespaces/{self.world.namespace}/events"
            f"?fieldSelector=involvedObject.kind=StreamJob,involvedObject.name={self.name}"
        )
        return [
            Event(
                kind=str(item["type"]),
                reason=str(item["reason"]),
                message=str(item.get("message", "")),
                at=datetime.fromisoformat(str(item["firstTimestamp"])),
            )
            for item in self.observer.api.list_objects(path)
        ]

    def created_at(self) -> datetime:
        """When the StreamJob was created."""
        job = self.observer.api.get_object(self.observer.job_path)
        return datetime.fromisoformat(cast("dict[str, str]", job["metadata"])["creationTimestamp"])

    def delete(self, timeout_s: int = 90) -> None:
        self.world.kubectl.run(
            "delete", "streamjob", self.name, "-n", self.world.namespace, "--ignore-not-found",
            f"--timeout={timeout_s}s",
            timeout_s=timeout_s + 10,
        )  # fmt: skip
