"""One task for each job: observe, validate, diff, reconcile, again and again.

A turn runs every phase. It is due when something of the job changed, when its driver is to be asked
again, or when everything is to be read anew. Turns of one job never overlap; those of different
jobs do, so a driver that does not answer holds up nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from headrace.api.names import ANNOTATION_CANARY, CONTAINER_EXECUTOR
from headrace.api.v1alpha1 import LifecycleState, StreamJobStatus
from headrace_operator.clock import Clock
from headrace_operator.kube.api import ClusterError, ConflictError, KubeApi, Manifest
from headrace_operator.metrics import Metrics
from headrace_operator.observe.driver import DriverClient
from headrace_operator.observe.driver_watch import DriverWatch
from headrace_operator.observe.facts import Facts, PodProblem, Refusal
from headrace_operator.observe.pods import observe_pod
from headrace_operator.observe.snapshot import (
    EVERYTHING,
    Scope,
    Snapshot,
    SnapshotReader,
    fresh_snapshot,
)
from headrace_operator.reconcile.decide import Decision, decide, program_interval_s
from headrace_operator.reconcile.execute import Executor
from headrace_operator.reconcile.notices import Notices
from headrace_operator.settings import Settings

logger = logging.getLogger(__name__)

_HASTE_S: Final = 0.1
_HASTE_S_MAX: Final = 10.0
"""Turns that act follow each other quickly at first, ever slower if they do not come to rest."""
RESYNC_SPREAD: Final = 0.3
"""Part of the resync interval over which the jobs are spread."""
SIGHTING_S: Final = 60.0
"""How long the trouble of an executor pod is remembered after it was seen."""

_TROUBLE_S: Final = 1.0
_TROUBLE_S_MAX: Final = 30.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What an actor works with; shared by all of them."""

    kube: KubeApi
    driver_client: DriverClient
    executor: Executor
    settings: Settings
    clock: Clock
    metrics: Metrics
    turnstile: asyncio.Semaphore
    """Bounds how many jobs use the cluster at once: those that come first are done first."""


class JobActor:
    """Reconciles one job until it is gone.

    Args:
        namespace, name: of the StreamJob.
        tools: shared by all actors.
        first_seen: the StreamJob as a watch told it; saves reading what cannot be there yet.
    """

    def __init__(
        self, namespace: str, name: str, tools: Tools, first_seen: Manifest | None = None
    ) -> None:
        self._label = f"{namespace}/{name}"
        # Jobs that were found together are not all read anew together.
        share = zlib.crc32(self._label.encode()) / 2**32
        self._haste_of_resync = 1 - RESYNC_SPREAD * share
        self._tools = tools
        self._reader = SnapshotReader(
            tools.kube, namespace, name, pod_trouble_delay_s=tools.settings.pod_trouble_delay_s
        )
        self._driver = DriverWatch(tools.driver_client)
        self._notices = Notices()
        now = tools.clock.now()
        self._snapshot = fresh_snapshot(first_seen, now) if first_seen is not None else None
        self._stale = EVERYTHING if self._snapshot is None else frozenset({Scope.PROGRAM})
        self._resync_after_s = tools.settings.resync_interval_s
        self._refusal: Refusal | None = None
        self._sightings: dict[str, tuple[datetime, PodProblem]] = {}
        self._written_at: datetime | None = None
        self._haste = 0
        self._troubles = 0
        self.lifecycle = LifecycleState.CREATED
        self.canary_answer = ""
        """Value of the canary annotation that the last turn saw."""
        self.turn_started_s: float | None = None
        """When the turn began that is going on now; monotonic."""

    def notice(self, manifest: Manifest, scope: Scope, *, is_gone: bool) -> None:
        """Something of the job changed; whether that is news is looked at between turns."""
        self._notices.add(manifest, scope, is_gone=is_gone)

    def _take_notices(self) -> bool:
        """Mark what is to be read anew; return whether there is any."""
        news = self._notices.take(self._snapshot)
        self._stale |= news
        return bool(news)

    def notice_executor(self, manifest: Manifest, *, is_gone: bool) -> None:
        """An executor pod changed; its trouble is kept, since Spark removes pods that failed."""
        pod = observe_pod(manifest, CONTAINER_EXECUTOR)
        if pod.problem is not None:
            self._sightings[pod.uid] = (self._tools.clock.now(), pod.problem)
        self.notice(manifest, Scope.PODS, is_gone=is_gone)

    @property
    def has_news(self) -> bool:
        """Whether something was noticed that no turn has looked at."""
        return bool(self._notices)

    async def run(self) -> None:
        """Take turns until the job is gone."""
        while True:
            self.turn_started_s = self._tools.clock.monotonic_s()
            pause_s = await self._guarded_turn()
            self.turn_started_s = None
            if pause_s is None:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._await_news(), pause_s)

    async def _await_news(self) -> None:
        while True:
            await self._notices.arrival()
            if self._take_notices():
                return

    async def _guarded_turn(self) -> float | None:
        """One turn; whatever goes wrong in it concerns this job alone and is tried again."""
        metrics = self._tools.metrics
        try:
            with metrics.turn_seconds.time():
                pause_s = await self.turn()
        except ConflictError as error:
            logger.info("changed meanwhile, looking again: %s", error)
            metrics.turns.labels("conflict").inc()
            return self._look_again()
        except ClusterError as error:
            logger.warning("turn failed: job=%s cause=%s", self._label, error)
            metrics.turns.labels("cluster_error").inc()
            return self._after_trouble()
        except Exception:
            logger.exception("turn failed: job=%s", self._label)
            metrics.turns.labels("error").inc()
            return self._after_trouble()
        metrics.turns.labels("ok").inc()
        self._troubles = 0
        return pause_s

    def _after_trouble(self) -> float:
        self._stale = EVERYTHING
        self._troubles += 1
        return float(min(_TROUBLE_S * 2 ** min(self._troubles - 1, 10), _TROUBLE_S_MAX))

    def _look_again(self) -> float:
        self._stale = EVERYTHING
        return self._hurry()

    def _hurry(self) -> float:
        self._haste += 1
        return float(min(_HASTE_S * 2 ** min(self._haste - 1, 10), _HASTE_S_MAX))

    async def turn(self) -> float | None:
        """Observe, decide, act; return the pause until the next turn, None when the job is gone.

        Raises:
            ClusterError: the cluster did not answer, or the job changed meanwhile.
        """
        facts = await self._observe()
        if facts is None or self._snapshot is None:
            return None
        decision = decide(facts, self._tools.settings)
        self._resync_after_s = decision.resync_after_s * self._haste_of_resync
        self.lifecycle = decision.status.lifecycle_state
        pause_s = await self._carry_out(facts, self._snapshot, decision)
        self.canary_answer = facts.job.annotations.get(ANNOTATION_CANARY, "")
        return pause_s

    async def _observe(self) -> Facts | None:
        self._take_notices()
        now = self._tools.clock.now()
        stale, self._stale = self._stale | self._outdated(now), frozenset()
        if stale or self._snapshot is None:
            await self._read(stale, now)
        snapshot = self._snapshot
        if snapshot is None:
            return None
        rest = await self._driver.ask(snapshot.driver, snapshot.job.job_id, now)
        return Facts(
            job=snapshot.job,
            now=now,
            driver=snapshot.driver,
            executors=snapshot.executors,
            rest=rest,
            objects=snapshot.objects,
            token_uid=snapshot.token_uid,
            token_name_is_taken=snapshot.token_name_is_taken,
            program=snapshot.program,
            refusal=self._refusal,
            sightings=self._recent_sightings(now),
        )

    async def _read(self, stale: frozenset[Scope], now: datetime) -> None:
        try:
            async with self._tools.turnstile:
                self._snapshot = await self._reader.read(self._snapshot, stale, now)
        except ClusterError:
            self._stale |= stale
            raise

    def _outdated(self, now: datetime) -> frozenset[Scope]:
        """What is to be read anew although nothing was heard of it."""
        snapshot = self._snapshot
        if snapshot is None or now - snapshot.taken_at >= timedelta(seconds=self._resync_after_s):
            return EVERYTHING
        pods = (*snapshot.executors, *((snapshot.driver,) if snapshot.driver is not None else ()))
        delay = timedelta(seconds=self._tools.settings.pod_trouble_delay_s)
        waits = any(p.waiting_for_volumes and now - p.created_at >= delay for p in pods)
        read_at, program = snapshot.program_read_at, snapshot.program
        interval = timedelta(seconds=program_interval_s(self._tools.settings, program))
        is_old = read_at is not None and now - read_at >= interval
        scopes = {Scope.PODS: waits, Scope.PROGRAM: is_old}
        return frozenset(scope for scope, is_due in scopes.items() if is_due)

    def _recent_sightings(self, now: datetime) -> tuple[PodProblem, ...]:
        oldest = now - timedelta(seconds=SIGHTING_S)
        self._sightings = {uid: seen for uid, seen in self._sightings.items() if seen[0] > oldest}
        return tuple(problem for _, problem in self._sightings.values())

    async def _carry_out(self, facts: Facts, snapshot: Snapshot, decision: Decision) -> float:
        tools, now = self._tools, facts.now
        if not decision.actions:
            self._refusal = None  # what was refused is not wanted any more
        write = self._is_worth_writing(facts.job.status, decision.status, now)
        if not write and not decision.actions and not decision.events:
            self._haste = 0
            return decision.wake_after_s
        async with tools.turnstile:
            done = await tools.executor.execute(snapshot, decision, now, write_status=write)
        if write:
            self._written_at = now
            tools.metrics.status_writes.inc()
        for action in decision.actions:
            tools.metrics.actions.labels(type(action).__name__).inc()
        self._snapshot = done.snapshot
        self._stale |= done.unknown
        if done.acted:
            self._refusal = done.refusal
        if done.refusal is not None:
            tools.metrics.refusals.inc()
            self._stale = EVERYTHING
            return tools.settings.retry_interval_s
        if done.acted:
            return self._hurry()
        self._haste = 0
        return decision.wake_after_s

    def _is_worth_writing(
        self, before: StreamJobStatus, after: StreamJobStatus, now: datetime
    ) -> bool:
        """Nothing is written when nothing changed, and fleeting figures only now and then."""
        if before == after:
            return False
        if after.model_copy(update={"source_lag": before.source_lag}) != before:
            return True
        interval = timedelta(seconds=self._tools.settings.volatile_status_interval_s)
        return self._written_at is None or now - self._written_at >= interval
