"""Takes the Lease, keeps it, notices its loss, gives it back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

from headrace_operator.clock import Clock
from headrace_operator.kube.api import (
    AlreadyExistsError,
    ClusterError,
    ConflictError,
    Kind,
    KubeApi,
    Manifest,
)
from headrace_operator.lead.lease import LEASE_NAME, TIMING, Lease, Timing, build_lease, may_take

logger = logging.getLogger(__name__)


class LeaderElector:
    """One candidate; used from one event loop.

    Args:
        kube: the cluster.
        clock: of this process.
        me: identity, unique among the candidates, e.g. the pod's name.
        namespace: that the Lease is in.
        timing: of the election.
    """

    def __init__(
        self, kube: KubeApi, clock: Clock, me: str, namespace: str, timing: Timing = TIMING
    ) -> None:
        self._kube = kube
        self._clock = clock
        self._me = me
        self._namespace = namespace
        self._timing = timing
        self._seen: Lease | None = None
        self._seen_at_s = 0.0
        self._renewed_at_s = 0.0
        self.leads = False

    async def run(self, on_change: Callable[[bool], Awaitable[None]]) -> None:
        """Stand for election until cancelled.

        Args:
            on_change: awaited with True when this process has become the leader, with False when
                it is not any more.
        """
        while True:
            before = self.leads
            await self.step()
            if self.leads is not before:
                logger.info("leads=%s instance=%s", self.leads, self._me)
                await on_change(self.leads)
            await asyncio.sleep(self._timing.retry_s)

    async def step(self) -> None:
        """Look at the lease once, and take or renew it if that is possible."""
        started_s = self._clock.monotonic_s()
        try:
            is_ours = await self._try(started_s)
        except ClusterError as error:
            logger.warning("the lease was neither read nor renewed: %s", error)
            is_late = started_s - self._renewed_at_s >= self._timing.renew_deadline_s
            self.leads = self.leads and not is_late
            return
        if is_ours:
            self._renewed_at_s = started_s  # before the request: never later than it really was
        self.leads = is_ours

    async def give_back(self) -> None:
        """Leave the lease to whoever wants it; without this they wait for its end."""
        if not self.leads:
            return
        self.leads = False
        try:
            live = await self._kube.get(Kind.LEASE, self._namespace, LEASE_NAME)
            if live is not None and Lease.of(live).holder == self._me:
                await self._write(live, replace(Lease.of(live), holder=""))
        except ClusterError as error:
            logger.warning("the lease was not given back, it runs out: %s", error)

    async def _try(self, now_s: float) -> bool:
        live = await self._kube.get(Kind.LEASE, self._namespace, LEASE_NAME)
        try:
            if live is None:
                await self._kube.create(self._manifest(Lease(self._me, "", 0)))
                return True
            lease = Lease.of(live)
            if lease != self._seen:
                self._seen, self._seen_at_s = lease, now_s
            if not may_take(lease, self._me, now_s - self._seen_at_s, self._timing):
                return False
            is_change = lease.holder != self._me
            transitions = lease.transitions + is_change
            await self._write(live, Lease(self._me, lease.renewed_at, transitions))
        except (AlreadyExistsError, ConflictError):
            return False  # somebody else was faster
        return True

    async def _write(self, live: Manifest, lease: Lease) -> None:
        manifest = self._manifest(lease)
        metadata = cast("dict[str, object]", manifest["metadata"])
        version = cast("dict[str, object]", live["metadata"])["resourceVersion"]
        await self._kube.replace({**manifest, "metadata": {**metadata, "resourceVersion": version}})

    def _manifest(self, lease: Lease) -> dict[str, object]:
        now = self._clock.now()
        return build_lease(LEASE_NAME, self._namespace, lease, now, self._timing)
