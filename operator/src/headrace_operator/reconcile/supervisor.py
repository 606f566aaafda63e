"""Starts and ends the actors, one for each job that was heard of."""

from __future__ import annotations

import asyncio
import logging

from headrace.api.names import ROLE_EXECUTOR
from headrace_operator.kube.api import Manifest
from headrace_operator.reconcile.actor import JobActor, Tools

logger = logging.getLogger(__name__)


class Supervisor:
    """All actors of one operator process; used from one event loop."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._actors: dict[tuple[str, str], JobActor] = {}
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}

    def notice_job(self, namespace: str, name: str, manifest: Manifest) -> None:
        """A StreamJob appeared, changed or went."""
        key = (namespace, name)
        actor = self._actors.get(key)
        if actor is not None:
            actor.notice_job(manifest)
            return
        actor = self._actors[key] = JobActor(namespace, name, self._tools)
        task = asyncio.create_task(actor.run(), name=f"streamjob/{namespace}/{name}")
        self._tasks[key] = task
        task.add_done_callback(lambda _: self._forget(key))

    def notice_object(self, namespace: str, job: str, role: str, manifest: Manifest) -> None:
        """Something that belongs to a job changed."""
        actor = self._actors.get((namespace, job))
        if actor is None:
            return  # its StreamJob will be heard of, and then everything is read
        if role == ROLE_EXECUTOR:
            actor.notice_executor(manifest)
        else:
            actor.notice()

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
