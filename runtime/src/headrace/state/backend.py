"""The keyed state backend: states, timers and their registration, over any `StateStorage`.

What differs between backends is only where rows live (`headrace.state.rocksdb`,
`headrace.state.hashmap`); caching, expiry, time order, checks and messages are here, once.
"""

from __future__ import annotations

import logging
import shutil
import time
from typing import TYPE_CHECKING, TypeVar, cast

from headrace.errors import InternalError
from headrace.state import schemas
from headrace.state.access import PLAIN, StateTraits
from headrace.state.caches import StateCaches
from headrace.state.changes import ChangeLog, TrackedStorage, apply_changes
from headrace.state.contract import KeyContext, LocalSnapshot
from headrace.state.folding_state import AggregatingState, ReducingState
from headrace.state.list_state import CachedListState
from headrace.state.map_state import CachedMapState
from headrace.state.migration import migrate_rows, row_migration
from headrace.state.owned_rows import OwnedRows
from headrace.state.registration import Known, Migrate, Registration
from headrace.state.rows import rows_of_range
from headrace.state.schemas import check_key_type, merge_schemas
from headrace.state.timers import StoredTimerQueue
from headrace.state.ttl import (
    ExpiringListState,
    ExpiringMapState,
    ExpiringValueState,
    LastingFormat,
    StampedSerializer,
)
from headrace.state.value_state import CachedValueState, SerializedValueState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from headrace.checkpoint.protocol.types import StateSchema
    from headrace.keygroups import KeyGroupRange
    from headrace.serialization.serializer import KeySerializer, TypeSerializer
    from headrace.state.access import (
        Aggregate,
        FoldingAccess,
        ListStateAccess,
        MapStateAccess,
        Reduce,
        ValueStateAccess,
    )
    from headrace.state.contract import BackendConfig, StoredTypes, TimerQueue
    from headrace.state.schemas import StateFormat
    from headrace.state.storage import StateStorage

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Out = TypeVar("Out")
Acc = TypeVar("Acc")

log = logging.getLogger(__name__)


class CachedStateBackend:
    """`KeyedStateBackend` over a storage of rows.

    Args:
        config: what to open.
        storage: rows of the restored state, already cut to the backend's key groups.
        restored: schemas of the restored states by name.
        cache_bytes: bound of all object caches together.
    """

    def __init__(
        self,
        config: BackendConfig[object],
        storage: StateStorage,
        restored: dict[str, StateSchema],
        cache_bytes: int,
    ) -> None:
        self.context = KeyContext()
        self.namespace_context = KeyContext()
        self._config = config
        self._storage = TrackedStorage(storage)
        self._states = Registration(restored, config.operator_uid)
        self._caches = StateCaches(cache_bytes, config.clock)
        self._keys = cast("KeySerializer[object]", config.key_serializer)
        self._objects: dict[str, object] = {}
        self._closed = False

    # --- kinds of state -----------------------------------------------------------------------

    def value_state(
        self, name: str, serializer: TypeSerializer[T], traits: StateTraits = PLAIN
    ) -> ValueStateAccess[T]:
        """Return the value state ``name``, registering it on first use; see the protocol."""
        make = lambda: self._value(name, serializer, traits)  # noqa: E731
        found = self._state(name, schemas.VALUE, self._format(serializer, traits), traits, make)
        return cast("ValueStateAccess[T]", found)

    def list_state(
        self, name: str, element: TypeSerializer[T], traits: StateTraits = PLAIN
    ) -> ListStateAccess[T]:
        """Return the list state ``name``; see the protocol."""

        def make() -> ListStateAccess[T]:
            rows = self._owned_rows(name, traits)
            if traits.ttl is None:
                return self._caches.add(CachedListState(rows, element, self._caches.cache_bytes))
            stamped = CachedListState(rows, StampedSerializer(element), self._caches.cache_bytes)
            return ExpiringListState(
                self._caches.add(stamped), self._caches.expire(rows, traits.ttl, lists=True)
            )

        rows_format = schemas.ListFormat(self._format(element, traits))
        found = self._state(name, schemas.LIST, rows_format, traits, make)
        return cast("ListStateAccess[T]", found)

    def map_state(
        self,
        name: str,
        key: KeySerializer[K],
        value: TypeSerializer[V],
        traits: StateTraits = PLAIN,
    ) -> MapStateAccess[K, V]:
        """Return the map state ``name``; see the protocol."""

        def make() -> MapStateAccess[K, V]:
            rows = self._owned_rows(name, traits)
            if traits.ttl is None:
                return self._caches.add(CachedMapState(rows, key, value, self._caches.cache_bytes))
            stamped = CachedMapState(rows, key, StampedSerializer(value), self._caches.cache_bytes)
            return ExpiringMapState(
                self._caches.add(stamped), self._caches.expire(rows, traits.ttl)
            )

        rows_format = schemas.MapFormat(key, self._format(value, traits))
        found = self._state(name, schemas.MAP, rows_format, traits, make)
        return cast("MapStateAccess[K, V]", found)

    def reducing_state(
        self,
        name: str,
        serializer: TypeSerializer[T],
        reduce: Reduce[T],
        traits: StateTraits = PLAIN,
    ) -> FoldingAccess[T, T]:
        """Return the reducing state ``name``; see the protocol."""

        def make() -> FoldingAccess[T, T]:
            value = self._value(name, serializer, traits)
            return ReducingState(value, self._context_of(traits), reduce)

        rows_format = self._format(serializer, traits)
        found = self._state(name, schemas.REDUCING, rows_format, traits, make)
        return cast("FoldingAccess[T, T]", found)

    def aggregating_state(
        self,
        name: str,
        accumulator: TypeSerializer[Acc],
        function: Aggregate[In, Acc, Out],
        traits: StateTraits = PLAIN,
    ) -> FoldingAccess[In, Out]:
        """Return the aggregating state ``name``; see the protocol."""

        def make() -> FoldingAccess[In, Out]:
            value = self._value(name, accumulator, traits)
            return AggregatingState(value, self._context_of(traits), function)

        rows_format = self._format(accumulator, traits)
        found = self._state(name, schemas.AGGREGATING, rows_format, traits, make)
        return cast("FoldingAccess[In, Out]", found)

    def timers(self, name: str, *, namespaced: bool = False) -> TimerQueue:
        """Return the timer queue ``name``, registering it on first use."""
        traits = StateTraits(namespaced=namespaced)

        def make() -> StoredTimerQueue:
            return self._caches.add_timers(StoredTimerQueue(self._owned_rows(name, traits)))

        found = self._state(name, schemas.TIMERS, schemas.TimerFormat(), traits, make)
        return cast("TimerQueue", found)

    def finish_registration(self) -> None:
        """Settle what becomes of restored states that the program did not declare.

        Raises:
            IncompatibleStateError: there are some, and they may not be dropped; names them.
        """
        uid = self._config.operator_uid
        allowed = self._config.allow_non_restored_state
        for name in self._states.settle(allow_non_restored_state=allowed):
            log.warning("dropping state that is no longer declared operator=%s state=%s", uid, name)
            self._storage.drop(name)

    # --- storage ------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all cached changes into the storage."""
        self._caches.flush()

    def maintain(self) -> None:
        """Keep the caches within their budget, and remove some of what has expired."""
        self._caches.maintain()

    def scan(self, name: str, key_groups: KeyGroupRange) -> Iterator[tuple[bytes, bytes]]:
        """Flush, then return the stored rows of a state in order; see the protocol."""
        if name not in self._states:
            msg = f"there is no such state; operator={self._config.operator_uid} state={name}"
            raise InternalError(msg)
        self.flush()
        return self._storage.rows(name).scan(*rows_of_range(key_groups))

    def snapshot(self, directory: Path) -> LocalSnapshot:
        """Flush and freeze the state into ``directory``, which must not exist (sync phase)."""
        if directory.exists():
            msg = f"a snapshot needs a directory of its own; directory={directory}"
            raise InternalError(msg)
        self.flush()
        if self._storage.full_snapshots:
            self._caches.purge_before_full_snapshot()
        try:
            files = self._storage.freeze(directory)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)  # half a snapshot is none
            raise
        return LocalSnapshot(
            directory=directory,
            files=files,
            key_group_range=self._config.key_group_range,
            key_serializer=self._keys.snapshot(),
            schemas=self._states.schemas(),
        )

    def track_changes(self, limit_bytes: int) -> None:
        """Begin to note every change from the last `snapshot` on."""
        self._storage.log = ChangeLog(limit_bytes) if limit_bytes > 0 else None

    def write_changes(self, path: Path) -> int | None:
        """Write what changed until the last `snapshot` into a file, and stop noting."""
        changes, self._storage.log = self._storage.log, None
        return changes.write(path) if changes is not None and not changes.overflown else None

    def metrics(self) -> dict[str, float]:
        """Return gauges of the caches, the timers and the storage."""
        return self._storage.metrics() | self._caches.metrics()

    def close(self) -> None:
        """Release native resources. Idempotent; changes since the last flush are lost."""
        if not self._closed:
            self._closed = True
            self._storage.close()

    # --- inside -------------------------------------------------------------------------------

    def _state(
        self,
        name: str,
        kind: str,
        rows: StateFormat,
        traits: StateTraits,
        make: Callable[[], object],
    ) -> object:
        """Return the state's object, made when its declaration is new."""
        outcome = self._states.declare(name, kind, rows, traits)
        if isinstance(outcome, Migrate):
            self._migrate(name, rows, outcome)
        if not isinstance(outcome, Known):
            schemas.warn_of_pickles(name, rows, self._config.operator_uid)
            self._objects[name] = make()
        return self._objects[name]

    def _migrate(self, name: str, rows: StateFormat, outcome: Migrate) -> None:
        """Rewrite the restored rows of a state whose type changed."""
        uid = self._config.operator_uid
        log.warning(
            "stored state is migrated to its declared type operator=%s state=%s changes=\n%s",
            uid,
            name,
            outcome.found.table(),
        )
        started = time.monotonic()
        count = migrate_rows(
            self._storage.rows(name),
            self._config.key_group_range,
            row_migration(rows, outcome.stored),
            self._keys,
        )
        log.info(
            "migrated operator=%s state=%s rows=%s seconds=%.1f",
            uid,
            name,
            count,
            time.monotonic() - started,
        )

    def _value(
        self, name: str, serializer: TypeSerializer[T], traits: StateTraits
    ) -> ValueStateAccess[T]:
        """Build what value, reducing and aggregating state stand on."""
        rows = self._owned_rows(name, traits)
        make = CachedValueState if serializer.immutable else SerializedValueState
        if traits.ttl is None:
            return self._caches.add(make(rows, serializer, self._caches.cache_bytes))
        stamped = make(rows, StampedSerializer(serializer), self._caches.cache_bytes)
        return ExpiringValueState(self._caches.add(stamped), self._caches.expire(rows, traits.ttl))

    def _format(self, serializer: TypeSerializer[T], traits: StateTraits) -> StateFormat:
        """Return what the values of a state look like in its rows."""
        if traits.ttl is None:
            return LastingFormat(serializer)
        return StampedSerializer(serializer, self._config.clock.now_ms())

    def _context_of(self, traits: StateTraits) -> KeyContext:
        return self.namespace_context if traits.namespaced else self.context

    def _owned_rows(self, name: str, traits: StateTraits) -> OwnedRows:
        return OwnedRows(
            name,
            self._context_of(traits),
            self._storage.rows(name),
            self._keys,
            self._config.key_group_range,
        )


def open_backend(
    config: BackendConfig[object],
    storage: StateStorage,
    stored: Sequence[StoredTypes],
    changes: Sequence[Path],
    cache_bytes: int,
) -> CachedStateBackend:
    """Open a backend over rows that are already there; see `open_prepared` of the protocol."""
    try:
        check_key_type(stored, config.key_serializer, config.operator_uid)
        restored = merge_schemas(stored, config.operator_uid)
        for path in changes:
            apply_changes(path, storage, config.key_group_range)
    except BaseException:
        storage.close()
        raise
    return CachedStateBackend(config, storage, restored, cache_bytes)
