"""RocksDB settings from Flink's options, and how managed memory is divided (J2-J4). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from headrace.config.options import state as options
from headrace.errors import InvalidConfigError
from headrace.state.options import check_known, object_cache_bytes, read_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.config.option import Option

T = TypeVar("T")

_BLOCK_CACHE_UNMANAGED: Final = 256 << 20
"""Block cache when memory is not managed and no size is given; Flink's 8 MB is far too small."""

_ARENA_PARTS: Final = 8
"""RocksDB reserves an eighth of a memtable at a time."""

_ARENAS: Final = 128
"""So many states with an empty memtable each take up what all memtables may use together."""


@dataclass(frozen=True, slots=True)
class RocksDBSettings:
    """Everything that is set on a database.

    Attributes:
        object_cache_bytes: bound of the cache of deserialized values in front.
        block_cache_bytes: bound of block cache, with index and filter blocks, and, if memory is
            managed, memtables.
        memtables_bytes: bound of all memtables together, None = no common bound.
        arena_block_bytes: step in which a memtable takes memory.
        bloom_bits: bits a key, None = no filters.
        partitioned_index: whether indexes and filters are split into blocks.
        compression: of each level; the last one holds for all further levels.
        write_rate_bytes_per_s: bound of background writes, None = none.
        log_directory: of the info logs, None = beside the database.
        options_factory: ``module:name`` of a function that changes options, None = none.
    """

    object_cache_bytes: int
    block_cache_bytes: int
    memtables_bytes: int | None
    arena_block_bytes: int
    block_bytes: int
    write_buffer_bytes: int
    write_buffers: int
    write_buffers_to_merge: int
    universal_compaction: bool
    target_file_bytes: int
    level_base_bytes: int
    dynamic_levels: bool
    threads: int
    open_files: int
    bloom_bits: int | None
    metadata_block_bytes: int
    partitioned_index: bool
    compression: tuple[options.Compression, ...]
    write_batch_bytes: int
    write_rate_bytes_per_s: int | None
    log_directory: str | None
    log_files: int
    log_file_bytes: int
    options_factory: str | None


_HDD: Final[dict[Option[Any], object]] = {
    options.THREADS: 4,
    options.OPEN_FILES: -1,
    options.COMPACTION_STYLE: options.CompactionStyle.LEVEL,
    options.DYNAMIC_LEVELS: True,
}

_PREDEFINED: Final[dict[options.PredefinedOptions, dict[Option[Any], object]]] = {
    options.PredefinedOptions.DEFAULT: {},
    options.PredefinedOptions.SPINNING_DISK_OPTIMIZED: _HDD,
    options.PredefinedOptions.SPINNING_DISK_OPTIMIZED_HIGH_MEM: _HDD
    | {
        options.TARGET_FILE_SIZE: 256 << 20,
        options.LEVEL_BASE_SIZE: 1 << 30,
        options.WRITE_BUFFER_SIZE: 64 << 20,
        options.WRITE_BUFFER_MERGE: 3,
        options.WRITE_BUFFER_COUNT: 4,
        options.BLOCK_CACHE_SIZE: 256 << 20,
        options.BLOCK_SIZE: 128 << 10,
        options.BLOOM_FILTER: True,
    },
    options.PredefinedOptions.FLASH_SSD_OPTIMIZED: {options.THREADS: 4, options.OPEN_FILES: -1},
}
"""Flink's ``PredefinedOptions``, value for value."""


class _Given:
    """Options that were set, over a predefined set, over defaults."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._predefined = _PREDEFINED[read_option(given, options.PREDEFINED)]

    def read(self, option: Option[T]) -> T:
        is_set = any(key in self._given for key in option.keys)
        if not is_set and option in self._predefined:
            return cast("T", self._predefined[option])
        return read_option(self._given, option)


def parse_settings(
    given: Mapping[str, str], managed_memory_bytes: int, slot_bytes: int | None = None
) -> RocksDBSettings:
    """Return the settings of one backend.

    Managed memory first gives the object cache its fraction; the rest is RocksDB's, divided as
    Flink's ``RocksDBMemoryControllerUtils`` does: memtables may use ``2/3 * ratio`` of it, charged
    to a block cache of ``(3 - ratio) / 3`` of it, so that both together, with the arena that
    memtables take beyond their bound (half of it), stay within the budget.

    Args:
        given: options by Flink's keys; other groups' keys are ignored.
        managed_memory_bytes: budget of the backend.
        slot_bytes: budget of the slot, if native memory is shared by its backends.

    Raises:
        InvalidConfigError: an unknown key below our prefixes, or a value that cannot be honoured.
    """
    check_known(given)
    _check_settable(given)
    read = _Given(given).read
    cache_bytes = object_cache_bytes(given, managed_memory_bytes)
    fixed = read(options.FIXED_PER_SLOT)
    whole = managed_memory_bytes if slot_bytes is None else slot_bytes
    native = whole - object_cache_bytes(given, whole) if fixed is None else fixed
    write_buffer_bytes = read(options.WRITE_BUFFER_SIZE)
    if read(options.MANAGED):
        ratio = read(options.WRITE_BUFFER_RATIO)
        block_cache = int(native * (3 - ratio) / 3)
        memtables = int(native * 2 * ratio / 3)
        # Memtables that take large steps would pass the common bound almost empty (FLINK-19710),
        # and every state has one.
        arena = min(write_buffer_bytes // _ARENA_PARTS, memtables // _ARENAS)
    else:
        block_cache = read(options.BLOCK_CACHE_SIZE) or _BLOCK_CACHE_UNMANAGED
        memtables = None
        arena = write_buffer_bytes // _ARENA_PARTS
    style = read(options.COMPACTION_STYLE)
    bloom_bits: float = read(options.BLOOM_BITS)
    return RocksDBSettings(
        object_cache_bytes=cache_bytes,
        block_cache_bytes=block_cache,
        memtables_bytes=memtables,
        arena_block_bytes=max(4096, min(1 << 20, arena)),
        block_bytes=read(options.BLOCK_SIZE),
        write_buffer_bytes=write_buffer_bytes,
        write_buffers=read(options.WRITE_BUFFER_COUNT),
        write_buffers_to_merge=read(options.WRITE_BUFFER_MERGE),
        universal_compaction=style is options.CompactionStyle.UNIVERSAL,
        target_file_bytes=read(options.TARGET_FILE_SIZE),
        level_base_bytes=read(options.LEVEL_BASE_SIZE),
        dynamic_levels=read(options.DYNAMIC_LEVELS),
        threads=read(options.THREADS),
        open_files=read(options.OPEN_FILES),
        bloom_bits=round(bloom_bits) if read(options.BLOOM_FILTER) else None,
        metadata_block_bytes=read(options.METADATA_BLOCK_SIZE),
        partitioned_index=read(options.PARTITIONED_INDEX),
        compression=read(options.COMPRESSION),
        write_batch_bytes=read(options.WRITE_BATCH_SIZE),
        write_rate_bytes_per_s=read(options.WRITE_RATE),
        log_directory=read(options.LOG_DIRECTORY),
        log_files=read(options.LOG_FILES),
        log_file_bytes=read(options.LOG_FILE_SIZE),
        options_factory=read(options.OPTIONS_FACTORY),
    )


def _check_settable(given: Mapping[str, str]) -> None:
    fixed: tuple[Option[Any], ...] = (
        options.HIGH_PRIORITY_RATIO,
        options.LOG_LEVEL,
        options.BLOOM_BLOCKS,
    )
    for option in fixed:
        if read_option(given, option) != option.default:
            msg = f"RocksDB's Python binding cannot set this option, remove it; key={option.key}"
            raise InvalidConfigError(msg)
