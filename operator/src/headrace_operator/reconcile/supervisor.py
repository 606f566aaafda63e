"""Starts and ends the actors, one for each job that was heard of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from headrace.api.names import LABEL_CANARY, LABEL_JOB, LABEL_ROLE, ROLE_EXECUTOR
from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.observe.snapshot import Scope
from headrace_operator.reconcile.actor import JobActor, Tools

logger = logging.getLogger(__name__)

JobKey = tuple[str, str]
"""Namespace and name of a StreamJob."""


class Supervisor:
    """All actors of one operator process; used from one event loop.

    Args:
        tools: shared by the actors.
        acts: False while another operator leads: jobs are remembered, and nothing is done.
    """

    def __init__(self, tools: Tools, *, acts: bool = True) -> None:
        self._tools = tools
        self.acts = acts
        self._known: set[JobKey] = set()
        self._canaries: set[JobKey] = set()
        self._actors: dict[JobKey, JobActor] = {}
        self._tasks: dict[JobKey, asyncio.Task[None]] = {}
        tools.metrics.leads.set(acts)
        tools.metrics.count_jobs(self._states)

    def notice_job(self, namespace: str, name: str, manifest: Manifest, *, is_gone: bool) -> None:
        """A StreamJob appeared, changed or went."""
        key = (namespace, name)
        (self._known.discard if is_gone else self._known.add)(key)
        is_canary = not is_gone and _is_canary(manifest)
        (self._canaries.add if is_canary else self._canaries.discard)(key)
        actor = self._actors.get(key)
        if actor is not None:
            actor.notice(manifest, Scope.JOB, is_gone=is_gone)
        elif self.acts and not is_gone:
            self._start(key, manifest)

    def _start(self, key: JobKey, first_seen: Manifest | None) -> None:
        namespace, name = key
        actor = self._actors[key] = JobActor(namespace, name, self._tools, first_seen)
        task = asyncio.create_task(actor.run(), name=f"streamjob/{namespace}/{name}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._forget(key, actor, done))

    async def lead(self, leads: bool) -> None:
        """Begin or cease to act."""
        self.acts = leads
        self._tools.metrics.leads.set(leads)
        if not leads:
            await self.stop()
            return
        for key in self._known - self._actors.keys():
            self._start(key, None)  # what was heard while standing by may be long out of date

    def notice_object(
        self, namespace: str, labels: Mapping[str, str], manifest: Manifest, *, is_gone: bool
    ) -> None:
        """Something that belongs to a job appeared, changed or went."""
        actor = self._actors.get((namespace, labels.get(LABEL_JOB, "")))
        if actor is None:
            return  # its StreamJob will be heard of, and then everything is read
        if labels.get(LABEL_ROLE) == ROLE_EXECUTOR:
            actor.notice_executor(manifest, is_gone=is_gone)
        else:
            is_pod = Kind.of(manifest) is Kind.POD
            scope = Scope.PODS if is_pod else Scope.OBJECTS
            actor.notice(manifest, scope, is_gone=is_gone)

    def _forget(self, key: JobKey, actor: JobActor, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is not task:
            return
        del self._actors[key], self._tasks[key]
        if actor.has_news and self.acts and not task.cancelled():
            self._start(key, None)  # made again while its namesake's actor came to its end

    def _states(self) -> list[LifecycleState]:
        return [actor.lifecycle for actor in list(self._actors.values())]

    def canaries(self) -> frozenset[JobKey]:
        """Return the jobs that are there to prove that jobs are reconciled."""
        return frozenset(self._canaries)

    def answer_of(self, key: JobKey) -> str:
        """Return what the last turn of a canary was asked, empty when there was none."""
        actor = self._actors.get(key)
        return actor.canary_answer if actor is not None else ""

    def oldest_turn(self) -> tuple[JobKey, float] | None:
        """Return the turn that has been going on for longest: its job, and since when it does."""
        started = {
            key: actor.turn_started_s
            for key, actor in self._actors.items()
            if actor.turn_started_s is not None
        }
        key = min(started, key=lambda each: started[each], default=None)
        return None if key is None else (key, started[key])

    async def stop(self) -> None:
        """End all actors where they are; any of them can be continued by another process."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _is_canary(manifest: Manifest) -> bool:
    metadata = manifest.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    return isinstance(labels, Mapping) and labels.get(LABEL_CANARY) == "true"
