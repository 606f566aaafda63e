"""Settings as rocksdict's objects, shared by all column families of one database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    WriteBufferManager,
    WriteOptions,
)

if TYPE_CHECKING:
    from headrace.state.rocksdb.settings import RocksDBSettings


class DatabaseOptions:
    """Options of one database; holds the caches that its column families share."""

    def __init__(self, settings: RocksDBSettings) -> None:
        self.settings = settings
        self.block_cache = Cache(settings.block_cache_bytes)
        self.write_buffer_manager: WriteBufferManager | None = None
        if settings.memtables_bytes is not None:
            # Without stalls, as Flink: over the bound, RocksDB flushes early instead of waiting.
            self.write_buffer_manager = WriteBufferManager.new_write_buffer_manager_with_cache(
                settings.memtables_bytes, allow_stall=False, cache=self.block_cache
            )

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
        options.set_target_file_size_base(settings.target_file_bytes)
        options.set_max_bytes_for_level_base(settings.level_base_bytes)
        options.set_level_compaction_dynamic_level_bytes(settings.dynamic_levels)
        options.set_max_open_files(settings.open_files)
        options.set_max_background_jobs(settings.threads)
        options.set_compression_type(DBCompressionType.lz4())
        if settings.universal_compaction:
            options.set_compaction_style(DBCompactionStyle.universal())
        if self.write_buffer_manager is not None:
            options.set_write_buffer_manager(self.write_buffer_manager)
        # RocksDB's own log (the file LOG) would otherwise grow over the life of a slot.
        options.set_max_log_file_size(1 << 20)
        options.set_keep_log_file_num(2)
        # Statistics every ten minutes go to that log, at the price of a pause.
        options.set_stats_dump_period_sec(0)
        return options

    def _table(self) -> BlockBasedOptions:
        table = BlockBasedOptions()
        table.set_block_cache(self.block_cache)
        table.set_block_size(self.settings.block_bytes)
        # Index and filter blocks are part of the budget, else they are memory that no one counts.
        table.set_cache_index_and_filter_blocks(True)
        table.set_pin_l0_filter_and_index_blocks_in_cache(True)
        if self.settings.bloom_bits is not None:
            table.set_bloom_filter(self.settings.bloom_bits, block_based=False)
        return table


def without_wal() -> WriteOptions:
    """Return write options without write-ahead log: checkpoints are the durability."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign,assignment]  # a property, stubbed wrongly
    return options
