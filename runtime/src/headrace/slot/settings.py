"""What a slot must know about its job besides the graph; part of every restore order."""

from __future__ import annotations

import msgspec

from headrace.ids import JobId


class SlotSettings(msgspec.Struct, frozen=True):
    """Settings of the slots of one job.

    Attributes:
        state_backend: ``rocksdb`` or ``hashmap``.
        state_options: ``state.backend.*`` options by Flink's keys.
        managed_memory_bytes: budget of one slot's state (RocksDB caches, write-back cache).
        checkpoints_uri: the job's checkpoint directory.
        storage_options: options of the checkpoint storage.
        transfer_threads: parallel uploads or downloads of one slot.
        heartbeat_interval_s: time between two heartbeats.
        incremental: refer to files that an earlier checkpoint holds instead of sending all again.
        allow_non_restored_state: accept restored state that the program no longer declares.
    """

    job_id: JobId
    job_name: str
    state_backend: str
    state_options: dict[str, str]
    managed_memory_bytes: int
    checkpoints_uri: str
    storage_options: dict[str, str]
    transfer_threads: int
    heartbeat_interval_s: float
    incremental: bool
    allow_non_restored_state: bool
