"""Builders of checkpoint parts for tests."""

from __future__ import annotations

import os
from pathlib import Path

import xxhash

from headrace.checkpoint.protocol.types import (
    FORMAT_VERSION,
    CheckpointMetadata,
    FileHandle,
    KeyedStateHandle,
    OperatorRecord,
    SlotSnapshot,
    SourcePosition,
    StateSchema,
)
from headrace.ids import CheckpointId, Epoch, Generation, JobId, KeyGroup, OperatorUid, SlotIndex
from headrace.keygroups import KeyGroupRange, key_group_range_of_slot
from headrace.state.contract import LocalSnapshot, SnapshotFile

JOB_ID = JobId("0123456789abcdef0123456789abcdef")
UID = OperatorUid("count")
SCHEMA = StateSchema("count", "value", {"type": "long"})
MAX_PARALLELISM = 128


def file_handle(path: str, content: bytes = b"content", name: str | None = None) -> FileHandle:
    return FileHandle(
        name=name or path.rsplit("-", 1)[-1],
        path=path,
        size_bytes=len(content),
        checksum=xxhash.xxh3_128_hexdigest(content),
    )


def keyed_handle(
    slot: int = 0, parallelism: int = 1, files: list[FileHandle] | None = None, uid: str = UID
) -> KeyedStateHandle:
    key_groups = key_group_range_of_slot(slot, parallelism, MAX_PARALLELISM)
    return KeyedStateHandle(
        operator_uid=OperatorUid(uid),
        slot=SlotIndex(slot),
        key_group_start=key_groups.start,
        key_group_end=key_groups.end,
        backend="rocksdb",
        key_serializer={"type": "string"},
        schemas=[SCHEMA],
        files=files or [],
    )


def slot_snapshot(slot: int = 0, parallelism: int = 1, **changes: object) -> SlotSnapshot:
    fields: dict[str, object] = {
        "slot": SlotIndex(slot),
        "keyed": [keyed_handle(slot, parallelism)],
        "operator": [],
        "committables": [],
        "state_size_bytes": 100,
        "uploaded_bytes": 10,
        "sync_ms": 1.5,
        "async_ms": 20.0,
    }
    return SlotSnapshot(**{**fields, **changes})  # type: ignore[arg-type]


def checkpoint(
    checkpoint_id: int,
    generation: int = 1,
    parent: int | None = None,
    slots: list[SlotSnapshot] | None = None,
    **changes: object,
) -> CheckpointMetadata:
    slots = slots or [slot_snapshot()]
    fields: dict[str, object] = {
        "format_version": FORMAT_VERSION,
        "kind": "checkpoint",
        "job_id": JOB_ID,
        "checkpoint_id": CheckpointId(checkpoint_id),
        "generation": Generation(generation),
        "parent": None if parent is None else CheckpointId(parent),
        "created_ms": 1_700_000_000_000 + checkpoint_id,
        "parallelism": len(slots),
        "max_parallelism": MAX_PARALLELISM,
        "source": position(Epoch(checkpoint_id * 10)),
        "watermark_ms": None,
        "operators": [OperatorRecord(UID, "count", stateful=True, uid_is_generated=False)],
        "slots": slots,
    }
    return CheckpointMetadata(**{**fields, **changes})  # type: ignore[arg-type]


def position(epoch: Epoch) -> SourcePosition:
    """Return the position of one source after an epoch; its offset is the epoch's number."""
    log = f'v1\n{{}}\n{{"topic":{{"0":{epoch}}}}}'
    return SourcePosition(epoch, "{}", {}, {str(epoch): log}, {str(epoch): "v1\n{}"})


def local_snapshot(directory: Path, files: dict[str, bytes]) -> LocalSnapshot:
    """Write ``files`` into ``directory``; those that end in ``.sst`` are shareable."""
    directory.mkdir(parents=True)
    described = []
    for name, content in files.items():
        (directory / name).write_bytes(content)
        described.append(
            SnapshotFile(name, directory / name, len(content), shareable=name.endswith(".sst"))
        )
    return LocalSnapshot(
        directory=directory,
        files=tuple(described),
        key_group_range=KeyGroupRange(KeyGroup(0), KeyGroup(MAX_PARALLELISM - 1)),
        key_serializer={"type": "string"},
        schemas=(SCHEMA,),
    )


def random_bytes(length: int = 1000) -> bytes:
    return os.urandom(length)
