"""A checkpoint of a job on disk that uses every kind of state, made as slots make it."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from headrace.checkpoint.protocol import paths
from headrace.checkpoint.protocol.types import (
    CheckpointMetadata,
    OperatorRecord,
    OperatorStateHandle,
    encode_metadata,
)
from headrace.checkpoint.storage import open_store
from headrace.checkpoint.transfer import TransferPool
from headrace.checkpoint.upload import KeyedOwner, ReusableFiles, SnapshotUploader
from headrace.ids import CheckpointId, Generation, OperatorUid, SlotIndex
from headrace.keygroups import key_group_range_of_slot
from headrace.serialization.registry import value_serializer
from headrace.serialization.types import LONG, STRING, TupleType
from runtime_tests.checkpoint.builders import checkpoint, slot_snapshot
from runtime_tests.state.bench_of_state import MAX_PARALLELISM, StateBench
from runtime_tests.state.every_kind import NAMES, WINDOW, EveryKind

UID = OperatorUid("every-kind")
GENERATION = Generation(1)

LONGS = value_serializer(LONG)
STRINGS = value_serializer(STRING)
PAIRS = value_serializer(TupleType((STRING, LONG)))

Fill = Callable[[StateBench], None]


def fill_every_kind(bench: StateBench) -> None:
    """Every kind of state for those of `NAMES` that the slot owns."""
    kinds = EveryKind(bench)
    for _ in range(2):
        for number, name in enumerate(NAMES):
            if bench.owns(name):
                bench.enter(name, WINDOW)
                kinds._fill_key(number, name)
        bench.backend.flush()


def state_without_keys(slot: SlotIndex) -> list[OperatorStateHandle]:
    """What a source, and in slot 0 a function with broadcast state, have stored."""
    source, rules = OperatorUid("source"), OperatorUid("rules")
    handles = [
        OperatorStateHandle(source, slot, "_own", "split", [b"\x01\x02"]),
        OperatorStateHandle(
            source,
            slot,
            "offsets",
            "union",
            [LONGS.serialize(slot), LONGS.serialize(10 + slot)],
            LONGS.snapshot(),
        ),
    ]
    if slot == 0:
        entry = (STRINGS.serialize("rule"), PAIRS.serialize(("x", 1)))
        types = {"key": STRINGS.snapshot(), "value": PAIRS.snapshot()}
        items = [msgspec.msgpack.encode(entry)]
        handles.append(OperatorStateHandle(rules, slot, "rules", "broadcast", items, types))
    return handles


def store_checkpoint(
    root: Path,
    backend_name: str,
    parallelism: int = 1,
    *,
    fill: Fill = fill_every_kind,
    keys=STRING,
    number: int = 1,
    uid: OperatorUid = UID,
    max_parallelism: int = MAX_PARALLELISM,
) -> str:
    """Write a checkpoint below ``root`` and return its URI."""
    store = open_store(root.as_uri(), {})
    pool = TransferPool(1)
    uploader = SnapshotUploader(store, pool, GENERATION)
    slots = []
    for slot in range(parallelism):
        bench = StateBench.open(
            backend_name,
            root / "work",
            keys=keys,
            key_groups=key_group_range_of_slot(slot, parallelism, max_parallelism),
        )
        fill(bench)
        owner = KeyedOwner(uid, SlotIndex(slot), backend_name)
        snapshot = bench.snapshot()
        uploaded = uploader.upload_keyed(snapshot, owner, CheckpointId(number), ReusableFiles())
        bench.backend.close()
        listed = state_without_keys(SlotIndex(slot))
        slots.append(slot_snapshot(slot, parallelism, keyed=[uploaded.handle], operator=listed))
    pool.close()
    metadata: CheckpointMetadata = checkpoint(
        number,
        slots=slots,
        max_parallelism=max_parallelism,
        operators=[
            OperatorRecord(OperatorUid("source"), "source", False, uid_is_generated=True),
            OperatorRecord(uid, "count", True, uid_is_generated=False),
        ],
    )
    store.put(paths.metadata_path(CheckpointId(number)), encode_metadata(metadata))
    return f"{store.root_uri}/{paths.checkpoint_dir(CheckpointId(number))}"
