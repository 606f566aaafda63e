"""Opens RocksDB backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import InternalError
from headrace.state.backend import CachedStateBackend
from headrace.state.rocksdb.options import DatabaseOptions
from headrace.state.rocksdb.restore import open_storage
from headrace.state.rocksdb.settings import parse_settings
from headrace.state.schemas import check_key_type, merge_schemas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.state.contract import BackendConfig, RestoreSource


class RocksDBBackendFactory:
    """`KeyedStateBackendFactory` for ``state.backend.type: rocksdb``."""

    def open(
        self, config: BackendConfig[object], sources: Sequence[RestoreSource]
    ) -> CachedStateBackend:
        """Open a backend; see the protocol."""
        settings = parse_settings(config.options, config.managed_memory_bytes)
        check_key_type(sources, config.key_serializer, config.operator_uid)
        schemas = merge_schemas(sources, config.operator_uid)
        if config.directory.exists() and any(config.directory.iterdir()):
            msg = f"a backend needs an empty directory; directory={config.directory}"
            raise InternalError(msg)
        options = DatabaseOptions(settings)
        storage = open_storage(config.directory, options, config.key_group_range, sources)
        return CachedStateBackend(config, storage, schemas, settings.object_cache_bytes)
