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
    """All actors of one operator process; used from one event loop."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._actors: dict[tuple[str, str], JobActor] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def notice_job(self, namespace: str, name: str, manifest: Manifest, *, is_gone: bool) -> None:
        """A StreamJob appeared, changed or went."""
        key = (namespace, name)
        actor = self._actors.get(key)
        if actor is not None:
            actor.notice(manifest, Scope.JOB, is_gone=is_gone)
            return
        if is_gone:
            return
        actor = self._actors[key] = JobActor(namespace, name, self._tools, manifest)
        task = asyncio.create_task(actor.run(), name=f"streamjob/{namespace}/{name}")
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._forget(key))

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

    def _forget(self, key: tuple[str, str]) -> None:
        self._actors.pop(key, None)
        self._tasks.pop(key, None)
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
