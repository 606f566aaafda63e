"""The caches, timer queues and purges of one backend: written, bounded and purged together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from headrace.state.purge import Purge
from headrace.state.ttl import Expiry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.clock import Clock
    from headrace.state.access import TimeToLive
    from headrace.state.owned_rows import OwnedRows
    from headrace.state.timers import StoredTimerQueue

CacheT = TypeVar("CacheT", bound="Cache")


class Cache(Protocol):
    """The cache of one state: `headrace.state.value_state`, `headrace.state.write_back`."""

    def set_budget(self, budget_bytes: int) -> None:
        """Bound the cache; takes effect with the next new entry."""
        ...

    def flush(self) -> None:
        """Store every change."""
        ...

    def maintain(self) -> None:
        """Evict when the cache has outgrown its budget."""
        ...

    @property
    def entries(self) -> int:
        """Number of cached keys."""
        ...

    @property
    def estimated_bytes(self) -> float:
        """Estimated size of the cache."""
        ...


class StateCaches:
    """Everything between the state objects of one backend and its rows.

    Args:
        cache_bytes: bound of all caches together; divided evenly.
        clock: time that expiry goes by.
    """

    def __init__(self, cache_bytes: int, clock: Clock) -> None:
        self.cache_bytes = cache_bytes
        self._clock = clock
        self._caches: list[Cache] = []
        self._timers: list[StoredTimerQueue] = []
        self._purges: list[Purge] = []
        self._purged_between_epochs: list[Purge] = []
        self._purged_at_snapshot: list[Purge] = []
        self._maintained_ms = clock.now_ms()

    def __iter__(self) -> Iterator[Cache]:
        return iter(self._caches)

    def add(self, cache: CacheT) -> CacheT:
        """Take in a new cache and divide the budget anew."""
        self._caches.append(cache)
        for one in self._caches:
            one.set_budget(self.cache_bytes // len(self._caches))
        return cache

    def add_timers(self, queue: StoredTimerQueue) -> StoredTimerQueue:
        """Take in a new timer queue."""
        self._timers.append(queue)
        return queue

    def expire(self, rows: OwnedRows, ttl: TimeToLive, *, lists: bool = False) -> Expiry:
        """Return the expiry of a state, whose rows are purged as it says from now on."""
        expiry = Expiry(ttl, self._clock)
        purge = Purge(rows.store, rows.key_groups, ttl, expiry, lists=lists)
        self._purges.append(purge)
        if ttl.purges:
            self._purged_between_epochs.append(purge)
        if ttl.purge_at_snapshot:
            self._purged_at_snapshot.append(purge)
        return expiry

    def flush(self) -> None:
        """Write all cached changes into the rows."""
        for cache in self._caches:
            cache.flush()
        for queue in self._timers:
            queue.flush()

    def maintain(self) -> None:
        """Keep the caches within their budget, and remove some of what has expired."""
        for cache in self._caches:
            cache.maintain()
        now = self._clock.now_ms()
        elapsed, self._maintained_ms = max(0, now - self._maintained_ms), now
        for purge in self._purged_between_epochs:
            purge.run(now, elapsed // len(self._purged_between_epochs))

    def purge_before_full_snapshot(self) -> None:
        """Remove all that has expired of the states that are to be stored without it."""
        for purge in self._purged_at_snapshot:
            purge.run_whole(self._clock.now_ms())

    def metrics(self) -> dict[str, float]:
        """Return gauges."""
        return {
            "stateCacheEntries": float(sum(cache.entries for cache in self._caches)),
            "stateCacheBytes": sum(cache.estimated_bytes for cache in self._caches),
            "stateCacheBudgetBytes": float(self.cache_bytes),
            "stateRowsExpired": float(sum(purge.removed for purge in self._purges)),
        }
