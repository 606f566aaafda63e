"""The contract of a keyed state backend, shared by `rocksdb` and `hashmap` (C1, C4).

One backend holds the keyed state of **one operator in one slot**. It is used by one thread, the
slot's main thread; only a finished `LocalSnapshot` may be read from elsewhere.

Flow of one record: the slot sets `KeyContext`, the user function reads and updates state objects.
At the barrier `snapshot` flushes and freezes the state in a directory of hard links (sync phase,
ms); the uploader reads that directory (async phase) while records go on.

What the kinds of state can do is in `headrace.state.access`. The layout of rows is the same for
every backend: `headrace.state.rows`, docs/state-format.md.

Source: Flink's ``AbstractKeyedStateBackend``, ``SnapshotStrategy``, ``InternalTimerService``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from headrace.clock import Clock, SystemClock
from headrace.ids import KeyGroup
from headrace.state.access import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.checkpoint.protocol.types import StateSchema
    from headrace.ids import OperatorUid
    from headrace.keygroups import KeyGroupRange
    from headrace.serialization.serializer import KeySerializer, TypeSerializer
    from headrace.state.access import (
        Aggregate,
        FoldingAccess,
        ListStateAccess,
        MapStateAccess,
        Reduce,
        StateTraits,
        ValueStateAccess,
    )
    from headrace.state.memory import SlotMemory
    from headrace.state.storage import StateStorage
    from headrace.state.stored import StoredRows

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
In = TypeVar("In")
Out = TypeVar("Out")
Acc = TypeVar("Acc")


class KeyContext:
    """The current key of a slot's operator; one mutable object shared with its state objects.

    The record loop writes it before every user function call. ``cache_key`` is a hashable that is
    equal for two keys exactly when their serialized bytes are (see `KeySerializer`).

    A backend has two: state without namespaces follows `KeyedStateBackend.context`, namespaced
    state follows `KeyedStateBackend.namespace_context`, which whoever assigns windows moves by
    `enter`. So both kinds may be used for one record, and the first pays nothing for the second.
    """

    __slots__ = ("_key_alone", "cache_key", "key", "key_group", "namespace")

    def __init__(self) -> None:
        self.key: object = None
        self.cache_key: object = None
        self.key_group: KeyGroup = KeyGroup(0)
        self.namespace: bytes = b""
        self._key_alone: object = None

    def enter(self, outer: KeyContext, namespace: bytes) -> None:
        """Take over the key of ``outer``, in a namespace.

        Args:
            outer: the context without namespaces; ``self`` when only the namespace changes.
            namespace: at most 65,535 bytes, e.g. `headrace.state.rows.window_namespace`.
        """
        if outer is not self:
            self.key = outer.key
            self.key_group = outer.key_group
            self._key_alone = outer.cache_key
        self.cache_key = (self._key_alone, namespace)
        self.namespace = namespace


class Timer(NamedTuple):
    """One timer; equal timers are one timer (B16)."""

    timestamp_ms: int
    key: object
    key_group: KeyGroup
    namespace: bytes = b""


class TimerQueue(Protocol):
    """Timers of one time domain of one operator in one slot, bounded in memory, checkpointed."""

    def register(self, timestamp_ms: int) -> None:
        """Register a timer for the current key; a second equal one changes nothing."""
        ...

    def delete(self, timestamp_ms: int) -> None:
        """Delete the current key's timer at this time if there is one."""
        ...

    def due(self, up_to_ms: int) -> Iterator[Timer]:
        """Remove and yield timers with ``timestamp_ms <= up_to_ms`` in time order.

        Timers of one time come in the order of key groups, key bytes and namespaces, the same in
        every run.
        Timers registered while iterating are included when they are due. The caller sets the key
        context to the yielded timer's key before it calls user code.
        """
        ...


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One frozen local file. ``shareable`` files (SST) never change under the same ``name``."""

    name: str
    path: Path
    size_bytes: int
    shareable: bool


@dataclass(frozen=True, slots=True)
class LocalSnapshot:
    """A frozen copy of a backend's state on local disk, made of hard links.

    The owner removes ``directory`` after it is uploaded and no longer needed for local recovery.
    """

    directory: Path
    files: tuple[SnapshotFile, ...]
    key_group_range: KeyGroupRange
    key_serializer: dict[str, object]
    schemas: tuple[StateSchema, ...]


@dataclass(frozen=True, slots=True)
class RestoreSource:
    """A directory with the files of one stored `KeyedStateHandle`, already on local disk.

    Attributes:
        backend: what the files are, as `KeyedStateHandle.backend` says; None: they were frozen by
            the very backend that will read them.
    """

    directory: Path
    key_group_range: KeyGroupRange
    key_serializer: dict[str, object]
    schemas: tuple[StateSchema, ...]
    backend: str | None = None


class StoredTypes(Protocol):
    """What stored state says about itself: a `RestoreSource` or a `KeyedStateHandle`."""

    @property
    def key_serializer(self) -> dict[str, object]:
        """Snapshot of the key's type."""
        ...

    @property
    def schemas(self) -> Sequence[StateSchema]:
        """Every registered state."""
        ...


@dataclass(frozen=True, slots=True)
class BackendConfig(Generic[T]):
    """What is needed to open a backend.

    Attributes:
        directory: where working state lives (`headrace.state.directories`); created, must be
            empty or absent. RocksDB's own files are in ``db`` below it.
        operator_uid: owner, for messages.
        key_serializer: type of the operator's keys.
        key_group_range: the only key groups that may ever be touched; others raise InternalError.
        managed_memory_bytes: this backend's part of the slot's managed memory.
        memory: the whole slot's, for native memory that its backends share; None: this backend
            has its part for itself.
        options: ``state.backend.*`` options by Flink's keys, already validated.
        clock: time that expiry of state goes by.
        allow_non_restored_state: accept restored states that the program no longer declares.
    """

    directory: Path
    operator_uid: OperatorUid
    key_serializer: TypeSerializer[T]
    key_group_range: KeyGroupRange
    managed_memory_bytes: int
    memory: SlotMemory | None = None
    options: dict[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    allow_non_restored_state: bool = False


class KeyedStateBackend(Protocol):
    """Keyed state of one operator in one slot."""

    context: KeyContext
    """The current key, for state and timers without namespaces."""

    namespace_context: KeyContext
    """The current key and namespace, for namespaced state and timers."""

    def value_state(
        self, name: str, serializer: TypeSerializer[T], traits: StateTraits = PLAIN
    ) -> ValueStateAccess[T]:
        """Return the value state ``name``, registering it on first use, as all kinds below.

        Raises:
            IncompatibleStateError: a restored or registered state of this name has another kind,
                other traits, or a type that the serializer cannot read; prints both schemas.
        """
        ...

    def list_state(
        self, name: str, element: TypeSerializer[T], traits: StateTraits = PLAIN
    ) -> ListStateAccess[T]:
        """Return the list state ``name``, whose elements are of type ``element``."""
        ...

    def map_state(
        self,
        name: str,
        key: KeySerializer[K],
        value: TypeSerializer[V],
        traits: StateTraits = PLAIN,
    ) -> MapStateAccess[K, V]:
        """Return the map state ``name``; its keys have the canonical bytes of ``key``."""
        ...

    def reducing_state(
        self,
        name: str,
        serializer: TypeSerializer[T],
        reduce: Reduce[T],
        traits: StateTraits = PLAIN,
    ) -> FoldingAccess[T, T]:
        """Return the reducing state ``name``.

        ``reduce`` is not stored: the one of the first registration is used.
        """
        ...

    def aggregating_state(
        self,
        name: str,
        accumulator: TypeSerializer[Acc],
        function: Aggregate[In, Acc, Out],
        traits: StateTraits = PLAIN,
    ) -> FoldingAccess[In, Out]:
        """Return the aggregating state ``name``; what is stored is its accumulator."""
        ...

    def timers(self, name: str, *, namespaced: bool = False) -> TimerQueue:
        """Return the timer queue ``name`` (``_event_timers`` or ``_processing_timers``)."""
        ...

    def scan(self, name: str, key_groups: KeyGroupRange) -> Iterator[tuple[bytes, bytes]]:
        """Flush, then yield the stored rows of a registered or restored state in order.

        The order is that of the rows' bytes: key groups first, the same on every backend. The
        state must not be used before the iterator has ended. Expired entries are included.

        Raises:
            InternalError: there is no such state.
        """
        ...

    def finish_registration(self) -> None:
        """Settle what becomes of restored states; called once after the operator's ``open``.

        Raises:
            IncompatibleStateError: a restored state was not declared and may not be dropped
                (``allow_non_restored_state``); the message names it.
        """
        ...

    def flush(self) -> None:
        """Write all cached changes into the backend's own storage.

        Raises:
            UserCodeError: a value has a part that is not of its declared type.
        """
        ...

    def maintain(self) -> None:
        """Keep the caches within their budget and remove some of what has expired.

        Called between two epochs; takes a small part of the time since the last call.
        """
        ...

    def snapshot(self, directory: Path) -> LocalSnapshot:
        """Flush and freeze the state into ``directory``, which must not exist (sync phase).

        What the frozen files hold never changes; later snapshots of the same backend use the same
        names for the same shareable files.
        """
        ...

    def track_changes(self, limit_bytes: int) -> None:
        """Begin to note every change from the last `snapshot` on; see `headrace.state.changes`.

        Args:
            limit_bytes: memory of the notes at which they are given up; 0 to note nothing more.
        """
        ...

    def write_changes(self, path: Path) -> int | None:
        """Write what changed until the last `snapshot` into a file, and stop noting.

        Returns:
            the file's size in bytes; None, and no file, when nobody tracked or it was given up.
        """
        ...

    def metrics(self) -> dict[str, float]:
        """Return gauges by Flink's names (block cache, memtables, SST bytes, entries)."""
        ...

    def close(self) -> None:
        """Release native resources; the working directory may then be removed. Idempotent."""
        ...


class KeyedStateBackendFactory(Protocol):
    """Opens backends; one implementation for each ``state.backend.type``."""

    def open(
        self, config: BackendConfig[object], sources: Sequence[RestoreSource]
    ) -> KeyedStateBackend:
        """Open a backend with the rows of ``sources`` that fall into its key-group range.

        ``sources`` may overlap the range partly (rescale) but never each other; their directories
        are only read and stay usable. One source that covers exactly the range is adopted by hard
        links, without copying rows.

        Raises:
            CorruptStateError: a source's files cannot be opened.
            IncompatibleStateError: the key types do not agree.
            InvalidConfigError: an option is unknown or cannot be honoured.
        """
        ...

    def read(self, source: RestoreSource, directory: Path) -> StoredRows:
        """Open frozen files of this backend to look at their rows; nothing is written into them.

        Rows are those of ``source.key_group_range``, by the names of ``source.schemas``;
        `headrace.state.entries` takes them apart. Files of any kind: `open_stored_rows`.

        Args:
            source: what to read.
            directory: made for what reading needs; the caller closes the rows and removes it.

        Raises:
            CorruptStateError: the files cannot be opened.
        """
        ...

    def prepare(
        self, config: BackendConfig[object], sources: Sequence[RestoreSource]
    ) -> StateStorage:
        """Build the rows of a backend that will be opened later, as `open` does.

        The caller closes the storage, or hands it to `open_prepared`.
        """
        ...

    def open_prepared(
        self,
        config: BackendConfig[object],
        storage: StateStorage,
        stored: Sequence[StoredTypes],
        changes: Sequence[Path] = (),
    ) -> KeyedStateBackend:
        """Open a backend over prepared rows, after changing them as the files say.

        Args:
            config: the one that the rows were prepared with.
            storage: belongs to the backend from now on, also when this fails.
            stored: types of the state as it is after the changes.
            changes: files of `write_changes`, each of another former owner.

        Raises:
            CorruptStateError: a file of changes cannot be read.
            IncompatibleStateError: as `open`.
        """
        ...
