"""Kopf glue: watches become notices to the supervisor. No decision is made here.

Only event handlers are used: kopf keeps no state of its own on the objects (no annotations, no
finalizer), and a lost event costs no more than the time to the next resync.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import secrets
import signal
from collections.abc import Coroutine
from typing import cast

import kopf
from prometheus_client import disable_created_metrics, start_http_server

from headrace.api.names import GROUP, LABEL_JOB, VERSION
from headrace_operator.canary import Canaries, UnhealthyError
from headrace_operator.clock import SystemClock
from headrace_operator.kube.api import Kind, Manifest
from headrace_operator.kube.client import KubeClient, connect
from headrace_operator.lead.elector import LeaderElector
from headrace_operator.metrics import Metrics
from headrace_operator.observe.driver import HttpDriverClient
from headrace_operator.reconcile.actor import Tools
from headrace_operator.reconcile.events import EventRecorder
from headrace_operator.reconcile.execute import Executor
from headrace_operator.reconcile.supervisor import Supervisor
from headrace_operator.resources.secrets import TOKEN_BYTES
from headrace_operator.settings import Settings

logger = logging.getLogger(__name__)

WATCHED_KINDS = (
    Kind.POD,
    Kind.SERVICE,
    Kind.CONFIG_MAP,
    Kind.SERVICE_ACCOUNT,
    Kind.ROLE,
    Kind.ROLE_BINDING,
)
"""Objects whose changes are noticed at once; Secrets, which nobody may watch, at a resync."""

WATCH_SERVER_TIMEOUT_S = 240
WATCH_CLIENT_TIMEOUT_S = 270
"""A watch is renewed before a silent network can make it deaf for long."""


_DELETED = "DELETED"


class _NoDifferences(kopf.DiffBaseStorage):
    """Nothing is compared here: kopf's copies of every object cost more than all the rest."""

    def build(self, **_: object) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: object) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: object) -> None:
        """Nothing is kept on the objects."""


class _NoProgress(kopf.ProgressStorage):
    """Handlers of events have no progress."""

    def fetch(self, **_: object) -> None:
        return None

    def store(self, **_: object) -> None:
        """Nothing is kept on the objects."""

    def purge(self, **_: object) -> None:
        """Nothing was kept."""

    def touch(self, **_: object) -> None:
        """No object is changed to wake a handler."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence


class Glue:
    """The handlers of one operator process and what they share."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._metrics = Metrics()
        self._supervisor: Supervisor | None = None
        self._kube: KubeClient | None = None
        self._driver_client: HttpDriverClient | None = None
        self._elector: LeaderElector | None = None
        self._canaries: Canaries | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def registry(self) -> kopf.OperatorRegistry:
        """Return the handlers for `kopf.run`."""
        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(kopf.login_via_client)
        kopf.on.startup(registry=registry)(self.start)
        kopf.on.cleanup(registry=registry)(self.stop)
        kopf.on.probe(id="work", registry=registry)(self.probe)
        kopf.on.event(GROUP, VERSION, Kind.STREAM_JOB.plural, registry=registry)(self.notice_job)
        for kind in WATCHED_KINDS:
            kopf.on.event(*_resource(kind), registry=registry)(self.notice_object)
        return registry

    async def start(self, settings: kopf.OperatorSettings, **_: object) -> None:
        """Configure kopf and make what the actors work with."""
        settings.posting.enabled = False
        settings.persistence.diffbase_storage = _NoDifferences()
        settings.persistence.progress_storage = _NoProgress()
        settings.scanning.disabled = bool(self._settings.namespaces)
        settings.watching.server_timeout = WATCH_SERVER_TIMEOUT_S
        settings.watching.client_timeout = WATCH_CLIENT_TIMEOUT_S
        for kind in WATCHED_KINDS:
            settings.watching.label_selectors[_resource(kind)] = LABEL_JOB
        self._kube = KubeClient(await connect(), self._metrics)
        self._driver_client = HttpDriverClient(
            timeout_s=self._settings.poll_timeout_s, port=self._settings.driver_port
        )
        instance = os.environ.get("POD_NAME") or os.uname().nodename
        recorder = EventRecorder(self._kube, instance)
        new_token = functools.partial(secrets.token_urlsafe, TOKEN_BYTES)
        tools = Tools(
            kube=self._kube,
            driver_client=self._driver_client,
            executor=Executor(self._kube, recorder, new_token),
            settings=self._settings,
            clock=SystemClock(),
            metrics=self._metrics,
            turnstile=asyncio.Semaphore(self._settings.concurrent_turns),
        )
        self._supervisor = Supervisor(tools, acts=not self._settings.election_namespace)
        if self._settings.election_namespace:
            self._elector = LeaderElector(
                self._kube, tools.clock, instance, self._settings.election_namespace
            )
            self._run(self._elector.run(self._supervisor.lead), "election")
        self._canaries = Canaries(self._kube, tools.clock, self._supervisor)
        self._run(self._canaries.run(), "canaries")
        if self._settings.metrics_port:
            disable_created_metrics()  # type: ignore[no-untyped-call] # library is untyped
            start_http_server(self._settings.metrics_port, registry=self._metrics.registry)
        served = ",".join(self._settings.namespaces) or "all"
        logger.info("operator is ready: namespaces=%s instance=%s", served, instance)

    def _run(self, work: Coroutine[None, None, None], name: str) -> None:
        """Run a loop beside the handlers; if it ends, the process does, and is started again."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(_end_with)
        self._tasks.append(task)

    async def probe(self, **_: object) -> str:
        """Answer the liveness probe."""
        if self._canaries is not None:
            try:
                self._canaries.check()
            except UnhealthyError as error:
                raise kopf.PermanentError(str(error)) from error
        return "ok"

    async def stop(self, **_: object) -> None:
        """End the actors and close the connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._supervisor is not None:
            await self._supervisor.stop()
        if self._elector is not None:
            await self._elector.give_back()
        if self._driver_client is not None:
            await self._driver_client.close()
        if self._kube is not None:
            await self._kube.close()

    async def notice_job(
        self, event: kopf.RawEvent, namespace: str | None, name: str, **_: object
    ) -> None:
        """A StreamJob appeared, changed or went."""
        if self._supervisor is not None and namespace is not None:
            gone = event["type"] == _DELETED
            manifest = cast("Manifest", event["object"])
            self._supervisor.notice_job(namespace, name, manifest, is_gone=gone)

    async def notice_object(
        self, body: kopf.Body, event: kopf.RawEvent, namespace: str | None, **_: object
    ) -> None:
        """A labelled pod, Service or ConfigMap appeared, changed or went."""
        if self._supervisor is not None and namespace is not None:
            labels, gone = body.metadata.labels, event["type"] == _DELETED
            manifest = cast("Manifest", event["object"])
            self._supervisor.notice_object(namespace, labels, manifest, is_gone=gone)


def _end_with(task: asyncio.Task[None]) -> None:
    """A loop that failed would leave the process alive and idle."""
    if task.cancelled() or task.exception() is None:
        return
    logger.critical("ended: task=%s", task.get_name(), exc_info=task.exception())
    os.kill(os.getpid(), signal.SIGTERM)


def _resource(kind: Kind) -> tuple[str, str, str]:
    """Group, version and plural, as kopf names a resource."""
    group, _, version = kind.api_version.rpartition("/")
    return group, version, kind.plural
