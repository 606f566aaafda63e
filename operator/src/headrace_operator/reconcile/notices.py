"""What watches told of one job and no turn has looked at yet.

Whether a notice is news is judged between turns, against all that the last turn saw and did: most
of what is heard are our own writes, and most of those while the turn is still going on that makes
them.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from headrace_operator.kube.api import Manifest
from headrace_operator.observe.snapshot import Scope, Snapshot

BURST_S: Final = 0.1
"""Changes come in bursts, as when a pod starts; those of a burst are looked at together."""


class _Notice(NamedTuple):
    manifest: Manifest
    scope: Scope
    is_gone: bool


class Notices:
    """Notices about one job; used from one event loop."""

    def __init__(self) -> None:
        self._waiting: list[_Notice] = []
        self._arrival = asyncio.Event()

    def add(self, manifest: Manifest, scope: Scope, *, is_gone: bool) -> None:
        """Something appeared, changed or went."""
        self._waiting.append(_Notice(manifest, scope, is_gone))
        self._arrival.set()

    def __bool__(self) -> bool:
        """Whether nobody has looked at something yet."""
        return bool(self._waiting)

    async def arrival(self) -> None:
        """Wait for the next burst."""
        await self._arrival.wait()
        await asyncio.sleep(BURST_S)
        self._arrival.clear()

    def take(self, snapshot: Snapshot | None) -> frozenset[Scope]:
        """Return what is to be read anew, and forget the notices."""
        waiting, self._waiting = self._waiting, []
        return frozenset(notice.scope for notice in waiting if _is_news(notice, snapshot))


def _is_news(notice: _Notice, snapshot: Snapshot | None) -> bool:
    if snapshot is None:
        return True
    if notice.is_gone:
        return snapshot.contains(notice.manifest)
    return not snapshot.knows(notice.manifest)
