"""Keyed state of one slot without Spark, for benchmarks that are about state and storage.

What a slot does with its state, on the same objects: values through the write-back cache, freezing
into hard links, upload of what storage does not have yet, download, restore. Values are random
bytes, so that compression does not flatter any number.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from headrace.checkpoint.protocol.types import KeyedStateHandle
from headrace.checkpoint.storage import ObjectStore
from headrace.checkpoint.transfer import TransferPool
from headrace.checkpoint.upload import (
    KeyedOwner,
    ReusableFiles,
    SnapshotUploader,
    UploadedState,
)
from headrace.ids import CheckpointId, Generation, OperatorUid, SlotIndex
from headrace.keygroups import key_group_of_hash, key_group_range_of_slot
from headrace.serialization.registry import key_serializer, value_serializer
from headrace.serialization.types import BYTES, LONG
from headrace.state.contract import (
    BackendConfig,
    KeyedStateBackend,
    LocalSnapshot,
    RestoreSource,
)
from headrace.state.factory import backend_factory

MAX_PARALLELISM = 128
UID = OperatorUid("bench")
EPOCH_RECORDS = 20_000
"""After so many the slot's backend gets its moment of upkeep, as at the end of an epoch."""

_RANDOM = os.urandom(1 << 24)
_ROW_BYTES = 2 + 8 + 2 + 4
"""About what a row has beside the value: key group, key, lengths."""


class SlotState:
    """One backend with one value state, and where it puts things."""

    def __init__(
        self,
        directory: Path,
        *,
        managed_bytes: int,
        value_bytes: int,
        options: Mapping[str, str] | None = None,
        sources: Sequence[RestoreSource] = (),
    ) -> None:
        self.directory = directory
        self.value_bytes = value_bytes
        self.row_bytes = value_bytes + _ROW_BYTES
        self._serializer = key_serializer(LONG)
        config: BackendConfig[object] = BackendConfig(
            directory=directory / "work",
            operator_uid=UID,
            key_serializer=self._serializer,
            key_group_range=key_group_range_of_slot(0, 1, MAX_PARALLELISM),
            managed_memory_bytes=managed_bytes,
            options=dict(options or {}),
        )
        self.backend: KeyedStateBackend = backend_factory("rocksdb").open(config, sources)
        self.state = self.backend.value_state("kept", value_serializer(BYTES))
        self.backend.finish_registration()

    def put(self, keys: Iterable[int], *, read: bool = True) -> int:
        """Read and write the value of every key, as a record does; returns how many.

        Without ``read`` the values are only written, which takes a third of the time.
        """
        backend, context = self.backend, self.backend.context
        hash64, value, update = self._serializer.hash64, self.state.value, self.state.update
        size, bound, done = self.value_bytes, len(_RANDOM) - self.value_bytes, 0
        at = (time.perf_counter_ns() // 7) % bound
        for key in keys:
            context.key = context.cache_key = key
            context.key_group = key_group_of_hash(hash64(key), MAX_PARALLELISM)
            if read:
                value()
            at = (at + 7919) % bound
            update(_RANDOM[at : at + size])
            done += 1
            if not done % EPOCH_RECORDS:
                backend.maintain()
        return done

    def read(self, keys: Iterable[int]) -> None:
        """Read the value of every key."""
        context, hash64, value = self.backend.context, self._serializer.hash64, self.state.value
        for key in keys:
            context.key = context.cache_key = key
            context.key_group = key_group_of_hash(hash64(key), MAX_PARALLELISM)
            value()

    def freeze(self, number: int) -> LocalSnapshot:
        """Freeze the state and remove the frozen copy before, as when a checkpoint is complete."""
        snapshots = self.directory / "snapshots"
        snapshots.mkdir(exist_ok=True)
        frozen = self.backend.snapshot(snapshots / str(number))
        for old in snapshots.iterdir():
            if old.name != str(number):
                shutil.rmtree(old)
        return frozen

    def settle(self, timeout_s: float = 120) -> None:
        """Wait until RocksDB's threads have nothing to do."""
        deadline, idle = time.perf_counter() + timeout_s, 0
        while idle < 3 and time.perf_counter() < deadline:
            gauges = self.backend.metrics()
            busy = gauges["rocksdb.num-running-compactions"] + gauges["rocksdb.num-running-flushes"]
            idle = 0 if busy else idle + 1
            time.sleep(0.02)


class SlotUploads:
    """Checkpoints of one slot in a store that holds nothing else."""

    def __init__(self, store: ObjectStore, pool: TransferPool) -> None:
        self._store = store
        self._uploader = SnapshotUploader(store, pool, Generation(1))
        self._reusable = ReusableFiles()
        self._number = 0
        self.handle: KeyedStateHandle | None = None

    def complete(self, frozen: LocalSnapshot) -> UploadedState:
        """Upload a frozen copy, and delete what no longer belongs to the newest checkpoint."""
        self._number += 1
        number = CheckpointId(self._number)
        owner = KeyedOwner(UID, SlotIndex(0), "rocksdb")
        uploaded = self._uploader.upload_keyed(frozen, owner, number, self._reusable)
        self._reusable.completed(number)
        kept = {file.path for file in uploaded.handle.files}
        former = self.handle.files if self.handle else []
        self._store.delete([file.path for file in former if file.path not in kept])
        self.handle = uploaded.handle
        return uploaded
