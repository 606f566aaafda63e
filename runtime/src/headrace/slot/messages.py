"""Messages between coordinator, pump and slot process; msgspec structs, tagged unions.

Control channel: one bidirectional gRPC stream for each slot process, opened by the slot, method
``/headrace.v1.Slots/Control``, messages as msgpack, metadata ``authorization: Bearer <token>``.
`FromSlot` goes up, `ToSlot` down. Everything that changes state carries the generation; a message
of another generation is ignored by both sides (A15).

Data channel: see `headrace.slot.frames`.
"""

from __future__ import annotations

import msgspec

from headrace.checkpoint.protocol.types import (
    KeyedStateHandle,
    OperatorStateHandle,
    SinkCommittable,
    SlotSnapshot,
)
from headrace.ids import AttemptId, CheckpointId, Epoch, Generation, JobId, SlotIndex


class ErrorInfo(msgspec.Struct, frozen=True):
    """An error as it crosses a process border: stable kind, text, last frames of a traceback."""

    kind: str
    message: str
    traceback_text: str = ""
    restartable: bool = True


# --- slot -> coordinator ---------------------------------------------------------------------


class Register(msgspec.Struct, frozen=True, tag=True):
    """First message of every control stream.

    Attributes:
        address: ``host:port`` of the data channel over TCP.
        unix_name: abstract Unix address of the data channel on its machine, without the NUL.
        executor_id: Spark's id of the executor that the process lives beside.
    """

    job_id: JobId
    slot: SlotIndex
    attempt: AttemptId
    pid: int
    executor_id: str
    address: str
    unix_name: str


class Heartbeat(msgspec.Struct, frozen=True, tag=True):
    """Sent every few seconds; gauges by name, some with the operator's uid as ``name{uid}``."""

    generation: Generation
    metrics: dict[str, float]


class Restored(msgspec.Struct, frozen=True, tag=True):
    """The slot holds the state of the restore order and is ready for epochs."""

    generation: Generation
    restore_ms: float
    downloaded_bytes: int
    local: bool


class SyncDone(msgspec.Struct, frozen=True, tag=True):
    """The sync phase is over: state is frozen, epochs may go on."""

    generation: Generation
    checkpoint_id: CheckpointId
    sync_ms: float


class Ack(msgspec.Struct, frozen=True, tag=True):
    """The async phase is over: everything of this slot is durable."""

    generation: Generation
    checkpoint_id: CheckpointId
    snapshot: SlotSnapshot


class Decline(msgspec.Struct, frozen=True, tag=True):
    """This slot could not take the checkpoint."""

    generation: Generation
    checkpoint_id: CheckpointId
    error: ErrorInfo


class Committed(msgspec.Struct, frozen=True, tag=True):
    """The slot's sinks have published everything up to this checkpoint."""

    generation: Generation
    checkpoint_id: CheckpointId
    records: int


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The slot cannot go on in this generation (restore, commit or user code failed)."""

    generation: Generation
    error: ErrorInfo


class Output(msgspec.Struct, frozen=True, tag=True):
    """Lines of ``print`` sinks and rows of ``execute_and_collect``, for local runs."""

    generation: Generation
    channel: str
    items: list[bytes]


FromSlot = Register | Heartbeat | Restored | SyncDone | Ack | Decline | Committed | Failed | Output


# --- coordinator -> slot ---------------------------------------------------------------------


class Restore(msgspec.Struct, frozen=True, tag=True):
    """Drop all work of earlier generations and take this state.

    Attributes:
        job_graph: cloudpickled `JobGraph`; sent again because code may differ.
        settings: `headrace.slot.settings.SlotSettings`, as msgpack.
        checkpoint_id: checkpoint to restore, None for empty state.
        checkpoint_generation: generation that published it.
        restored_parallelism: parallelism of the checkpoint.
        keyed: handles whose key groups overlap this slot's.
        operator: operator state assigned to this slot.
        committables: spools that this slot must publish before its first epoch.
        first_epoch: the epoch that will come next.
        watermark_ms: combined watermark of the checkpoint.
    """

    generation: Generation
    parallelism: int
    max_parallelism: int
    job_graph: bytes
    settings: bytes
    checkpoint_id: CheckpointId | None
    checkpoint_generation: Generation | None
    restored_parallelism: int | None
    keyed: list[KeyedStateHandle]
    operator: list[OperatorStateHandle]
    committables: list[SinkCommittable]
    first_epoch: Epoch
    watermark_ms: int | None


class TriggerCheckpoint(msgspec.Struct, frozen=True, tag=True):
    """Take a checkpoint now, between two epochs. Answered by SyncDone, then Ack or Decline."""

    generation: Generation
    checkpoint_id: CheckpointId
    epoch: Epoch


class NotifyComplete(msgspec.Struct, frozen=True, tag=True):
    """The checkpoint is complete: publish its output, answer with Committed."""

    generation: Generation
    checkpoint_id: CheckpointId


class NotifyAborted(msgspec.Struct, frozen=True, tag=True):
    """The checkpoint was given up: forget its uploads, keep its pending output for the next."""

    generation: Generation
    checkpoint_id: CheckpointId


class Shutdown(msgspec.Struct, frozen=True, tag=True):
    """End the process."""

    reason: str


ToSlot = Restore | TriggerCheckpoint | NotifyComplete | NotifyAborted | Shutdown


# --- data channel ----------------------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True):
    """First frame from the pump."""

    token: str
    job_id: JobId
    slot: SlotIndex
    generation: Generation
    epoch: Epoch
    level: int


class EpochEnd(msgspec.Struct, frozen=True):
    """Last frame from the pump: all rows of this level have been sent.

    Attributes:
        processing_time_ms: the epoch's processing time, the same in every slot.
        final: bounded input is over: the watermark becomes the greatest possible.
    """

    processing_time_ms: int
    final: bool


class EpochResult(msgspec.Struct, frozen=True):
    """Last frame from the slot: counters of this epoch, summed over its levels.

    Attributes:
        records_in: rows that entered level 1.
        watermark_ms: event time after the epoch, None before the first watermark.
        source_records: records that all source tasks read, the same in every slot.
        ended_sources: bounded sources that have been read to their end so far.
    """

    records_in: int
    records_out: int
    late_records: int
    watermark_ms: int | None
    decode_ns: int
    user_ns: int
    timers_ns: int
    chunks_in: int
    source_records: int
    ended_sources: list[int]
