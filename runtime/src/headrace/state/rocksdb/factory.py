"""Opens RocksDB backends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from headrace.errors import InternalError
from headrace.state.backend import open_backend
from headrace.state.rocksdb.options import DatabaseOptions
from headrace.state.rocksdb.restore import open_for_reading, open_storage
from headrace.state.rocksdb.settings import parse_settings
from headrace.state.schemas import check_key_type, merge_schemas
from headrace.state.stored import ROCKSDB, copy_foreign_rows, split_sources

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.state.backend import CachedStateBackend
    from headrace.state.contract import BackendConfig, RestoreSource, StoredTypes
    from headrace.state.rocksdb.settings import RocksDBSettings
    from headrace.state.rocksdb.storage import RocksDBStorage
    from headrace.state.storage import StateStorage


log = logging.getLogger(__name__)

SETTLE_S: Final = 2.0
"""How long a prepared database may compact before it is taken as it is, in seconds; present owners
note what changes meanwhile, in memory."""

READING_BYTES: Final = 64 << 20
"""Memory of a database that is only looked at."""


class RocksDBBackendFactory:
    """`KeyedStateBackendFactory` for ``state.backend.type: rocksdb``."""

    def open(
        self, config: BackendConfig[object], sources: Sequence[RestoreSource]
    ) -> CachedStateBackend:
        """Open a backend; see the protocol."""
        return self.open_prepared(config, _build(config, sources), sources)

    def read(self, source: RestoreSource, directory: Path) -> StateStorage:
        """Open frozen files to look at their rows; see the protocol."""
        options = DatabaseOptions(parse_settings({}, READING_BYTES))
        return open_for_reading(source, directory, options)

    def prepare(
        self, config: BackendConfig[object], sources: Sequence[RestoreSource]
    ) -> StateStorage:
        """Build the database of a backend and wait until it has settled; see the protocol."""
        storage = _build(config, sources)
        try:
            if not storage.settle(config.clock, SETTLE_S):
                log.info("compaction goes on after %s s operator=%s", SETTLE_S, config.operator_uid)
        except BaseException:
            storage.close()
            raise
        return storage

    def open_prepared(
        self,
        config: BackendConfig[object],
        storage: StateStorage,
        stored: Sequence[StoredTypes],
        changes: Sequence[Path] = (),
    ) -> CachedStateBackend:
        """Open a backend over a prepared database; see the protocol."""
        cache_bytes = _settings(config).object_cache_bytes
        return open_backend(config, storage, stored, changes, cache_bytes)


def _build(config: BackendConfig[object], sources: Sequence[RestoreSource]) -> RocksDBStorage:
    settings = _settings(config)
    check_key_type(sources, config.key_serializer, config.operator_uid)
    merge_schemas(sources, config.operator_uid)
    if config.directory.exists() and any(config.directory.iterdir()):
        msg = f"a backend needs an empty directory; directory={config.directory}"
        raise InternalError(msg)
    options = DatabaseOptions(settings, config.memory)
    split = split_sources(sources, ROCKSDB)
    storage = open_storage(config.directory, options, config.key_group_range, split.own)
    copy_foreign_rows(split.foreign, storage, config.key_group_range, config.directory)
    return storage


def _settings(config: BackendConfig[object]) -> RocksDBSettings:
    slot_bytes = None if config.memory is None else config.memory.managed_bytes
    return parse_settings(config.options, config.managed_memory_bytes, slot_bytes)
