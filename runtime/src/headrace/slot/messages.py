"""Messages between coordinator, pump and slot process; msgspec structs, tagged unions.

Control channel: one bidirectional gRPC stream for each slot process, opened by the slot, method
``/headrace.v1.Slots/Control``, messages as msgpack, metadata ``authorization: Bearer <token>``.
`FromSlot` goes up, `ToSlot` down. Everything that changes state carries the generation; a message
of another generation is ignored by both sides (A15).

Data channel: see `headrace.slot.frames`.
"""

from __future__ import annotations

import enum

import msgspec

from headrace.checkpoint.protocol.types import (
    FileHandle,
    KeyedStateHandle,
    OperatorStateHandle,
    SinkCommittable,
    SlotSnapshot,
)
from headrace.ids import (
    AttemptId,
    CheckpointId,
    Epoch,
    Generation,
    JobId,
    OperatorUid,
    SlotIndex,
)


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
        layout: which set of slots it belongs to; see `headrace.driver.slot_service`.
    """

    job_id: JobId
    slot: SlotIndex
    layout: int
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
    """The async phase is over: everything of this slot is durable.

    Attributes:
        directories: operator uid -> frozen directory on the slot's disk, for whoever reaches it.
        changes: operator uid -> changes since the base of a rescale, for a hand-over; an operator
            that could not keep up is missing.
    """

    generation: Generation
    checkpoint_id: CheckpointId
    snapshot: SlotSnapshot
    directories: dict[OperatorUid, str]
    changes: dict[OperatorUid, FileHandle]


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


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """Answer to `Prepare` and `CatchUp`: where the rows are; no ``error``: ready to take over."""

    checkpoint_id: CheckpointId
    prepare_ms: float
    downloaded_bytes: int
    copied_bytes: int
    error: ErrorInfo | None


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The slot cannot go on in this generation (restore, commit or user code failed)."""

    generation: Generation
    error: ErrorInfo


class Output(msgspec.Struct, frozen=True, tag=True):
    """Lines of ``print`` sinks and rows of ``execute_and_collect``, for local runs."""

    generation: Generation
    channel: str
    items: list[bytes]


FromSlot = (
    Register
    | Heartbeat
    | Restored
    | SyncDone
    | Ack
    | Decline
    | Committed
    | Prepared
    | Failed
    | Output
)


# --- coordinator -> slot ---------------------------------------------------------------------


class HandOver(msgspec.Struct, frozen=True):
    """What a slot needs beside its prepared rows (`Prepare`).

    Attributes:
        base: checkpoint that the rows were prepared from.
        changes: operator uid -> changes of all former owners since then.
    """

    base: CheckpointId
    changes: dict[OperatorUid, list[FileHandle]]


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
        hand_over: how to get there from rows that were prepared, None for a plain restore. Slots
            for which it does not work out restore plainly.
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
    hand_over: HandOver | None = None


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """Build the rows of a slot that will take over, from a completed checkpoint (`Prepared`).

    The slot serves nobody yet; the job goes on elsewhere. Nothing of this is a restore: a `Restore`
    with a `HandOver` follows, or a `Shutdown`.

    Attributes:
        checkpoint_id: the base; its handles are in ``keyed``.
        parallelism: the new one.
        directories: directories of former owners that hold the files of a handle, by operator uid
            and the slot that wrote it, as ``uid/slot``; they may be out of reach or gone.
    """

    checkpoint_id: CheckpointId
    parallelism: int
    max_parallelism: int
    job_graph: bytes
    settings: bytes
    keyed: list[KeyedStateHandle]
    directories: dict[str, str]


class CatchUp(msgspec.Struct, frozen=True, tag=True):
    """Bring prepared rows on to a later checkpoint, answered by `Prepared` with its id.

    Attributes:
        checkpoint_id: where the rows are then; a later hand-over or round begins there.
        hand_over: changes from where they are now.
    """

    checkpoint_id: CheckpointId
    hand_over: HandOver


class Rescale(enum.StrEnum):
    """What a checkpoint is for in a rescale."""

    NONE = "none"
    BASE = "base"
    """New owners are built from it: keep it, and note what changes from here."""
    ROUND = "round"
    """What changed since the base, or since the round before, goes with the ack; noting goes on."""
    HAND_OVER = "hand-over"
    """The last one at the old parallelism: like a round, and noting ends."""


class TriggerCheckpoint(msgspec.Struct, frozen=True, tag=True):
    """Take a checkpoint now, between two epochs. Answered by SyncDone, then Ack or Decline."""

    generation: Generation
    checkpoint_id: CheckpointId
    epoch: Epoch
    rescale: Rescale = Rescale.NONE


class AbandonRescale(msgspec.Struct, frozen=True, tag=True):
    """The rescale has failed: stop noting changes, let go of its base."""

    generation: Generation


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


ToSlot = (
    Restore
    | Prepare
    | CatchUp
    | TriggerCheckpoint
    | NotifyComplete
    | NotifyAborted
    | AbandonRescale
    | Shutdown
)


# --- data channel ----------------------------------------------------------------------------


class Hello(msgspec.Struct, frozen=True):
    """First frame from the pump.

    Attributes:
        processing_time_ms: the epoch's processing time, the same in every slot and level.
    """

    token: str
    job_id: JobId
    slot: SlotIndex
    generation: Generation
    epoch: Epoch
    level: int
    processing_time_ms: int


class EpochEnd(msgspec.Struct, frozen=True):
    """Last frame from the pump: all rows of this level have been sent.

    Attributes:
        final: bounded input is over: the watermark becomes the greatest possible.
        ended_sources: bounded sources that have been read to their end with this epoch.
    """

    final: bool
    ended_sources: list[int]


class EpochResult(msgspec.Struct, frozen=True):
    """Last frame from the slot: counters of this epoch, summed over its levels.

    Attributes:
        records_in: rows that entered level 1.
        watermark_ms: event time after the epoch, None before the first watermark.
        source_records: records that all source tasks read, the same in every slot.
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
