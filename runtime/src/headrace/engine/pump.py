"""What runs in Spark's tasks beside the slots: starting slots, pumping one epoch.

The closures that Spark ships are instances of `SlotStarter` and `Pump`: a few numbers and
addresses, never the user's functions. A pump forwards chunks without looking into them. It connects
to the slot process over the executor's Unix socket when the slot lives there, over TCP when Spark
has placed the task elsewhere, so placement is never a matter of correctness.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from headrace.engine.worker_memory import settle_worker
from headrace.errors import EpochAbortedError
from headrace.slot.frames import FrameReader, FrameType, send_frame
from headrace.slot.messages import EpochEnd, EpochResult, ErrorInfo, Hello
from headrace.slot.startup import SlotArguments, slot_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.ids import Epoch, Generation, JobId

CONNECT_TIMEOUT_S: Final = 20.0
_SOCKET_BUFFER_BYTES: Final = 1 << 20
_OUTPUT_BATCH_BYTES: Final = 4 << 20
_ARROW_SCHEMA: Final = pa.schema([pa.field("slot", pa.int32()), pa.field("chunk", pa.binary())])


@dataclass(frozen=True, slots=True)
class SlotStarter:
    """Task that makes sure that the process of its slot runs; yields nothing.

    Attributes:
        live: slots that have a live process somewhere already.
        layout: set of slots that the processes belong to.
    """

    job_id: JobId
    coordinator: str
    live: frozenset[int]
    layout: int
    local_dir: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Start the slot's process beside this task's executor unless it lives."""
        for _ in batches:
            pass
        slot = _slot_index()
        if slot not in self.live:
            self._start(slot)
        yield from ()

    def _start(self, slot: int) -> None:
        executor_pid = _executor_pid()
        arguments = SlotArguments(
            job_id=self.job_id,
            slot=slot,
            layout=self.layout,
            coordinator=self.coordinator,
            executor_id=executor_id(_command_line(executor_pid)),
            executor_pid=executor_pid,
            local_dir=self.local_dir,
        )
        log = sys.stderr.fileno()
        subprocess.Popen(  # noqa: S603 - our own module with our own arguments
            [sys.executable, "-m", "headrace.slot", msgspec.json.encode(arguments).decode()],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


@dataclass(frozen=True, slots=True)
class Pump:
    """Task that carries the chunks of one epoch and level into its slot and the output back.

    Attributes:
        slots: for each slot (address over TCP, abstract Unix name).
        representatives: slot index -> int of the exchange's slot column.
        ended_sources: sources that have been read to their end with this epoch.
        last: whether this level's result goes to the driver instead of another exchange.
    """

    job_id: JobId
    generation: Generation
    epoch: Epoch
    level: int
    processing_time_ms: int
    final: bool
    ended_sources: tuple[int, ...]
    slots: tuple[tuple[str, str], ...]
    representatives: tuple[int, ...]
    last: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pump one epoch."""
        settle_worker()
        slot = _slot_index()
        address, unix_name = self.slots[slot]
        with _connect(address, unix_name) as sock:
            reader = FrameReader(sock)
            hello = Hello(
                token=slot_token(),
                job_id=self.job_id,
                slot=slot,  # type: ignore[arg-type]
                generation=self.generation,
                epoch=self.epoch,
                level=self.level,
                processing_time_ms=self.processing_time_ms,
            )
            send_frame(sock, FrameType.HELLO, msgspec.msgpack.encode(hello))
            _expect_ready(reader, slot)
            output = _OutputReader(reader, self.representatives, slot)
            output.start()
            try:
                self._send(sock, batches)
            except OSError:
                # The slot has said why on the same connection; the reader holds it.
                output.join()
                output.raise_error()
                raise
            yield from output.batches(with_result=self.last)

    def _send(self, sock: socket.socket, batches: Iterator[pa.RecordBatch]) -> None:
        for batch in batches:
            chunks = batch.column(1)
            for index in range(batch.num_rows):
                chunk = chunks[index]
                if chunk.is_valid:
                    send_frame(sock, FrameType.CHUNK, memoryview(chunk.as_buffer()))
        end = EpochEnd(
            final=self.final,
            ended_sources=list(self.ended_sources),
        )
        send_frame(sock, FrameType.END, msgspec.msgpack.encode(end))


class _OutputReader(threading.Thread):
    """Reads the slot's output while the task still sends, so that neither blocks the other."""

    def __init__(self, reader: FrameReader, representatives: tuple[int, ...], slot: int) -> None:
        super().__init__(name=f"pump-output-{slot}", daemon=True)
        self._reader = reader
        self._representatives = representatives
        self._slot = slot
        self._rows: list[tuple[int, bytes]] = []
        self._result: tuple[int, bytes] | None = None
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            while True:
                kind, body = self._reader.read()
                if kind is FrameType.OUT:
                    target = int.from_bytes(body[:2], "little")
                    self._rows.append((self._representatives[target], body[2:]))
                elif kind is FrameType.RESULT:
                    self._result = (self._representatives[self._slot], RESULT_MARK + body)
                    return
                else:
                    self._error = slot_error(body, self._slot)
                    return
        except (EOFError, OSError, ValueError) as error:
            msg = f"the slot process went away within an epoch; slot={self._slot} cause={error!r}"
            self._error = EpochAbortedError(msg)

    def raise_error(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._error is not None:
            raise self._error

    def batches(self, *, with_result: bool) -> Iterator[pa.RecordBatch]:
        """Wait for the end of the output and yield it in batches of bounded size."""
        self.join()
        self.raise_error()
        if with_result and self._result is not None:
            self._rows.append(self._result)
        start, size = 0, 0
        for index, (_, chunk) in enumerate(self._rows):
            size += len(chunk)
            if size >= _OUTPUT_BATCH_BYTES:
                yield _batch(self._rows[start : index + 1])
                start, size = index + 1, 0
        if start < len(self._rows):
            yield _batch(self._rows[start:])


RESULT_MARK: Final = b"\xff"
"""First byte of a row that holds an `EpochResult`; no chunk starts with it."""


def decode_result(row: bytes) -> EpochResult | None:
    """Return the result of a slot if the row holds one."""
    if row[:1] != RESULT_MARK:
        return None
    return msgspec.msgpack.decode(memoryview(row)[1:], type=EpochResult)


def slot_error(body: bytes, slot: int) -> EpochAbortedError:
    """Return the exception for an ERROR frame."""
    info = msgspec.msgpack.decode(body, type=ErrorInfo)
    return EpochAbortedError(f"slot {slot} gave up: {info.kind}: {info.message}")


def _batch(rows: list[tuple[int, bytes]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([slot for slot, _ in rows], pa.int32()),
            pa.array([chunk for _, chunk in rows], pa.binary()),
        ],
        schema=_ARROW_SCHEMA,
    )


def _expect_ready(reader: FrameReader, slot: int) -> None:
    kind, body = reader.read()
    if kind is not FrameType.READY:
        raise slot_error(body, slot)


def _connect(address: str, unix_name: str) -> socket.socket:
    local = socket.socket(socket.AF_UNIX)
    try:
        local.connect(f"\0{unix_name}")
    except OSError:
        local.close()  # the slot lives on another machine
    else:
        local.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
        return local
    host, _, port = address.rpartition(":")
    try:
        remote = socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT_S)
    except OSError as error:
        msg = f"no slot process answers; address={address} cause={error!r}"
        raise EpochAbortedError(msg) from error
    remote.settimeout(None)
    remote.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return remote


def _slot_index() -> int:
    context = TaskContext.get()
    if context is None:
        msg = "a pump runs inside a Spark task only"
        raise EpochAbortedError(msg)
    return context.partitionId()


def executor_id(command_line: list[str]) -> str:
    """Return Spark's id of an executor from its JVM's command line.

    Pods have it in their environment, other executors only here; local Spark has none.
    """
    for option, value in pairwise(command_line):
        if option == "--executor-id":
            return value
    return "driver"


def _command_line(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")


def _executor_pid() -> int:
    """Return the process id of the executor's JVM, parent of the daemon that forked us."""
    daemon = os.getppid()
    with Path(f"/proc/{daemon}/stat").open() as file:
        # pid (comm) state ppid ...; comm may hold spaces and brackets, so split after the last one
        fields = file.read().rpartition(")")[2].split()
    return int(fields[1])
