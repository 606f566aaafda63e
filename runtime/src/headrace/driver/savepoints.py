"""Savepoints of a running job: orders taken from REST, copies made, outcomes kept.

Lives as long as the driver, over all generations. Three sides use it:

- REST threads order a savepoint and ask what became of it;
- the job master's thread takes orders at a barrier, holds checkpoints, and starts copies;
- one copy thread makes savepoints, one after the other, each with many files at once.

Every order ends: in a location or in a cause. The last `OUTCOMES_KEPT` outcomes are kept for the
driver's life; an order that is repeated after that, or to the next driver, finds its savepoint in
storage by the trigger id.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.checkpoint.held import HeldCheckpoints
from headrace.checkpoint.protocol.paths import checkpoint_dir
from headrace.checkpoint.savepoint import SavepointWriter
from headrace.checkpoint.transfer import TransferPool
from headrace.config.values import STORAGE_URI
from headrace.errors import HeadraceError, InternalError, InvalidConfigError, SavepointFailedError
from headrace.ids import TriggerId, new_trigger_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from headrace.checkpoint.contract import CheckpointStore
    from headrace.checkpoint.protocol.savepoints import SavepointFormat
    from headrace.checkpoint.savepoint import Savepoint
    from headrace.checkpoint.storage import ObjectStore
    from headrace.clock import Clock
    from headrace.ids import CheckpointId, JobId, OperatorUid

log = logging.getLogger(__name__)

COPY_THREADS: Final = 8
"""Files that move at once; with S3 each is one request that the service does by itself."""

OUTCOMES_KEPT: Final = 200


@dataclass(frozen=True, slots=True)
class SavepointSettings:
    """What the service must know of its job.

    Attributes:
        checkpoints_uri: the job's checkpoint directory; no savepoint may lie in it.
        savepoints_uri: parent of savepoints whose order names no directory.
        scratch_dir: local directory for files between two storages and for canonical ones; None =
            the system's.
        form: format of savepoints whose order names none.
        source_uids: uids of the program's sources in their order, for those who show offsets.
    """

    job_id: JobId
    checkpoints_uri: str
    savepoints_uri: str | None
    scratch_dir: Path | None
    form: SavepointFormat
    source_uids: tuple[OperatorUid, ...]


@dataclass(frozen=True, slots=True)
class SavepointOrder:
    """What was asked for.

    Attributes:
        target_directory: URI of the parent directory, None for the configured one.
        trigger_id: chosen by the caller, None for a random one.
        form: of its files, None for the configured one.
        stop: end the job with it.
        drain: with ``stop``: move event time to its end before.
    """

    target_directory: str | None = None
    trigger_id: TriggerId | None = None
    form: SavepointFormat | None = None
    stop: bool = False
    drain: bool = False


@dataclass(frozen=True, slots=True)
class SavepointOperation:
    """One order and how far it is; ended when it has a ``savepoint`` or an ``error``.

    Attributes:
        location: where the savepoint is or will be.
        form: of its files.
        triggered_ms, ended_ms: wall-clock times.
    """

    trigger_id: TriggerId
    location: str
    form: SavepointFormat
    stop: bool
    drain: bool
    triggered_ms: int
    ended_ms: int | None = None
    savepoint: Savepoint | None = None
    error: HeadraceError | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing will change any more."""
        return self.ended_ms is not None


def _parsed(text: str) -> str:
    try:
        return STORAGE_URI.parse(text)
    except ValueError as error:
        msg = (
            f"target directory is refused, {error}; directory={text!r} "
            f"expected={STORAGE_URI.accepts!r}"
        )
        raise InvalidConfigError(msg) from error


class SavepointService:
    """Orders, copies and outcomes of one job; thread-safe."""

    def __init__(
        self,
        settings: SavepointSettings,
        clock: Clock,
        *,
        open_store: Callable[[str], ObjectStore],
        completed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Create the service; starts no thread before the first copy.

        Args:
            settings: of the job.
            clock: for times in outcomes.
            open_store: opens a store over a directory URI.
            completed: told the location of every savepoint that was made, on the copy thread.
        """
        self.held = HeldCheckpoints()
        self.settings = settings
        self._clock = clock
        self._open_store = open_store
        self._completed = completed
        self._changed = threading.Condition()
        self._operations: dict[TriggerId, SavepointOperation] = {}
        self._waiting: list[TriggerId] = []
        self._uncopied: list[CheckpointId] = []
        self._closed = False
        self._unread_stop: TriggerId | None = None
        self._cancelled = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="savepoint")
        self._pool = TransferPool(COPY_THREADS)
        self._writer = SavepointWriter(
            settings.job_id,
            self._pool,
            open_store=open_store,
            scratch_dir=settings.scratch_dir,
            cancelled=self._cancelled,
        )

    # --- REST -------------------------------------------------------------------------------

    def order(self, order: SavepointOrder) -> TriggerId:
        """Take an order; returns within seconds, the savepoint follows.

        Raises:
            InvalidConfigError: no directory, or one that savepoints must not lie in.
            StorageAccessError, StorageUnavailableError: the directory cannot be written.
            SavepointFailedError: the job has ended, or it went on after the savepoint that an
                earlier driver made for this order to stop.
        """
        if order.trigger_id is not None and self.operation(order.trigger_id) is not None:
            return order.trigger_id
        directory = self._target_directory(order.target_directory)
        trigger_id = order.trigger_id or new_trigger_id()
        location = self._writer.location(directory, trigger_id)
        existing = self._writer.find(location) if order.trigger_id is not None else None
        if existing is not None and order.stop:
            msg = (
                "an earlier driver made this savepoint and the job went on after it, stop it with "
                f"another trigger id; location={location}"
            )
            raise SavepointFailedError(msg)
        if existing is None:
            # A target that cannot be written must not cost a job its last epochs.
            self._open_store(directory).check()
        now_ms = self._clock.now_ms()
        form = order.form or self.settings.form
        operation = SavepointOperation(
            trigger_id, location, form, order.stop, order.drain, triggered_ms=now_ms
        )
        with self._changed:
            if trigger_id in self._operations:
                return trigger_id
            if existing is not None:
                operation = dataclasses.replace(operation, savepoint=existing, ended_ms=now_ms)
            elif self._closed:
                msg = "the job has ended, start it again to take a savepoint"
                raise SavepointFailedError(msg)
            else:
                self._waiting.append(trigger_id)
            self._operations[trigger_id] = operation
            self._forget_old()
        log.info(
            "savepoint ordered trigger=%s format=%s location=%s", trigger_id, form.value, location
        )
        return trigger_id

    def operation(self, trigger_id: str) -> SavepointOperation | None:
        """Return an order and how far it is, None for one that is not known."""
        with self._changed:
            return self._operations.get(TriggerId(trigger_id))

    def read(self, trigger_id: str) -> SavepointOperation | None:
        """Return the same as `operation`, and note that whoever ordered it knows (`await_reader`).

        The outcome of a stop would otherwise end with the process that knows it.
        """
        with self._changed:
            operation = self._operations.get(TriggerId(trigger_id))
            if operation is not None and operation.has_ended and trigger_id == self._unread_stop:
                self._unread_stop = None
                self._changed.notify_all()
            return operation

    def await_reader(self, timeout_s: float) -> None:
        """Wait until somebody has asked what became of the last order to stop, if there was one."""
        with self._changed:
            self._changed.wait_for(lambda: self._unread_stop is None, timeout_s)

    def _target_directory(self, given: str | None) -> str:
        directory = self.settings.savepoints_uri if given is None else _parsed(given)
        if directory is None:
            msg = (
                "a savepoint needs a directory, name one in the request or set "
                "execution.checkpointing.savepoint-dir"
            )
            raise InvalidConfigError(msg)
        # Stores know their directory by one name, however it was spelled (s3a, a slash at the end).
        directory = self._open_store(directory).root_uri
        checkpoints = self._open_store(self.settings.checkpoints_uri).root_uri
        if f"{directory}/".startswith(f"{checkpoints}/"):
            msg = (
                "a savepoint must not lie among the job's checkpoints, choose another directory; "
                f"directory={directory} checkpoints={checkpoints}"
            )
            raise InvalidConfigError(msg)
        return directory

    def _forget_old(self) -> None:
        ended = [t for t, operation in self._operations.items() if operation.has_ended]
        for trigger_id in ended[:-OUTCOMES_KEPT]:
            del self._operations[trigger_id]

    # --- job master -------------------------------------------------------------------------

    def take_orders(self) -> list[SavepointOperation]:
        """Return the orders that have come since the last call; a barrier stands."""
        with self._changed:
            taken = [self._operations[trigger_id] for trigger_id in self._waiting]
            self._waiting = []
            return taken

    def put_back(self, trigger_ids: tuple[TriggerId, ...]) -> None:
        """Let orders be taken again: the generation that took them has ended before they began."""
        with self._changed:
            self._waiting = [*trigger_ids, *self._waiting]

    def hold(self, checkpoint_id: CheckpointId) -> None:
        """Keep a checkpoint until `copy` is through with it, or the generation is over."""
        self.held.hold(checkpoint_id)
        self._uncopied.append(checkpoint_id)

    def generation_ended(self) -> None:
        """Release the checkpoints of which no copy was begun; copies go on."""
        for checkpoint_id in self._uncopied:
            self.held.release(checkpoint_id)
        self._uncopied = []

    def copy(
        self,
        checkpoint_id: CheckpointId,
        trigger_ids: tuple[TriggerId, ...],
        store: CheckpointStore,
        ended: Callable[[TriggerId], None],
    ) -> None:
        """Begin to make savepoints of a held checkpoint whose output is published.

        Args:
            checkpoint_id: the checkpoint.
            trigger_ids: orders that it serves.
            store: where the checkpoint is.
            ended: called on the copy thread for each order, when its outcome is known.
        """
        if checkpoint_id not in self._uncopied:
            msg = f"a checkpoint is copied that was not held; checkpoint={checkpoint_id}"
            raise InternalError(msg)
        self._uncopied.remove(checkpoint_id)

        def run() -> None:
            try:
                for trigger_id in trigger_ids:
                    self._make(checkpoint_id, trigger_id, store)
                    ended(trigger_id)
            finally:
                self.held.release(checkpoint_id)

        self._thread.submit(run)

    def _make(
        self, checkpoint_id: CheckpointId, trigger_id: TriggerId, store: CheckpointStore
    ) -> None:
        operation = self._operations[trigger_id]
        location = operation.location
        started_s = self._clock.monotonic_s()
        try:
            uri = f"{self.settings.checkpoints_uri}/{checkpoint_dir(checkpoint_id)}"
            checkpoint = store.read_checkpoint(uri)
            savepoint = self._writer.write(checkpoint, location, operation.form)
        except HeadraceError as error:
            self._end(trigger_id, error=error)
        except Exception as error:
            log.exception("savepoint failed trigger=%s", trigger_id)
            msg = f"savepoint failed: {type(error).__name__}: {error}"
            self._end(trigger_id, error=InternalError(msg))
        else:
            log.info(
                "savepoint completed trigger=%s location=%s checkpoint=%s bytes=%s duration_s=%.1f",
                trigger_id,
                location,
                checkpoint_id,
                savepoint.size_bytes,
                self._clock.monotonic_s() - started_s,
            )
            self._completed(location)
            self._end(trigger_id, savepoint=savepoint)

    def fail(self, trigger_ids: tuple[TriggerId, ...], reason: str) -> None:
        """End orders that will not be served."""
        for trigger_id in trigger_ids:
            self._end(trigger_id, error=SavepointFailedError(reason))

    def close(self, *, finish_copies: bool) -> None:
        """Take no more orders and end all that are open.

        Args:
            finish_copies: wait for copies in progress; otherwise they are given up.
        """
        with self._changed:
            self._closed = True
        if not finish_copies:
            self._cancelled.set()
        self._thread.shutdown(wait=True)
        self._pool.close()
        with self._changed:
            still_open = [t for t, operation in self._operations.items() if not operation.has_ended]
        self.fail(tuple(still_open), "the job ended before the savepoint was begun")

    def _end(
        self,
        trigger_id: TriggerId,
        *,
        savepoint: Savepoint | None = None,
        error: HeadraceError | None = None,
    ) -> None:
        if error is not None:
            log.warning("savepoint failed trigger=%s cause=%s", trigger_id, error)
        with self._changed:
            operation = self._operations[trigger_id]
            self._operations[trigger_id] = dataclasses.replace(
                operation, savepoint=savepoint, error=error, ended_ms=self._clock.now_ms()
            )
            if operation.stop:
                self._unread_stop = trigger_id
            self._changed.notify_all()
