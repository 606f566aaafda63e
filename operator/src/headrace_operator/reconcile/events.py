"""Posts Kubernetes events about a StreamJob; the same event again only counts up.

The name of an event is a digest of what it says, so that an operator that is killed after posting
and decides the same again does not report twice. Events are for people: one that cannot be posted
is logged, and the reconciliation goes on.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, cast

from headrace.api.names import API_VERSION, LABEL_JOB, MANAGER
from headrace_operator.kube.api import AlreadyExistsError, ClusterError, Kind, KubeApi, Manifest
from headrace_operator.reconcile.actions import Event, EventType

logger = logging.getLogger(__name__)

MESSAGE_BYTES_MAX: Final = 1000
"""Below the 1024 that the API server accepts."""


class EventRecorder:
    """Posts events; made once an operator process.

    Args:
        kube: the cluster.
        instance: name of this operator process, e.g. its pod's.
    """

    def __init__(self, kube: KubeApi, instance: str) -> None:
        self._kube = kube
        self._instance = instance

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
