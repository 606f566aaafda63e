"""Starts and ends the actors, one for each job that was heard of."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from headrace.api.names import LABEL_JOB, LABEL_ROLE, ROLE_EXECUTOR
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.observe.snapshot import Scope
from headrace_operator.reconcile.actor import JobActor, Tools

logger = logging.getLogger(__name__)


class Supervisor:
    """All actors of one operator process; used from one event loop.

    Args:
        tools: shared by the actors.
        acts: False while another operator leads: jobs are remembered, and nothing is done.
    """

    def __init__(self, tools: Tools, *, acts: bool = True) -> None:
        self._tools = tools
        self._acts = acts
        self._known: set[tuple[str, str]] = set()
        self._actors: dict[tuple[str, str], JobActor] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        tools.metrics.leads.set(acts)

    def notice_job(self, namespace: str, name: str, manifest: Manifest, *, is_gone: bool) -> None:
        """A StreamJob appeared, changed or went."""
        key = (namespace, name)
        if is_gone:
            self._known.discard(key)
        else:
            self._known.add(key)
        actor = self._actors.get(key)
        if actor is not None:
            actor.notice(manifest, Scope.JOB, is_gone=is_gone)
        elif self._acts and not is_gone:
            self._start(key, manifest)

    def _start(self, key: tuple[str, str], first_seen: Manifest | None) -> None:
        namespace, name = key
        actor = self._actors[key] = JobActor(namespace, name, self._tools, first_seen)
        task = asyncio.create_task(actor.run(), name=f"streamjob/{namespace}/{name}")
        self._tasks[key] = task
        task.add_done_callback(lambda done: self._forget(key, actor, done))

    async def lead(self, leads: bool) -> None:
        """Begin or cease to act."""
        self._acts = leads
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

    def _forget(self, key: tuple[str, str], actor: JobActor, task: asyncio.Task[None]) -> None:
        if self._tasks.get(key) is not task:
            return
        del self._actors[key], self._tasks[key]
        if actor.has_news and self._acts and not task.cancelled():
            self._start(key, None)  # made again while its namesake's actor came to its end
        self.show()

    def show(self) -> None:
        """Publish the jobs' states."""
        self._tools.metrics.show_jobs(actor.lifecycle for actor in self._actors.values())

    async def stop(self) -> None:
        """End all actors where they are; any of them can be continued by another process."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
