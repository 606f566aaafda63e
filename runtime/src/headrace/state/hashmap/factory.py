"""Opens in-memory backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.state.backend import open_backend
from headrace.state.batches import row_batches
from headrace.state.hashmap.frozen_rows import FrozenRows
from headrace.state.hashmap.storage import HashmapStorage
from headrace.state.options import check_known, object_cache_bytes
from headrace.state.rows import rows_of_range
from headrace.state.schemas import check_key_type, merge_schemas
from headrace.state.stored import HASHMAP, copy_foreign_rows, split_sources

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from headrace.keygroups import KeyGroupRange
    from headrace.state.backend import CachedStateBackend
    from headrace.state.contract import BackendConfig, RestoreSource, StoredTypes
    from headrace.state.storage import StateStorage


class HashmapBackendFactory:
    """`KeyedStateBackendFactory` for ``state.backend.type: hashmap``."""

    def open(
        self, config: BackendConfig[object], sources: Sequence[RestoreSource]
    ) -> CachedStateBackend:
        """Open a backend; see the protocol. All rows are read into memory."""
        return self.open_prepared(config, self.prepare(config, sources), sources)

    def read(self, source: RestoreSource, directory: Path) -> FrozenRows:  # noqa: ARG002 - needs none
        """Open frozen files to look at their rows; see the protocol."""
        return FrozenRows(source)

    def prepare(
        self, config: BackendConfig[object], sources: Sequence[RestoreSource]
    ) -> StateStorage:
        """Read the rows of a backend into memory; see the protocol."""
        check_key_type(sources, config.key_serializer, config.operator_uid)
        merge_schemas(sources, config.operator_uid)
        check_known(config.options)
        cache_bytes = object_cache_bytes(config.options, config.managed_memory_bytes)
        storage = HashmapStorage(config.managed_memory_bytes - cache_bytes, config.operator_uid)
        split = split_sources(sources, HASHMAP)
        for source in split.own:
            kept = source.key_group_range.intersection(config.key_group_range)
            if kept is not None:
                _read(source, kept, storage)
        copy_foreign_rows(split.foreign, storage, config.key_group_range, config.directory)
        return storage

    def open_prepared(
        self,
        config: BackendConfig[object],
        storage: StateStorage,
        stored: Sequence[StoredTypes],
        changes: Sequence[Path] = (),
    ) -> CachedStateBackend:
        """Open a backend over prepared rows; see the protocol."""
        cache_bytes = object_cache_bytes(config.options, config.managed_memory_bytes)
        return open_backend(config, storage, stored, changes, cache_bytes)


def _read(source: RestoreSource, kept: KeyGroupRange, storage: HashmapStorage) -> None:
    frozen = FrozenRows(source)
    bounds = rows_of_range(kept)
    for name in frozen.names:
        rows = storage.rows(name)
        for batch in row_batches(frozen.rows(name).scan(*bounds)):
            rows.write(batch)
