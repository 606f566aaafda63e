"""The keyed state backend: states, timers and their registration, over any `StateStorage`.

What differs between backends is only where rows live (`headrace.state.rocksdb`,
`headrace.state.hashmap`); caching, time order, checks and messages are here, once.
"""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING, TypeVar, cast

from headrace.checkpoint.protocol.types import StateSchema
from headrace.errors import InternalError, InvalidProgramError
from headrace.state.contract import KeyContext, LocalSnapshot
from headrace.state.owned_rows import OwnedRows
from headrace.state.schemas import (
    TIMER_ROWS,
    TIMERS,
    VALUE,
    check_state,
    refuse_undeclared,
    undeclared,
)
from headrace.state.timers import StoredTimerQueue
from headrace.state.value_state import CachedValueState, SerializedValueState

if TYPE_CHECKING:
    from pathlib import Path

    from headrace.serialization.serializer import KeySerializer, TypeSerializer
    from headrace.state.contract import BackendConfig, TimerQueue, ValueStateAccess
    from headrace.state.storage import StateStorage

T = TypeVar("T")

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
        self._config = config
        self._storage = storage
        self._restored = restored
        self._cache_bytes = cache_bytes
        self._keys = cast("KeySerializer[object]", config.key_serializer)
        self._schemas: dict[str, StateSchema] = {}
        self._values: dict[str, CachedValueState[object]] = {}
        self._timers: dict[str, StoredTimerQueue] = {}
        self._closed = False

    def value_state(self, name: str, serializer: TypeSerializer[T]) -> ValueStateAccess[T]:
        """Return the state ``name``, registering it on first use.

        Raises:
            IncompatibleStateError: a restored or registered state of this name has another type.
        """
        declared = StateSchema(name, VALUE, serializer.snapshot())
        if self._register(declared, serializer):
            make = CachedValueState if serializer.immutable else SerializedValueState
            values = cast("TypeSerializer[object]", serializer)
            self._values[name] = make(self._owned_rows(name), values, self._cache_bytes)
            for state in self._values.values():
                state.set_budget(self._cache_bytes // len(self._values))
        return cast("ValueStateAccess[T]", self._values[name])

    def timers(self, name: str) -> TimerQueue:
        """Return the timer queue ``name``, registering it on first use."""
        if self._register(StateSchema(name, TIMERS, TIMER_ROWS), None):
            self._timers[name] = StoredTimerQueue(self._owned_rows(name))
        return self._timers[name]

    def finish_registration(self) -> None:
        """Settle what becomes of restored states that the program did not declare.

        Raises:
            IncompatibleStateError: there are some, and they may not be dropped; names them.
        """
        uid = self._config.operator_uid
        names = undeclared(self._restored, self._schemas)
        if not names:
            return
        if not self._config.allow_non_restored_state:
            refuse_undeclared(names, self._schemas, uid)
        for name in names:
            log.warning("dropping state that is no longer declared operator=%s state=%s", uid, name)
            self._storage.drop(name)
            del self._restored[name]

    def flush(self) -> None:
        """Write all cached changes into the storage."""
        for state in self._values.values():
            state.flush()
        for queue in self._timers.values():
            queue.flush()

    def maintain(self) -> None:
        """Keep the caches within their budget; cheap, called between two epochs."""
        for state in self._values.values():
            state.maintain()

    def snapshot(self, directory: Path) -> LocalSnapshot:
        """Flush and freeze the state into ``directory``, which must not exist (sync phase)."""
        if directory.exists():
            msg = f"a snapshot needs a directory of its own; directory={directory}"
            raise InternalError(msg)
        self.flush()
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
            # States not asked for yet are still in the rows, so they stay in the snapshot.
            schemas=tuple((self._restored | self._schemas)[name] for name in self._names()),
        )

    def metrics(self) -> dict[str, float]:
        """Return gauges of the caches, the timers and the storage."""
        states = self._values.values()
        return self._storage.metrics() | {
            "stateCacheEntries": float(sum(state.entries for state in states)),
            "stateCacheBytes": sum(state.estimated_bytes for state in states),
            "stateCacheBudgetBytes": float(self._cache_bytes),
        }

    def close(self) -> None:
        """Release native resources. Idempotent; changes since the last flush are lost."""
        if not self._closed:
            self._closed = True
            self._storage.close()

    def _owned_rows(self, name: str) -> OwnedRows:
        store = self._storage.rows(name)
        return OwnedRows(name, self.context, store, self._keys, self._config.key_group_range)

    def _names(self) -> list[str]:
        return sorted(self._restored | self._schemas)

    def _register(self, declared: StateSchema, serializer: TypeSerializer[T] | None) -> bool:
        """Take note of a declaration; return whether it is new."""
        uid = self._config.operator_uid
        if not declared.name:
            msg = f"a state needs a name; operator={uid}"
            raise InvalidProgramError(msg)
        known = self._schemas.get(declared.name)
        if known is not None:
            reason = None if known.serializer == declared.serializer else "declared twice"
            check_state(known, declared, reason, uid)
            return False
        stored = self._restored.get(declared.name)
        if stored is not None:
            if serializer is None:
                same = stored.serializer == declared.serializer
                reason = None if same else "the row formats differ"
            else:
                reason = serializer.incompatibility(stored.serializer)
            check_state(stored, declared, reason, uid)
        self._schemas[declared.name] = declared
        return True
