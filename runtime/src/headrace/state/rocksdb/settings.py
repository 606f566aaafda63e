"""RocksDB settings from Flink's options, and how managed memory is divided (J2-J4). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.config.options import state as options
from headrace.errors import InvalidConfigError
from headrace.state.options import check_known, object_cache_bytes, read_option

if TYPE_CHECKING:
    from collections.abc import Mapping

_BLOCK_CACHE_UNMANAGED: Final = 256 << 20
"""Block cache when memory is not managed and no size is given; Flink's 8 MB is far too small."""

_ARENA_PARTS: Final = 8
"""RocksDB reserves an eighth of a memtable at a time."""


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


def parse_settings(given: Mapping[str, str], managed_memory_bytes: int) -> RocksDBSettings:
    """Return the settings of one backend.

    Managed memory first gives the object cache its fraction; the rest is RocksDB's, divided as
    Flink's ``RocksDBMemoryControllerUtils`` does: memtables may use ``2/3 * ratio`` of it, charged
    to a block cache of ``(3 - ratio) / 3`` of it, so that both together, with the arena that
    memtables take beyond their bound (half of it), stay within the budget.

    Args:
        given: options by Flink's keys; other groups' keys are ignored.
        managed_memory_bytes: budget of the backend.

    Raises:
        InvalidConfigError: an unknown key below our prefixes, or a value that cannot be honoured.
    """
    check_known(given)
    _check_settable(given)
    cache_bytes = object_cache_bytes(given, managed_memory_bytes)
    fixed = read_option(given, options.FIXED_PER_SLOT)
    native = managed_memory_bytes - cache_bytes if fixed is None else fixed
    write_buffer_bytes = read_option(given, options.WRITE_BUFFER_SIZE)
    if read_option(given, options.MANAGED):
        ratio = read_option(given, options.WRITE_BUFFER_RATIO)
        block_cache = int(native * (3 - ratio) / 3)
        memtables = int(native * 2 * ratio / 3)
        # A memtable that takes large steps would pass the common bound almost empty (FLINK-19710).
        arena = min(write_buffer_bytes, memtables) // _ARENA_PARTS
    else:
        block_cache = read_option(given, options.BLOCK_CACHE_SIZE) or _BLOCK_CACHE_UNMANAGED
        memtables = None
        arena = write_buffer_bytes // _ARENA_PARTS
    style = read_option(given, options.COMPACTION_STYLE)
    bloom_bits: float = read_option(given, options.BLOOM_BITS)
    return RocksDBSettings(
        object_cache_bytes=cache_bytes,
        block_cache_bytes=block_cache,
        memtables_bytes=memtables,
        arena_block_bytes=max(4096, min(1 << 20, arena)),
        block_bytes=read_option(given, options.BLOCK_SIZE),
        write_buffer_bytes=write_buffer_bytes,
        write_buffers=read_option(given, options.WRITE_BUFFER_COUNT),
        write_buffers_to_merge=read_option(given, options.WRITE_BUFFER_MERGE),
        universal_compaction=style is options.CompactionStyle.UNIVERSAL,
        target_file_bytes=read_option(given, options.TARGET_FILE_SIZE),
        level_base_bytes=read_option(given, options.LEVEL_BASE_SIZE),
        dynamic_levels=read_option(given, options.DYNAMIC_LEVELS),
        threads=read_option(given, options.THREADS),
        open_files=read_option(given, options.OPEN_FILES),
        bloom_bits=round(bloom_bits) if read_option(given, options.BLOOM_FILTER) else None,
    )


def _check_settable(given: Mapping[str, str]) -> None:
    if read_option(given, options.HIGH_PRIORITY_RATIO) != options.HIGH_PRIORITY_RATIO.default:
        raise _cannot_set(options.HIGH_PRIORITY_RATIO.key)
    if read_option(given, options.LOG_LEVEL) is not options.LOG_LEVEL.default:
        raise _cannot_set(options.LOG_LEVEL.key)


def _cannot_set(key: str) -> InvalidConfigError:
    msg = f"RocksDB's Python binding cannot set this option, remove it; key={key}"
    return InvalidConfigError(msg)
