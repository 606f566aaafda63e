"""The slot process: owns one slot of one job, beside the executor that started it.

Threads: **main** runs everything that touches state, taking work from one queue: pump connections
(epochs) and the coordinator's orders, in the order of arrival. Acceptors put connections there, the
control channel orders. Uploads, commits and heartbeats have threads of their own and touch only
frozen files.

Life: registers with the coordinator, obeys Restore orders (each begins a new generation), serves
epochs of that generation, takes checkpoints, and ends with its executor, its control stream or a
Shutdown. Whatever fails inside a generation poisons it: the slot refuses epochs until the next
Restore.
"""

from __future__ import annotations

import functools
import hmac
import logging
import os
import queue
import shutil
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from headrace.checkpoint.transfer import TransferPool
from headrace.clock import SystemClock
from headrace.errors import EpochAbortedError
from headrace.failpoints import reach
from headrace.ids import CheckpointId, Generation, SlotIndex, new_attempt_id
from headrace.slot.control import ControlChannel
from headrace.slot.frames import FrameReader, FrameType, send_frame
from headrace.slot.hard_end import end_hard_unless
from headrace.slot.job import SlotEnvironment, SlotJob
from headrace.slot.messages import (
    AbandonRescale,
    Ack,
    CatchUp,
    Committed,
    Decline,
    EpochEnd,
    Failed,
    Heartbeat,
    Hello,
    NotifyAborted,
    NotifyComplete,
    Output,
    Prepare,
    Prepared,
    Register,
    Rescale,
    Restore,
    Restored,
    Shutdown,
    SyncDone,
    ToSlot,
    TriggerCheckpoint,
)
from headrace.slot.preparation import prepare
from headrace.slot.snapshots import FrozenSlot, SlotSnapshots, upload, upload_changes
from headrace.slot.startup import own_address
from headrace.slot.wire_errors import to_error_info

if TYPE_CHECKING:
    from headrace.slot.messages import FromSlot
    from headrace.slot.preparation import PreparedState
    from headrace.slot.startup import SlotArguments

log = logging.getLogger(__name__)

HEARTBEAT_DEFAULT_S: Final = 2.0
"""Until the first restore order brings the job's own settings."""

_SOCKET_BUFFER_BYTES: Final = 1 << 20


class SlotProcess:
    """One slot process. `run` returns when it must end."""

    def __init__(self, arguments: SlotArguments, token: str, work_dir: Path) -> None:
        self._arguments = arguments
        self._token = token
        self._work_dir = work_dir
        self._attempt = new_attempt_id()
        self._clock = SystemClock()
        self._work: queue.SimpleQueue[socket.socket | ToSlot | FrozenOutcome] = queue.SimpleQueue()
        self._generation = Generation(0)
        self._job: SlotJob | None = None
        self._prepared: PreparedState | None = None
        self._poisoned = True
        self._connection: socket.socket | None = None
        self._connection_lock = threading.Lock()
        self._uploads = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._snapshots = SlotSnapshots(work_dir / "snapshots")
        self._metrics: dict[str, float] = {}
        self._metrics_at_s = 0.0
        self._heartbeat_s = HEARTBEAT_DEFAULT_S
        self._ended = threading.Event()
        self._control = ControlChannel(
            arguments.coordinator, token, self._on_order, self._on_control_end
        )
        self._environment = SlotEnvironment(
            slot=SlotIndex(arguments.slot),
            work_dir=work_dir,
            clock=self._clock,
            pool=TransferPool(),
            snapshots=self._snapshots,
            send_output=self._send_output,
            committed=self._committed,
            commit_failed=self._commit_failed,
        )

    def run(self) -> None:
        """Serve until told to end."""
        # An abstract address: no path to grow too long, no file to be left behind by a kill.
        unix_name = f"headrace-{self._arguments.job_id}-{self._attempt}"
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(f"\0{unix_name}")
        host = own_address(self._arguments.coordinator)
        tcp = socket.create_server((host, 0), backlog=16)
        unix.listen(16)
        for listener in (unix, tcp):
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        self._control.open(
            Register(
                job_id=self._arguments.job_id,
                slot=SlotIndex(self._arguments.slot),
                layout=self._arguments.layout,
                attempt=self._attempt,
                pid=os.getpid(),
                executor_id=self._arguments.executor_id,
                address=f"{host}:{tcp.getsockname()[1]}",
                unix_name=unix_name,
            )
        )
        while True:
            item = self._work.get()
            if isinstance(item, Shutdown):
                log.info("slot ends slot=%s reason=%s", self._arguments.slot, item.reason)
                return
            if isinstance(item, socket.socket):
                self._serve(item)
            else:
                self._obey(item)

    # --- orders -----------------------------------------------------------------------------

    def _on_order(self, order: ToSlot) -> None:
        if isinstance(order, (Restore, Shutdown)):
            # An epoch that is still being served belongs to the past: wake the main thread.
            with self._connection_lock:
                if self._connection is not None:
                    _close_now(self._connection)
        if isinstance(order, Shutdown):
            end_hard_unless(self._ended)
        self._work.put(order)

    def _on_control_end(self, reason: str) -> None:
        self._on_order(Shutdown(reason=reason))

    def _obey(self, order: ToSlot | FrozenOutcome) -> None:
        if isinstance(order, Shutdown):
            return  # handled by the main loop
        if isinstance(order, (Restore, Prepare, CatchUp)):
            self._take_over(order)
            return
        if order.generation != self._generation or self._job is None:
            return
        match order:
            case TriggerCheckpoint():
                self._checkpoint(self._job, order)
            case NotifyComplete(checkpoint_id=checkpoint_id):
                self._snapshots.completed(checkpoint_id)
                self._job.checkpoint_completed(checkpoint_id)
            case NotifyAborted(checkpoint_id=checkpoint_id):
                self._snapshots.aborted(checkpoint_id)
                self._job.checkpoint_aborted(checkpoint_id)
            case AbandonRescale():
                self._snapshots.base = None
                self._job.stop_tracking()
            case FrozenOutcome():
                order.deliver(self)

    def _take_over(self, order: Restore | Prepare | CatchUp) -> None:
        match order:
            case Restore():
                self._restore(order)
            case Prepare():
                self._prepare(order)
            case CatchUp():
                self._catch_up(order)

    def _restore(self, order: Restore) -> None:
        started = self._clock.monotonic_s()
        self._generation = order.generation
        self._poisoned = True
        if self._job is not None:
            self._job.close()
            self._job = None
        self._snapshots.rolled_back(order.checkpoint_id)
        try:
            self._job = SlotJob(order, self._environment, self._prepared)
        except BaseException as error:  # noqa: BLE001 - reported; the coordinator decides
            self._fail(error)
            return
        finally:
            if self._prepared is not None:
                self._prepared.close()  # what was not taken over
                self._prepared = None
        self._poisoned = False
        self._heartbeat_s = self._job.settings.heartbeat_interval_s
        reach("slot.before-restored")
        self._control.send(
            Restored(
                generation=order.generation,
                restore_ms=(self._clock.monotonic_s() - started) * 1000,
                downloaded_bytes=self._job.downloaded_bytes,
                local=self._job.restored_locally,
            )
        )

    def _prepare(self, order: Prepare) -> None:
        """Build the rows of a slot that will take over; nothing here touches a running job."""
        started = self._clock.monotonic_s()
        error = None
        try:
            self._prepared = prepare(order, self._environment)
        except Exception as raised:
            log.warning("preparing failed slot=%s", self._arguments.slot, exc_info=raised)
            error = to_error_info(raised)
        prepared = self._prepared
        self._control.send(
            Prepared(
                checkpoint_id=order.checkpoint_id,
                prepare_ms=(self._clock.monotonic_s() - started) * 1000,
                downloaded_bytes=prepared.downloaded_bytes if prepared else 0,
                copied_bytes=prepared.copied_bytes if prepared else 0,
                error=error,
            )
        )

    def _catch_up(self, order: CatchUp) -> None:
        """Bring prepared rows on; operators that cannot be are restored from storage later."""
        started = self._clock.monotonic_s()
        moved = self._prepared.catch_up(order) if self._prepared is not None else 0
        self._control.send(
            Prepared(
                checkpoint_id=order.checkpoint_id,
                prepare_ms=(self._clock.monotonic_s() - started) * 1000,
                downloaded_bytes=moved,
                copied_bytes=0,
                error=None,
            )
        )

    def _fail(self, error: BaseException) -> None:
        self._poisoned = True
        log.error("slot failed slot=%s", self._arguments.slot, exc_info=error)
        self._control.send(Failed(generation=self._generation, error=to_error_info(error)))

    # --- epochs -----------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
            self._work.put(connection)

    def _serve(self, connection: socket.socket) -> None:
        with self._connection_lock:
            self._connection = connection
        try:
            self._serve_epoch(connection)
        except (EOFError, OSError, ValueError) as error:
            # The pump is gone: its epoch is abandoned, and what it changed here is rolled back by
            # the Restore that follows.
            self._poisoned = True
            log.warning("epoch abandoned slot=%s cause=%r", self._arguments.slot, error)
        finally:
            with self._connection_lock:
                self._connection = None
            connection.close()

    def _serve_epoch(self, connection: socket.socket) -> None:
        reader = FrameReader(connection)
        kind, body = reader.read()
        if kind is not FrameType.HELLO:
            raise ValueError(f"a connection begins with HELLO; got={kind.name}")
        hello = msgspec.msgpack.decode(body, type=Hello)
        if not hmac.compare_digest(hello.token, self._token):
            raise ValueError("a pump with a wrong token was turned away")
        try:
            job = self._job_for(hello)
            send_out = functools.partial(_send_out, connection)
            take = job.begin(hello.epoch, hello.level, hello.processing_time_ms, send_out)
            send_frame(connection, FrameType.READY)
            while True:
                kind, body = reader.read()
                if kind is FrameType.CHUNK:
                    take(body)
                    continue
                end = msgspec.msgpack.decode(body, type=EpochEnd)
                result = job.end(hello.level, end)
                send_frame(connection, FrameType.RESULT, msgspec.msgpack.encode(result))
                self._observe(job)
                return
        except (EOFError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - fails the checkpoint, not the job
            if not isinstance(error, EpochAbortedError):
                self._fail(error)
            self._poisoned = True
            info = msgspec.msgpack.encode(to_error_info(error))
            send_frame(connection, FrameType.ERROR, info)

    def _observe(self, job: SlotJob) -> None:
        """Read the gauges now and then; here, because state belongs to the main thread."""
        now = self._clock.monotonic_s()
        if now - self._metrics_at_s >= self._heartbeat_s:
            self._metrics_at_s = now
            self._metrics = job.metrics()

    def _job_for(self, hello: Hello) -> SlotJob:
        job = self._job
        mine = (self._arguments.job_id, self._arguments.slot, self._generation)
        theirs = (hello.job_id, hello.slot, hello.generation)
        if job is None or self._poisoned or theirs != mine:
            msg = (
                "the slot does not serve this epoch; "
                f"asked={theirs} serving={mine} poisoned={self._poisoned}"
            )
            raise EpochAbortedError(msg)
        return job

    # --- checkpoints ------------------------------------------------------------------------

    def _checkpoint(self, job: SlotJob, order: TriggerCheckpoint) -> None:
        checkpoint_id = order.checkpoint_id
        reach("slot.before-sync")
        try:
            if order.rescale is Rescale.BASE:
                self._snapshots.base = checkpoint_id
            frozen = job.freeze(checkpoint_id, order.rescale)
        except Exception as error:  # noqa: BLE001 - fails the checkpoint, not the job
            self._fail(error)
            return
        self._control.send(SyncDone(order.generation, checkpoint_id, frozen.sync_ms))
        self._uploads.submit(self._upload, job, order.generation, frozen)

    def _upload(self, job: SlotJob, generation: Generation, frozen: FrozenSlot) -> None:
        """Run the async phase; its outcome goes through the main thread's queue."""
        checkpoint_id = frozen.checkpoint_id
        answer: FromSlot
        try:
            snapshot = upload(frozen, job.uploader, SlotIndex(self._arguments.slot))
            changes = upload_changes(frozen, job.uploader)
        except Exception as error:
            log.warning("checkpoint declined checkpoint=%s", checkpoint_id, exc_info=error)
            answer = Decline(generation, checkpoint_id, to_error_info(error))
        else:
            reach("slot.before-ack")
            directories = {part.uid: str(local.directory) for part, local in frozen.keyed}
            answer = Ack(generation, checkpoint_id, snapshot, directories, changes)
        self._work.put(FrozenOutcome(generation, frozen, answer))

    def deliver(self, frozen: FrozenSlot, answer: FromSlot) -> None:
        """Record and send the outcome of an async phase; on the main thread."""
        if isinstance(answer, Ack) and self._job is not None:
            self._snapshots.acked(frozen, answer.snapshot, answer.generation)
            if self._job.sinks is not None:
                self._job.sinks.acked(frozen.checkpoint_id, answer.snapshot)
        self._control.send(answer)

    def _committed(self, generation: Generation, checkpoint_id: CheckpointId, records: int) -> None:
        self._control.send(Committed(generation, checkpoint_id, records))

    def _commit_failed(self, generation: Generation, error: BaseException) -> None:
        log.error("commit failed slot=%s", self._arguments.slot, exc_info=error)
        self._control.send(Failed(generation=generation, error=to_error_info(error)))

    # --- the rest ---------------------------------------------------------------------------

    def _send_output(self, channel: str, items: list[bytes]) -> None:
        self._control.send(Output(self._generation, channel, items))

    def _beat(self) -> None:
        while not self._clock.wait(self._ended, self._heartbeat_s):
            self._control.send(Heartbeat(self._generation, self._metrics))

    def close(self) -> None:
        """Remove everything on the local disk."""
        self._ended.set()
        shutil.rmtree(self._work_dir, ignore_errors=True)


class FrozenOutcome:
    """Outcome of an async phase on its way to the main thread."""

    def __init__(self, generation: Generation, frozen: FrozenSlot, answer: FromSlot) -> None:
        self.generation = generation
        self._frozen = frozen
        self._answer = answer

    def deliver(self, process: SlotProcess) -> None:
        """Hand the outcome over."""
        process.deliver(self._frozen, self._answer)


def _send_out(connection: socket.socket, slot: int, chunk: bytes) -> None:
    send_frame(connection, FrameType.OUT, slot.to_bytes(2, "little"), chunk)


def _close_now(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        log.debug("connection was closed already")
