"""Opens in-memory backends."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from headrace.errors import CorruptStateError
from headrace.state.backend import open_backend
from headrace.state.hashmap.row_file import SUFFIX, read_row_file
from headrace.state.hashmap.storage import HashmapStorage
from headrace.state.options import check_known, object_cache_bytes
from headrace.state.rows import key_group_of
from headrace.state.schemas import check_key_type, merge_schemas

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

    def read(self, source: RestoreSource, directory: Path) -> StateStorage:  # noqa: ARG002 - needs none
        """Read frozen files into memory to look at their rows; see the protocol."""
        storage = HashmapStorage(sys.maxsize, "reader")
        _read(source, source.key_group_range, storage)
        return storage

    def prepare(
        self, config: BackendConfig[object], sources: Sequence[RestoreSource]
    ) -> StateStorage:
        """Read the rows of a backend into memory; see the protocol."""
        check_key_type(sources, config.key_serializer, config.operator_uid)
        merge_schemas(sources, config.operator_uid)
        check_known(config.options)
        cache_bytes = object_cache_bytes(config.options, config.managed_memory_bytes)
        storage = HashmapStorage(config.managed_memory_bytes - cache_bytes, config.operator_uid)
        for source in sources:
            kept = source.key_group_range.intersection(config.key_group_range)
            if kept is not None:
                _read(source, kept, storage)
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
    missing = {schema.name for schema in source.schemas}
    for path in sorted(source.directory.glob(f"*{SUFFIX}")):
        name, rows = read_row_file(path)
        storage.rows(name).write(item for item in rows if key_group_of(item[0]) in kept)
        missing.discard(name)
    if missing:
        msg = (
            "stored state lacks files, restore another checkpoint; "
            f"states={sorted(missing)} directory={source.directory}"
        )
        raise CorruptStateError(msg)
