"""Writing keyed state as a savepoint that a job can start from (E9).

One slot at a time, wherever its rows are: a keyed state backend is opened as a slot opens it, a
`KeyedStateBootstrapFunction` fills it, and its snapshot is sent into the savepoint's directory. So
what is stored is what a job would have stored, whatever the kind of state, and either backend
restores it. `headrace.state_processor.publication` then makes the savepoint exist.

::

    <path>/_metadata            written last
    <path>/data-<attempt>/...   files of every slot

A task that is repeated writes files of its own names; publication removes those that no slot's
handle refers to.
"""

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.protocol.savepoints import data_dir
from headrace.checkpoint.protocol.types import (
    FileHandle,
    KeyedStateHandle,
)
from headrace.checkpoint.storage import open_store
from headrace.checkpoint.transfer import TransferPool
from headrace.errors import (
    InvalidConfigError,
    InvalidProgramError,
    LocalStorageError,
)
from headrace.graph.job_graph import JobOperator
from headrace.graph.stream_graph import OperatorKind, WatermarkSpec
from headrace.ids import CheckpointId, Generation, JobId, OperatorUid, SlotIndex
from headrace.keygroups import (
    check_parallelism,
    key_group_of_hash,
    key_group_range_of_slot,
    slot_of_key_group,
)
from headrace.serialization.registry import value_serializer
from headrace.serialization.types import PICKLED
from headrace.slot.keyed import EVENT_TIMERS, PROCESSING_TIMERS, TimerService
from headrace.slot.operators import RecordScope
from headrace.slot.runtime_context import SlotRuntimeContext
from headrace.state.contract import BackendConfig
from headrace.state.factory import backend_factory
from headrace.state_processor.functions import KeyedStateBootstrapFunction

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Mapping

    from headrace.checkpoint.storage import ObjectStore
    from headrace.clock import Clock
    from headrace.ids import KeyGroup
    from headrace.serialization.serializer import KeySerializer
    from headrace.state.contract import KeyedStateBackend, LocalSnapshot

_LOG = logging.getLogger(__name__)

FIRST_CHECKPOINT: Final = CheckpointId(1)
FIRST_GENERATION: Final = Generation(1)
"""A savepoint that no job has taken counts as the first checkpoint of one."""

MEMORY_BYTES: Final = 256 << 20
"""Managed memory of the backend in a task."""

_MAINTAIN_EVERY: Final = 10_000
"""Rows between two looks at the budget of the backend's caches, a small part of that memory."""


@dataclass(frozen=True, slots=True)
class SavepointTarget:
    """The savepoint to be written; travels to tasks.

    Attributes:
        location: URI of its directory.
        parallelism: number of slots whose files it holds; a job may have another one.
        max_parallelism: number of key groups, the job's for ever.
        backend: ``rocksdb`` or ``hashmap``, which writes the files; any backend restores them.
        storage: options of the storage.
        state_options: ``state.backend.*`` options.
        memory_bytes: managed memory of the backend in each task.
        scratch_dir: local directory of tasks; None: the system's for temporary files.
        attempt: unique to this attempt.
    """

    location: str
    parallelism: int
    max_parallelism: int
    backend: str = "rocksdb"
    storage: Mapping[str, str] = field(default_factory=dict)
    state_options: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int = MEMORY_BYTES
    scratch_dir: Path | None = None
    attempt: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        backend_factory(self.backend)
        try:
            check_parallelism(self.parallelism, self.max_parallelism)
        except ValueError as error:
            msg = f"a savepoint cannot have these slots: {error}"
            raise InvalidConfigError(msg) from error

    def open(self) -> ObjectStore:
        """Return a store over the savepoint's directory."""
        return open_store(self.location, dict(self.storage))


@dataclass(frozen=True, slots=True)
class KeyedBootstrap:
    """One operator of the savepoint; travels to tasks.

    Attributes:
        uid: as the job's operator has it.
        key_serializer: of the job's key type.
        function: writes the state.
    """

    uid: OperatorUid
    key_serializer: KeySerializer[object]
    function: KeyedStateBootstrapFunction

    def key_group(self, key: object, max_parallelism: int) -> KeyGroup:
        """Return the key group of a key.

        Raises:
            InvalidProgramError: it is no key of the operator.
        """
        if key is None:
            msg = f"a row has no key, leave such rows out; operator={self.uid}"
            raise InvalidProgramError(msg)
        try:
            hashed = self.key_serializer.hash64(self.key_serializer.coerce(key))
        except TypeError as error:
            msg = f"a row has a key of another type: {error}; operator={self.uid} key={key!r}"
            raise InvalidProgramError(msg) from error
        return key_group_of_hash(hashed, max_parallelism)


class AccessClock:
    """Time that expiry of written state goes by: now, or what a row says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.access_ms: int | None = None

    def now_ms(self) -> int:
        """Return the time of access."""
        return self._clock.now_ms() if self.access_ms is None else self.access_ms

    def monotonic_s(self) -> float:
        """Return the clock's own."""
        return self._clock.monotonic_s()

    def wait(self, event: threading.Event, timeout_s: float) -> bool:
        """Wait as the clock does."""
        return self._clock.wait(event, timeout_s)


class _Context(KeyedStateBootstrapFunction.Context):
    """Context of one slot's function."""

    def __init__(self, backend: KeyedStateBackend, clock: AccessClock) -> None:
        self._keys = backend.context
        self._clock = clock
        scope = RecordScope()
        scope.processing_time_ms = clock.now_ms()
        self._timers = TimerService(
            scope, backend.timers(EVENT_TIMERS), backend.timers(PROCESSING_TIMERS)
        )

    def get_current_key(self) -> object:
        return self._keys.key

    def timer_service(self) -> TimerService:  # type: ignore[override]  # has its methods; layers keep them apart
        return self._timers

    def set_last_access(self, timestamp_ms: int | None) -> None:
        self._clock.access_ms = timestamp_ms


def write_slot(
    target: SavepointTarget,
    operator: KeyedBootstrap,
    slot: SlotIndex,
    rows: Iterable[tuple[object, object]],
    clock: Clock,
) -> KeyedStateHandle:
    """Write the state of one operator in one slot; returns where it is.

    Args:
        target: the savepoint.
        operator: whose state.
        slot: whose key groups.
        rows: key and row, of this slot's key groups alone; those of a key one after the other.
        clock: time that written state expires by.

    Raises:
        InvalidProgramError: a row does not fit, or the function's state is declared wrongly.
        StorageUnavailableError, StorageAccessError, LocalStorageError: files cannot be written.
    """
    try:
        scratch = Path(tempfile.mkdtemp(prefix="headrace-bootstrap-", dir=target.scratch_dir))
    except OSError as error:
        msg = f"no local directory for state; parent={target.scratch_dir} error={error}"
        raise LocalStorageError(msg) from error
    access = AccessClock(clock)
    try:
        config = BackendConfig(
            directory=scratch / "work",
            operator_uid=operator.uid,
            key_serializer=operator.key_serializer,
            key_group_range=key_group_range_of_slot(
                slot, target.parallelism, target.max_parallelism
            ),
            managed_memory_bytes=target.memory_bytes,
            options=dict(target.state_options),
            clock=access,
        )
        backend = backend_factory(target.backend).open(config, [])
        try:
            _fill(backend, target, operator, slot, rows, access)
            snapshot = backend.snapshot(scratch / "snapshot")
        finally:
            backend.close()
        return _send(target, operator, slot, snapshot)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fill(
    backend: KeyedStateBackend,
    target: SavepointTarget,
    operator: KeyedBootstrap,
    slot: SlotIndex,
    rows: Iterable[tuple[object, object]],
    clock: AccessClock,
) -> None:
    function, keys, context = operator.function, operator.key_serializer, backend.context
    bound = _Context(backend, clock)
    function.open(_runtime_context(backend, target, operator, slot))
    for count, (key, row) in enumerate(rows, start=1):
        context.key_group = operator.key_group(key, target.max_parallelism)
        context.key = keys.coerce(key)
        context.cache_key = keys.cache_key(context.key)
        clock.access_ms = None
        function.process_element(row, bound)  # type: ignore[arg-type]  # rows of a DataFrame
        if count % _MAINTAIN_EVERY == 0:
            clock.access_ms = None
            backend.maintain()
    clock.access_ms = None
    function.close()


def _runtime_context(
    backend: KeyedStateBackend, target: SavepointTarget, operator: KeyedBootstrap, slot: SlotIndex
) -> SlotRuntimeContext:
    return SlotRuntimeContext(
        operator=JobOperator(
            id=0,
            uid=operator.uid,
            uid_is_generated=False,
            name=operator.uid,
            kind=OperatorKind.KEYED_PROCESS,
            function=operator.function,
            output_serializer=value_serializer(PICKLED),
            watermarks=WatermarkSpec(),
            key_serializer=operator.key_serializer,
            chained=(),
            exits=(),
        ),
        slot=slot,
        parallelism=target.parallelism,
        max_parallelism=target.max_parallelism,
        job_id=JobId(""),
        job_name="bootstrap",
        backend=backend,
    )


def _send(
    target: SavepointTarget, operator: KeyedBootstrap, slot: SlotIndex, snapshot: LocalSnapshot
) -> KeyedStateHandle:
    """Send a slot's frozen files into the savepoint's directory."""
    store = target.open()
    prefix = f"{data_dir(target.attempt)}/g{FIRST_GENERATION}-c{FIRST_CHECKPOINT}"

    def send(name: str, local: Path) -> FileHandle:
        path = f"{prefix}-{uuid.uuid4().hex}-{name}"
        digest = store.put_file(path, local)
        return FileHandle(name, path, digest.size_bytes, digest.checksum)

    pool = TransferPool()
    try:
        files = pool.run([functools.partial(send, file.name, file.path) for file in snapshot.files])
    finally:
        pool.close()
    return KeyedStateHandle(
        operator_uid=operator.uid,
        slot=slot,
        key_group_start=snapshot.key_group_range.start,
        key_group_end=snapshot.key_group_range.end,
        backend=target.backend,
        key_serializer=snapshot.key_serializer,
        schemas=list(snapshot.schemas),
        files=files,
    )


def slot_of(target: SavepointTarget, key_group: KeyGroup) -> SlotIndex:
    """Return the slot that a key group is written by."""
    return slot_of_key_group(key_group, target.parallelism, target.max_parallelism)
