"""Stored types of a checkpoint. Changing one is a change of the stored format (golden-tested).

Encoded as JSON by msgspec: a checkpoint can be read with any text tool. Paths are relative to the
job's checkpoint directory, so that a checkpoint directory can be moved as a whole.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.errors import CorruptStateError
from headrace.ids import CheckpointId, Epoch, Generation, JobId, KeyGroup, OperatorUid, SlotIndex
from headrace.keygroups import KeyGroupRange

FORMAT_VERSION: Final = 1
"""Written into every `_metadata`; a reader refuses a version that it does not know."""


class FileHandle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One immutable object of a checkpoint.

    Attributes:
        name: file name inside the restored local directory, e.g. ``000012.sst``.
        path: object path relative to the job's checkpoint directory.
        size_bytes: exact length.
        checksum: XXH3-128 of the content, 32 lower-case hexadecimal digits.
    """

    name: str
    path: str
    size_bytes: int
    checksum: str


class StateSchema(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name, kind and serializer snapshot of one registered state (E6).

    Attributes:
        name: the descriptor's name, or a reserved one that starts with ``_`` (timers).
        kind: ``value`` | ``list`` | ``map`` | ``reducing`` | ``aggregating`` | ``timers``.
        serializer: snapshot of the value's type, as ``TypeSerializer.snapshot()`` returns it.
    """

    name: str
    kind: str
    serializer: dict[str, object]


class KeyedStateHandle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Keyed state of one operator in one slot.

    Attributes:
        operator_uid: owner.
        slot: slot index that wrote it; informative, ownership is decided by the range.
        key_group_start, key_group_end: inclusive range whose rows the files may hold.
        backend: ``rocksdb`` | ``hashmap``.
        key_serializer: snapshot of the key's type.
        schemas: every state registered under the operator.
        files: files of the backend's directory; ``shared/`` ones may be referred to by others.
    """

    operator_uid: OperatorUid
    slot: SlotIndex
    key_group_start: KeyGroup
    key_group_end: KeyGroup
    backend: str
    key_serializer: dict[str, object]
    schemas: list[StateSchema]
    files: list[FileHandle]

    @property
    def key_group_range(self) -> KeyGroupRange:
        """The inclusive key-group range of the files."""
        return KeyGroupRange(self.key_group_start, self.key_group_end)


class SinkCommittable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Spooled output of one sink in one slot, to be published once its checkpoint is complete.

    The spool, not the slot, owns the ledger entry: after a rescale the new owner publishes it
    under the same ``spool_id`` (DESIGN 7).

    Attributes:
        operator_uid: the sink.
        spool_id: stable identity of transactional id and ledger, e.g. ``slot-0003``.
        checkpoint_id: checkpoint whose completion releases it; the ledger's value.
        files: spool files in publication order; empty when there was no output.
        records: number of records in them.
    """

    operator_uid: OperatorUid
    spool_id: str
    checkpoint_id: CheckpointId
    files: list[FileHandle]
    records: int


class OperatorStateHandle(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Small non-keyed state of one operator in one slot, kept inside the metadata (B17, D21).

    Attributes:
        operator_uid: owner.
        slot: slot that wrote it.
        name: state name; ``_watermarks`` holds per-split watermark state.
        mode: ``split`` (round-robin on rescale), ``union`` or ``broadcast``.
        items: one opaque value a list element; of broadcast state, one an entry.
        serializer: snapshot of the elements' type; of broadcast state, those of ``key`` and
            ``value``. Empty for Headrace's own.
    """

    operator_uid: OperatorUid
    slot: SlotIndex
    name: str
    mode: str
    items: list[bytes]
    serializer: dict[str, object] = {}


class SlotSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one slot contributes to one checkpoint.

    Attributes:
        slot: slot index.
        keyed: one handle for each keyed operator.
        operator: small operator state.
        committables: pending output, of this checkpoint and of earlier ones not yet confirmed.
        state_size_bytes: sum of all files of ``keyed``.
        uploaded_bytes: bytes that this checkpoint newly wrote (D23).
        sync_ms, async_ms: duration of the two phases in this slot.
    """

    slot: SlotIndex
    keyed: list[KeyedStateHandle]
    operator: list[OperatorStateHandle]
    committables: list[SinkCommittable]
    state_size_bytes: int
    uploaded_bytes: int
    sync_ms: float
    async_ms: float


class SourcePosition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Spark's own log entries, verbatim; the only authority for source offsets (O4, T2).

    Ends of bounded sources that depend on the time of the job's first start are kept beside them.

    Attributes:
        epoch: last epoch whose effects the checkpoint holds.
        metadata: content of Spark's ``metadata`` file (the query id).
        sources: files below ``sources/``, by relative path.
        offsets: content of ``offsets/<n>`` for the last two epochs, by batch id as text.
        commits: content of ``commits/<n>`` for the same.
        ends: where bounded sources end, by uid, as their connectors write it (A17).
        uids: the sources, in the order of the offsets' lines; the heartbeat's line comes last.
    """

    epoch: Epoch
    metadata: str
    sources: dict[str, bytes]
    offsets: dict[str, str]
    commits: dict[str, str]
    ends: dict[OperatorUid, str] = {}
    uids: list[OperatorUid] = []


class OperatorRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One operator of the program that took the checkpoint.

    Attributes:
        parallelism: in how many slots it ran, 0 for all of the job's.
    """

    uid: OperatorUid
    name: str
    stateful: bool
    uid_is_generated: bool
    parallelism: int = 0


class CheckpointMetadata(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a restart needs. A checkpoint exists if and only if this object does (D16).

    Attributes:
        format_version: `FORMAT_VERSION` of the writer.
        kind: ``checkpoint`` or ``savepoint``.
        job_id, checkpoint_id, generation: who took it.
        parent: checkpoint that the generation continued from, None for the first.
        created_ms: wall-clock time of completion.
        parallelism, max_parallelism: of the job when it was taken.
        source: source position, None for a job whose sources need none.
        watermark_ms: combined event-time watermark at the barrier, None before the first.
        operators: the program's operators.
        slots: one snapshot for each slot, in slot order.
        finished: the job had reached the end of all its bounded sources.
    """

    format_version: int
    kind: str
    job_id: JobId
    checkpoint_id: CheckpointId
    generation: Generation
    parent: CheckpointId | None
    created_ms: int
    parallelism: int
    max_parallelism: int
    source: SourcePosition | None
    watermark_ms: int | None
    operators: list[OperatorRecord]
    slots: list[SlotSnapshot]
    finished: bool = False


def encode_metadata(metadata: CheckpointMetadata) -> bytes:
    """Return the bytes of `_metadata`."""
    return msgspec.json.encode(metadata)


def decode_metadata(data: bytes, *, path: str) -> CheckpointMetadata:
    """Decode `_metadata`.

    Args:
        data: content of the object.
        path: where it came from, for the message.

    Raises:
        CorruptStateError: not JSON of this type, or a format version that is not known.
    """
    try:
        version = msgspec.json.decode(data, type=_VersionOnly).format_version
        if version != FORMAT_VERSION:
            msg = (
                "checkpoint metadata has a format that this release cannot read, use the release "
                f"that wrote it or a newer one; path={path} format_version={version}"
            )
            raise CorruptStateError(msg)
        return msgspec.json.decode(data, type=CheckpointMetadata)
    except msgspec.MsgspecError as error:
        msg = f"checkpoint metadata cannot be decoded, restore from another one; path={path}"
        raise CorruptStateError(msg) from error


class _VersionOnly(msgspec.Struct):
    format_version: int
