"""The contract of a keyed state backend, shared by `rocksdb` and `hashmap` (C1, C4).

One backend holds the keyed state of **one operator in one slot**. It is used by one thread, the
slot's main thread; only a finished `LocalSnapshot` may be read from elsewhere.

Flow of one record: the slot sets `KeyContext`, the user function reads and updates state objects.
At the barrier `snapshot` flushes and freezes the state in a directory of hard links (sync phase,
ms); the uploader reads that directory (async phase) while records go on.

The layout of rows is the same for every backend: `headrace.state.rows`, docs/state-format.md.

Source: Flink's ``AbstractKeyedStateBackend``, ``SnapshotStrategy``, ``InternalTimerService``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from headrace.ids import KeyGroup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from headrace.checkpoint.protocol.types import StateSchema
    from headrace.ids import OperatorUid
    from headrace.keygroups import KeyGroupRange
    from headrace.serialization.serializer import TypeSerializer

T = TypeVar("T")


class KeyContext:
    """The current key of a slot's operator; one mutable object shared with its state objects.

    The record loop writes it before every user function call. ``cache_key`` is a hashable that is
    equal for two keys exactly when their serialized bytes are (see `KeySerializer`).
    """

    __slots__ = ("cache_key", "key", "key_group")

    def __init__(self) -> None:
        self.key: object = None
        self.cache_key: object = None
        self.key_group: KeyGroup = KeyGroup(0)


class ValueStateAccess(Protocol[T]):
    """Keyed single value. Unset reads as None.

    State changes only by `update` and `clear`: changing an object in place that went in or came out
    changes nothing until it is handed to `update` (T27). Every backend keeps to that.
    """

    def value(self) -> T | None:
        """Return the current key's value or None."""
        ...

    def update(self, value: T) -> None:
        """Set the current key's value.

        Raises:
            TypeError: None (use `clear`), or a value that is not of the state's type.
        """
        ...

    def clear(self) -> None:
        """Remove the current key's row."""
        ...


class Timer(NamedTuple):
    """One timer; equal timers are one timer (B16)."""

    timestamp_ms: int
    key: object
    key_group: KeyGroup


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

        Timers of one time come in the order of key groups and key bytes, the same in every run.
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
    """A directory with the files of one stored `KeyedStateHandle`, already on local disk."""

    directory: Path
    key_group_range: KeyGroupRange
    key_serializer: dict[str, object]
    schemas: tuple[StateSchema, ...]


@dataclass(frozen=True, slots=True)
class BackendConfig(Generic[T]):
    """What is needed to open a backend.

    Attributes:
        directory: where working state lives (`headrace.state.directories`); created, must be
            empty or absent. RocksDB's own files are in ``db`` below it.
        operator_uid: owner, for messages.
        key_serializer: type of the operator's keys.
        key_group_range: the only key groups that may ever be touched; others raise InternalError.
        managed_memory_bytes: budget of all native memory and caches of this backend.
        options: ``state.backend.*`` options by Flink's keys, already validated.
        allow_non_restored_state: accept restored states that the program no longer declares.
    """

    directory: Path
    operator_uid: OperatorUid
    key_serializer: TypeSerializer[T]
    key_group_range: KeyGroupRange
    managed_memory_bytes: int
    options: dict[str, str] = field(default_factory=dict)
    allow_non_restored_state: bool = False


class KeyedStateBackend(Protocol):
    """Keyed state of one operator in one slot."""

    context: KeyContext

    def value_state(self, name: str, serializer: TypeSerializer[T]) -> ValueStateAccess[T]:
        """Return the state ``name``, registering it on first use.

        Raises:
            IncompatibleStateError: a restored state of this name has another kind or a type that
                the serializer cannot read; the message prints both schemas.
        """
        ...

    def timers(self, name: str) -> TimerQueue:
        """Return the timer queue ``name`` (``_event_timers`` or ``_processing_timers``)."""
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
        """Keep the caches within their budget; cheap, called between two epochs."""
        ...

    def snapshot(self, directory: Path) -> LocalSnapshot:
        """Flush and freeze the state into ``directory``, which must not exist (sync phase).

        What the frozen files hold never changes; later snapshots of the same backend use the same
        names for the same shareable files.
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
