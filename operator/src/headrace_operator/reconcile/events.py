"""Posts Kubernetes events about a StreamJob; the same event again only counts up.

The name of an event is a digest of what it says, so that an operator that is killed after posting
and decides the same again does not report twice. Events are for people: one that cannot be posted
is logged, and the reconciliation goes on. A job that has much to tell is cut short, as kubelets
are: each job has a budget of events, which refills slowly.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

from headrace.api.names import API_VERSION, LABEL_JOB, MANAGER
from headrace_operator.kube.api import AlreadyExistsError, ClusterError, Kind, KubeApi, Manifest
from headrace_operator.reconcile.actions import Event, EventType

logger = logging.getLogger(__name__)

MESSAGE_BYTES_MAX: Final = 1000
"""Below the 1024 that the API server accepts."""


BURST: Final = 25
"""Events that a job may have at once."""
REFILL_S: Final = 60.0
"""Seconds after which it may have one more."""
_BUDGETS_MAX: Final = 10_000
"""Budgets of that many jobs are remembered, those of the others begin anew."""


@dataclass(slots=True)
class _Budget:
    left: float
    at: datetime


class EventBudgets:
    """How many events each job may still have; a token bucket a job."""

    def __init__(self) -> None:
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()

    def take(self, uid: str, now: datetime) -> bool:
        """Return whether the job may have an event now, and count it if so."""
        budget = self._budgets.pop(uid, None) or _Budget(BURST, now)
        refilled = (now - budget.at).total_seconds() / REFILL_S
        budget.left, budget.at = min(BURST, budget.left + max(refilled, 0.0)), now
        self._budgets[uid] = budget
        if len(self._budgets) > _BUDGETS_MAX:
            self._budgets.popitem(last=False)
        if budget.left < 1:
            return False
        budget.left -= 1
        return True


class EventRecorder:
    """Posts events; made once an operator process.

    Args:
        kube: the cluster.
        instance: name of this operator process, e.g. its pod's.
    """

    def __init__(self, kube: KubeApi, instance: str) -> None:
        self._kube = kube
        self._instance = instance
        self._budgets = EventBudgets()

    async def record(self, job: Manifest, events: Sequence[Event], now: datetime) -> None:
        """Post events about a StreamJob."""
        for event in events:
            manifest = build_event(job, event, now, self._instance)
            log = logger.warning if event.type is EventType.WARNING else logger.info
            metadata = cast("Mapping[str, str]", job["metadata"])
            log(
                "%s: job=%s/%s %s",
                event.reason,
                metadata["namespace"],
                metadata["name"],
                event.message,
            )
            if not self._budgets.take(metadata["uid"], now):
                logger.info("event not posted, the job has had too many: reason=%s", event.reason)
                continue
            try:
                await self._post(manifest, now)
            except ClusterError as error:
                logger.warning("event not posted: reason=%s cause=%s", event.reason, error)

    async def _post(self, manifest: Manifest, now: datetime) -> None:
        try:
            await self._kube.create(manifest)
        except AlreadyExistsError:
            await self._count_up(manifest, now)

    async def _count_up(self, manifest: Manifest, now: datetime) -> None:
        metadata = cast("Mapping[str, str]", manifest["metadata"])
        live = await self._kube.get(Kind.EVENT, metadata["namespace"], metadata["name"])
        if live is None:
            return
        count = live.get("count")
        fields = {"count": count + 1 if isinstance(count, int) else 2, "lastTimestamp": _time(now)}
        kept = {key: value for key, value in manifest.items() if key != "firstTimestamp"}
        await self._kube.apply({**kept, **fields})


def build_event(job: Manifest, event: Event, now: datetime, instance: str) -> Manifest:
    """Return the manifest of an event about a StreamJob."""
    metadata = cast("Mapping[str, str]", job["metadata"])
    message = event.message.encode()[:MESSAGE_BYTES_MAX].decode(errors="ignore")
    said = "\n".join((metadata["uid"], event.type, event.reason, message))
    digest = hashlib.sha256(said.encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{metadata['name']}.{digest}",
            "namespace": metadata["namespace"],
            "labels": {LABEL_JOB: metadata["name"]},
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "StreamJob",
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": event.type.value,
        "reason": event.reason,
        "message": message,
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "reportingInstance": instance,
        "firstTimestamp": _time(now),
        "lastTimestamp": _time(now),
        "count": 1,
    }


def _time(now: datetime) -> str:
    return now.replace(microsecond=0).isoformat().replace("+00:00", "Z")
