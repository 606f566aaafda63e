"""The stored format: golden metadata of each released version, and every object name.

A golden file is never changed. A new format version gets a new directory beside it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from headrace.checkpoint.protocol import paths
from headrace.checkpoint.protocol.generations import ClaimRecord, LatestRecord, StartRecord
from headrace.checkpoint.protocol.types import (
    CheckpointMetadata,
    FileHandle,
    KeyedStateHandle,
    OperatorRecord,
    OperatorStateHandle,
    SinkCommittable,
    SlotSnapshot,
    SourcePosition,
    StateSchema,
    decode_metadata,
    encode_metadata,
)
from headrace.errors import CorruptStateError
from headrace.ids import CheckpointId, Epoch, Generation, JobId, KeyGroup, OperatorUid, SlotIndex

GOLDEN = Path(__file__).parent / "golden"

EXPECTED_V1 = CheckpointMetadata(
    format_version=1,
    kind="checkpoint",
    job_id=JobId("0123456789abcdef0123456789abcdef"),
    checkpoint_id=CheckpointId(42),
    generation=Generation(3),
    parent=CheckpointId(37),
    created_ms=1_763_700_000_123,
    parallelism=1,
    max_parallelism=128,
    source=SourcePosition(
        epoch=Epoch(1207),
        metadata='{"id":"6f1c0a52-0a6e-4a1c-9a51-3d6c4f6f2a11"}',
        sources={"sources/0/0": b"v1\n{}"},
        offsets={
            "1206": 'v1\n{"batchWatermarkMs":0}\n{"raw-clicks":{"0":8294000}}',
            "1207": 'v1\n{"batchWatermarkMs":0}\n{"raw-clicks":{"0":8294710}}',
        },
        commits={
            "1206": 'v1\n{"nextBatchWatermarkMs":0}',
            "1207": 'v1\n{"nextBatchWatermarkMs":0}',
        },
    ),
    watermark_ms=1_763_699_995_000,
    operators=[
        OperatorRecord(OperatorUid("source"), "raw-clicks", stateful=False, uid_is_generated=True),
        OperatorRecord(OperatorUid("count"), "count per ad", stateful=True, uid_is_generated=False),
    ],
    slots=[
        SlotSnapshot(
            slot=SlotIndex(0),
            keyed=[
                KeyedStateHandle(
                    operator_uid=OperatorUid("count"),
                    slot=SlotIndex(0),
                    key_group_start=KeyGroup(0),
                    key_group_end=KeyGroup(127),
                    backend="rocksdb",
                    key_serializer={"type": "string"},
                    schemas=[
                        StateSchema("count", "value", {"type": "long"}),
                        StateSchema("_event_timers", "timers", {"type": "none"}),
                    ],
                    files=[
                        FileHandle(
                            "000011.sst",
                            "shared/g2-c37-5f0c6d0e9b7a4f0f8c3f2f4c1f0e7a10-000011.sst",
                            67_108_864,
                            "99aa06d3014798d86001c324468d497f",
                        ),
                        FileHandle(
                            "MANIFEST-000005",
                            "chk-42/g3-c42-0b4e3a3f1f0a4a8cb0a4cf5d5a7f3a55-MANIFEST-000005",
                            311,
                            "b0f8ba7ac63c2e6d5a2a7e3c6c8e2e11",
                        ),
                    ],
                )
            ],
            operator=[
                OperatorStateHandle(
                    OperatorUid("source"), SlotIndex(0), "_watermarks", "union", [b"\x00\xff", b""]
                )
            ],
            committables=[
                SinkCommittable(
                    operator_uid=OperatorUid("sink"),
                    spool_id="slot-0000",
                    checkpoint_id=CheckpointId(42),
                    files=[
                        FileHandle(
                            "spool-42",
                            "chk-42/g3-c42-7d0d1c9a3c2b4e51a3b28a0f6f1c5e90-spool-42",
                            4096,
                            "0123456789abcdef0123456789abcdef",
                        )
                    ],
                    records=1000,
                )
            ],
            state_size_bytes=67_109_175,
            uploaded_bytes=4407,
            sync_ms=12.5,
            async_ms=240.0,
        )
    ],
    finished=False,
)


def test_metadata_of_format_1_is_read_as_it_was_written() -> None:
    data = (GOLDEN / "v1" / "_metadata").read_bytes()
    assert decode_metadata(data, path="golden") == EXPECTED_V1


def test_metadata_is_still_written_byte_for_byte_as_format_1() -> None:
    assert (GOLDEN / "v1" / "_metadata").read_bytes() == encode_metadata(EXPECTED_V1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"format_version": 2}', "format_version=2"),
        (b'{"format_version": 1}', "cannot be decoded"),
        (b"{}", "cannot be decoded"),
        (b"", "cannot be decoded"),
        (b"\xff\xfe", "cannot be decoded"),
    ],
)
def test_metadata_that_cannot_be_understood_is_corrupt_and_named(data: bytes, message: str) -> None:
    with pytest.raises(CorruptStateError, match="checkpoint metadata") as caught:
        decode_metadata(data, path="chk-1/_metadata")
    assert message in str(caught.value)
    assert "path=chk-1/_metadata" in str(caught.value)


def test_an_unknown_field_is_refused_and_not_dropped() -> None:
    data = encode_metadata(EXPECTED_V1).replace(b'"kind":', b'"surprise":1,"kind":')
    with pytest.raises(CorruptStateError):
        decode_metadata(data, path="x")


def test_object_names_are_as_documented() -> None:
    writer = paths.FileWriter(Generation(3), CheckpointId(42))
    assert [
        paths.job_root("s3://bucket/ckpt/", JobId("ab")),
        paths.metadata_path(CheckpointId(42)),
        paths.exclusive_path(writer, "u", "MANIFEST"),
        paths.shared_path(writer, "u", "000011.sst"),
        paths.claim_path(Generation(3)),
        paths.start_path(Generation(3)),
        paths.latest_path(Generation(3)),
    ] == [
        "s3://bucket/ckpt/ab",
        "chk-42/_metadata",
        "chk-42/g3-c42-u-MANIFEST",
        "shared/g3-c42-u-000011.sst",
        "generations/0000000003/claim",
        "generations/0000000003/start",
        "generations/0000000003/latest",
    ]


def test_object_names_are_read_back_and_nothing_else_is() -> None:
    writer = paths.FileWriter(Generation(3), CheckpointId(42))
    assert writer == paths.parse_file_writer(paths.shared_path(writer, "u", "a-b.sst"))
    assert writer == paths.parse_file_writer(paths.exclusive_path(writer, "u", "a"))
    assert paths.parse_metadata_path("chk-42/_metadata") == 42
    assert paths.parse_checkpoint_dir("chk-42/anything") == 42
    assert paths.parse_generation_marker("generations/0000000003/latest") == (3, "latest")
    for path in ("shared/notes.txt", "chk-1/readme", "taskowned/g1-c1-u-x", "g1-c1-u-x", "probe/x"):
        assert paths.parse_file_writer(path) is None
    for path in ("chk-1/x/_metadata", "chk-x/_metadata", "_metadata", "shared/_metadata"):
        assert paths.parse_metadata_path(path) is None
    for path in ("generations/3/claim", "generations/0000000003/other"):
        assert paths.parse_generation_marker(path) is None


def test_generation_markers_are_plain_json() -> None:
    generation = Generation(3)
    assert [
        msgspec.json.encode(ClaimRecord(generation, "c", 5)),
        msgspec.json.encode(StartRecord(generation, "c", CheckpointId(42), CheckpointId(43))),
        msgspec.json.encode(LatestRecord(generation, CheckpointId(44))),
    ] == [
        b'{"generation":3,"claimant":"c","claimed_ms":5}',
        b'{"generation":3,"claimant":"c","checkpoint_id":42,"first_checkpoint_id":43}',
        b'{"generation":3,"checkpoint_id":44}',
    ]
