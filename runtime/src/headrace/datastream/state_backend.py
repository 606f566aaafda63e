"""State backends as a program chooses them, as ``pyflink.datastream.state_backend``."""

from __future__ import annotations

from headrace.config.options import checkpointing, state
from headrace.config.options.state import StateBackendKind


class StateBackend:
    """A choice of state backend, as options by key."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def settings(self) -> dict[str, str]:
        """Return the options that the choice sets."""
        return dict(self._settings)


class HashMapStateBackend(StateBackend):
    """State in memory: fastest, bounded by memory."""

    def __init__(self) -> None:
        super().__init__({state.BACKEND.key: StateBackendKind.HASHMAP.value})


class EmbeddedRocksDBStateBackend(StateBackend):
    """State in RocksDB on local disk: larger than memory, incremental checkpoints. The default."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        settings = {state.BACKEND.key: StateBackendKind.ROCKSDB.value}
        if enable_incremental_checkpointing is not None:
            settings[checkpointing.INCREMENTAL.key] = str(enable_incremental_checkpointing).lower()
        super().__init__(settings)

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the local directory of the databases; the first of several is used."""
        self._settings[state.LOCAL_DIRECTORY.key] = paths[0]
