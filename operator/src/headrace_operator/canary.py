"""Proof of life beyond an open port: StreamJobs that exist to be reconciled (OP60).

A StreamJob with label ``headrace.dev/canary: "true"``, suspended so that it costs nothing, gets an
annotation from time to time. When no turn of its actor has seen the annotation a minute later,
watches, queue or API are broken in a way that nobody else notices, and the liveness probe fails.
A turn that never ends does the same, canary or not.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from headrace.api.names import ANNOTATION_CANARY
from headrace.errors import HeadraceError
from headrace_operator.clock import Clock
from headrace_operator.kube.api import ClusterError, Kind, KubeApi, MissingError, ObjectKey
from headrace_operator.reconcile.supervisor import JobKey, Supervisor

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 20.0
DEADLINE_S: Final = 60.0
TURN_S_MAX: Final = 300.0
"""A turn waits for at most some dozen requests, each of which has a time-out."""


class UnhealthyError(HeadraceError):
    """The operator does not do its work and had better be restarted."""

    kind = "Unhealthy"


@dataclass(slots=True)
class _Asked:
    value: str
    at_s: float


class Canaries:
    """Asks the canaries of one operator process, and judges the answers.

    Args:
        kube: the cluster.
        clock: of this process.
        supervisor: whose actors answer.
    """

    def __init__(self, kube: KubeApi, clock: Clock, supervisor: Supervisor) -> None:
        self._kube = kube
        self._clock = clock
        self._supervisor = supervisor
        self._asked: dict[JobKey, _Asked] = {}

    async def run(self) -> None:
        """Ask again and again until cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(INTERVAL_S)

    async def ask(self) -> None:
        """Ask every canary that has answered; whoever has not is not asked anew."""
        canaries = self._supervisor.canaries() if self._supervisor.acts else frozenset[JobKey]()
        self._asked = {key: asked for key, asked in self._asked.items() if key in canaries}
        for key in sorted(canaries):
            asked = self._asked.get(key)
            if asked is None or self._supervisor.answer_of(key) == asked.value:
                await self._ask(key)

    async def _ask(self, key: JobKey) -> None:
        namespace, name = key
        value = self._clock.now().isoformat()
        # Before the request: one that is never answered is a beat that is missed.
        self._asked[key] = _Asked(value, self._clock.monotonic_s())
        try:
            target = ObjectKey(Kind.STREAM_JOB, name)
            await self._kube.annotate(target, namespace, {ANNOTATION_CANARY: value})
        except MissingError:
            self._asked.pop(key, None)
        except ClusterError as error:
            logger.warning("a canary was not asked: job=%s/%s cause=%s", namespace, name, error)

    def check(self) -> None:
        """Raise when this process had better be restarted.

        Raises:
            UnhealthyError: a canary was not reconciled in time, or a turn does not end.
        """
        now_s = self._clock.monotonic_s()
        if not self._supervisor.acts:
            return
        for key, asked in self._asked.items():
            waited_s = now_s - asked.at_s
            if waited_s >= DEADLINE_S and self._supervisor.answer_of(key) != asked.value:
                msg = f"a canary was not reconciled; job={'/'.join(key)} waited={waited_s:.0f} s"
                raise UnhealthyError(msg)
        oldest = self._supervisor.oldest_turn()
        if oldest is not None and now_s - oldest[1] >= TURN_S_MAX:
            key, started_s = oldest
            msg = f"a turn does not end; job={'/'.join(key)} since={now_s - started_s:.0f} s"
            raise UnhealthyError(msg)
