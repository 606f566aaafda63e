"""Settings as rocksdict's objects, shared by all column families of one database."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    WriteBufferManager,
    WriteOptions,
)

from headrace.config.options.state import OPTIONS_FACTORY, Compression
from headrace.errors import InvalidConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.state.memory import SlotMemory
    from headrace.state.rocksdb.settings import RocksDBSettings


LEVELS: Final = 7
"""RocksDB's default number of levels."""

MANIFEST_BYTES_MAX: Final = 256 << 10
"""At this size RocksDB begins a new MANIFEST, with the present files alone."""

_REFILL_US: Final = 100_000
_FAIRNESS: Final = 10
"""RocksDB's defaults of a rate limiter: how often it refills, one in so many low requests first."""

_COMPRESSIONS: Final = {
    Compression.NONE: DBCompressionType.none,
    Compression.SNAPPY: DBCompressionType.snappy,
    Compression.ZLIB: DBCompressionType.zlib,
    Compression.BZIP2: DBCompressionType.bz2,
    Compression.LZ4: DBCompressionType.lz4,
    Compression.LZ4HC: DBCompressionType.lz4hc,
    Compression.ZSTD: DBCompressionType.zstd,
}


class NativeMemory:
    """Block cache and bound of all memtables of one database, or of all databases of a slot."""

    def __init__(self, settings: RocksDBSettings) -> None:
        self.block_cache = Cache(settings.block_cache_bytes)
        self.write_buffer_manager: WriteBufferManager | None = None
        if settings.memtables_bytes is not None:
            # Without stalls, as Flink: over the bound, RocksDB flushes early instead of waiting.
            self.write_buffer_manager = WriteBufferManager.new_write_buffer_manager_with_cache(
                settings.memtables_bytes, allow_stall=False, cache=self.block_cache
            )


def native_memory(settings: RocksDBSettings, memory: SlotMemory | None) -> NativeMemory:
    """Return the memory that a database uses: the slot's if there is one and it is bounded."""
    if memory is None or settings.memtables_bytes is None:
        return NativeMemory(settings)
    name = ("rocksdb", settings.block_cache_bytes, settings.memtables_bytes)
    return memory.shared(name, lambda: NativeMemory(settings))


LEVEL_0_FILES: Final = 8
"""Files of flushes before they are merged into the levels; RocksDB's default is 4. Every checkpoint
flushes, and every merge is uploaded: at 512 MiB and 7 % churn, 8 uploads 2.6 bytes for a byte that
changed, 4 uploads 3.2, and a read takes the same 12 us (``bench/checkpoint_bytes.py``)."""


class DatabaseOptions:
    """Options of one database and its column families."""

    def __init__(self, settings: RocksDBSettings, memory: SlotMemory | None = None) -> None:
        self.settings = settings
        self._change = options_factory(settings.options_factory)
        native = native_memory(settings, memory)
        self.block_cache = native.block_cache
        self.write_buffer_manager = native.write_buffer_manager

    def build(self) -> Options:
        """Return new options for the database or for one column family."""
        settings = self.settings
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.create_missing_column_families(True)
        options.set_block_based_table_factory(self._table())
        options.set_write_buffer_size(settings.write_buffer_bytes)
        options.set_max_write_buffer_number(settings.write_buffers)
        options.set_min_write_buffer_number_to_merge(settings.write_buffers_to_merge)
        options.set_arena_block_size(settings.arena_block_bytes)
        options.set_level_zero_file_num_compaction_trigger(LEVEL_0_FILES)
        options.set_target_file_size_base(settings.target_file_bytes)
        options.set_max_bytes_for_level_base(settings.level_base_bytes)
        options.set_level_compaction_dynamic_level_bytes(settings.dynamic_levels)
        options.set_max_open_files(settings.open_files)
        options.set_max_background_jobs(settings.threads)
        compressions = [_COMPRESSIONS[kind]() for kind in settings.compression]
        options.set_compression_type(compressions[-1])
        if len(compressions) > 1:
            above = compressions + compressions[-1:] * (LEVELS - len(compressions))
            options.set_compression_per_level(above[:LEVELS])
        if settings.universal_compaction:
            options.set_compaction_style(DBCompactionStyle.universal())
        if self.write_buffer_manager is not None:
            options.set_write_buffer_manager(self.write_buffer_manager)
        if settings.write_rate_bytes_per_s is not None:
            options.set_ratelimiter(settings.write_rate_bytes_per_s, _REFILL_US, _FAIRNESS)
        # RocksDB's own log (the file LOG) would otherwise grow over the life of a slot.
        options.set_max_log_file_size(settings.log_file_bytes)
        options.set_keep_log_file_num(settings.log_files)
        if settings.log_directory is not None:
            options.set_db_log_dir(settings.log_directory)
        # It grows with every flush and is part of every checkpoint; RocksDB's bound is 1 GB.
        options.set_max_manifest_file_size(MANIFEST_BYTES_MAX)
        # Statistics every ten minutes go to that log, at the price of a pause.
        options.set_stats_dump_period_sec(0)
        if self._change is not None:
            self._change(options)
        return options

    def _table(self) -> BlockBasedOptions:
        table = BlockBasedOptions()
        table.set_block_cache(self.block_cache)
        table.set_block_size(self.settings.block_bytes)
        # Index and filter blocks are part of the budget, else they are memory that no one counts.
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        if self.settings.partitioned_index:
            table.set_index_type(BlockBasedIndexType.two_level_index_search())
            table.set_partition_filters(True)
            table.set_metadata_block_size(self.settings.metadata_block_bytes)
            table.set_pin_top_level_index_and_filter(True)
        if self.settings.bloom_bits is not None:
            table.set_bloom_filter(self.settings.bloom_bits, block_based=False)
        return table


def options_factory(name: str | None) -> Callable[[Options], object] | None:
    """Return the function ``module:name`` of ``state.backend.rocksdb.options-factory``.

    Raises:
        InvalidConfigError: it cannot be imported.
    """
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    try:
        found: Callable[[Options], object] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        msg = (
            "a function that changes RocksDB's options cannot be imported, give module:name of one "
            f"that is in the image: {error}; key={OPTIONS_FACTORY.key} value={name!r}"
        )
        raise InvalidConfigError(msg) from error
    return found


def without_wal() -> WriteOptions:
    """Return write options without write-ahead log: checkpoints are the durability."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign,assignment]  # a property, stubbed wrongly
    return options
