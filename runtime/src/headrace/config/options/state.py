"""Options of the state backends (C1, J2-J4, J12), with Flink's keys.

The whole group is handed to the backend as text (`JobConfiguration.state_backend_options`).
"""

from __future__ import annotations

import enum
from typing import Final

from headrace.config.option import Option, Section
from headrace.config.values import (
    BOOLEAN,
    MEMORY,
    STRING,
    enumeration,
    integer,
    list_of,
    number,
    optional,
)

_ROCKSDB: Final = Section.ROCKSDB
_MB: Final = 1 << 20


class StateBackendKind(enum.Enum):
    """State backends."""

    ROCKSDB = "rocksdb"
    HASHMAP = "hashmap"


class CompactionStyle(enum.Enum):
    """Compaction styles of RocksDB."""

    LEVEL = "LEVEL"
    UNIVERSAL = "UNIVERSAL"


class Compression(enum.Enum):
    """Compressions of RocksDB's files, as Flink spells them."""

    NONE = "NO_COMPRESSION"
    SNAPPY = "SNAPPY_COMPRESSION"
    ZLIB = "ZLIB_COMPRESSION"
    BZIP2 = "BZLIB2_COMPRESSION"
    LZ4 = "LZ4_COMPRESSION"
    LZ4HC = "LZ4HC_COMPRESSION"
    ZSTD = "ZSTD_COMPRESSION"


class PredefinedOptions(enum.Enum):
    """Flink's sets of options for kinds of disks; options that are set win over them."""

    DEFAULT = "DEFAULT"
    SPINNING_DISK_OPTIMIZED = "SPINNING_DISK_OPTIMIZED"
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = "SPINNING_DISK_OPTIMIZED_HIGH_MEM"
    FLASH_SSD_OPTIMIZED = "FLASH_SSD_OPTIMIZED"


class RocksDBLogLevel(enum.Enum):
    """Levels of RocksDB's own info log (the file ``LOG``)."""

    DEBUG = "DEBUG_LEVEL"
    INFO = "INFO_LEVEL"
    WARN = "WARN_LEVEL"
    ERROR = "ERROR_LEVEL"
    FATAL = "FATAL_LEVEL"
    HEADER = "HEADER_LEVEL"


BACKEND: Final = Option(
    "state.backend.type",
    enumeration(StateBackendKind),
    StateBackendKind.ROCKSDB,
    Section.STATE,
    "Where working state lives: `rocksdb` on local disk, `hashmap` in memory. Flink's default is "
    "`hashmap`.",
    aliases=("state.backend",),
)
CACHE_SIZE: Final = Option(
    "headrace.state.cache.fraction",
    number(0.0, 0.9),
    0.3,
    Section.STATE,
    "Part of a slot's managed memory for the cache of deserialized values in front of RocksDB.",
)
MANAGED: Final = Option(
    "state.backend.rocksdb.memory.managed",
    BOOLEAN,
    True,
    _ROCKSDB,
    "Bound block cache and memtables of all states of a slot by the slot's managed memory.",
)
FIXED_PER_SLOT: Final = Option(
    "state.backend.rocksdb.memory.fixed-per-slot",
    optional(MEMORY),
    None,
    _ROCKSDB,
    "RocksDB memory of a slot, instead of its share of managed memory.",
)
WRITE_BUFFER_RATIO: Final = Option(
    "state.backend.rocksdb.memory.write-buffer-ratio",
    number(0.0, 1.0),
    0.5,
    _ROCKSDB,
    "Part of a slot's RocksDB memory that memtables may use.",
)
HIGH_PRIORITY_RATIO: Final = Option(
    "state.backend.rocksdb.memory.high-prio-pool-ratio",
    number(0.0, 1.0),
    0.1,
    _ROCKSDB,
    "Part of a slot's RocksDB memory for index and filter blocks; only the default is supported.",
)
BLOCK_CACHE_SIZE: Final = Option(
    "state.backend.rocksdb.block.cache-size",
    optional(MEMORY),
    None,
    _ROCKSDB,
    "Size of the block cache when memory is not managed. Flink's 8mb is far too small, use 256mb "
    "or more.",
)
BLOCK_SIZE: Final = Option(
    "state.backend.rocksdb.block.blocksize",
    MEMORY,
    4 << 10,
    _ROCKSDB,
    "Approximate size of a data block.",
)
METADATA_BLOCK_SIZE: Final = Option(
    "state.backend.rocksdb.block.metadata-blocksize",
    MEMORY,
    4 << 10,
    _ROCKSDB,
    "Approximate size of a block of a partitioned index or filter.",
)
PARTITIONED_INDEX: Final = Option(
    "state.backend.rocksdb.memory.partitioned-index-filters",
    BOOLEAN,
    False,
    _ROCKSDB,
    "Split indexes and filters into blocks that are read one by one: for state much larger than "
    "its memory.",
)
WRITE_BUFFER_SIZE: Final = Option(
    "state.backend.rocksdb.writebuffer.size",
    MEMORY,
    64 * _MB,
    _ROCKSDB,
    "Size of one memtable. 128mb suits skewed keys; larger means more batching, more memory and a "
    "longer sync phase.",
)
WRITE_BUFFER_COUNT: Final = Option(
    "state.backend.rocksdb.writebuffer.count",
    integer(1),
    2,
    _ROCKSDB,
    "Memtables that may exist at once; 3 for write-heavy jobs.",
)
WRITE_BUFFER_MERGE: Final = Option(
    "state.backend.rocksdb.writebuffer.number-to-merge",
    integer(1),
    1,
    _ROCKSDB,
    "Memtables that are merged before they are written.",
)
COMPACTION_STYLE: Final = Option(
    "state.backend.rocksdb.compaction.style",
    enumeration(CompactionStyle),
    CompactionStyle.LEVEL,
    _ROCKSDB,
    "Compaction style.",
)
TARGET_FILE_SIZE: Final = Option(
    "state.backend.rocksdb.compaction.level.target-file-size-base",
    MEMORY,
    64 * _MB,
    _ROCKSDB,
    "Size of a file of level 1.",
)
LEVEL_BASE_SIZE: Final = Option(
    "state.backend.rocksdb.compaction.level.max-size-level-base",
    MEMORY,
    256 * _MB,
    _ROCKSDB,
    "Size of all files of level 1.",
)
DYNAMIC_LEVELS: Final = Option(
    "state.backend.rocksdb.compaction.level.use-dynamic-size",
    BOOLEAN,
    False,
    _ROCKSDB,
    "Let RocksDB choose the size of each level.",
)
COMPRESSION: Final = Option(
    "state.backend.rocksdb.compression.per.level",
    list_of(enumeration(Compression)),
    (Compression.LZ4,),
    _ROCKSDB,
    "Compression of each level, from level 0; the last one holds for all further levels. Flink's "
    "default is `SNAPPY_COMPRESSION`.",
)
WRITE_BATCH_SIZE: Final = Option(
    "state.backend.rocksdb.write-batch-size",
    MEMORY,
    2 * _MB,
    _ROCKSDB,
    "Rows that are written at once when the cache is flushed, at most; an eighth of the memtables' "
    "bound if that is less.",
)
WRITE_RATE: Final = Option(
    "headrace.state.rocksdb.write-rate",
    optional(MEMORY),
    None,
    _ROCKSDB,
    "Bytes a second that flushes and compactions of a slot's operator may write, so that they "
    "leave the disk to others. Not set: no bound.",
)
THREADS: Final = Option(
    "state.backend.rocksdb.thread.num",
    integer(1),
    2,
    _ROCKSDB,
    "Background flush and compaction threads of one database.",
)
OPEN_FILES: Final = Option(
    "state.backend.rocksdb.files.open",
    integer(-1),
    -1,
    _ROCKSDB,
    "Open files of one database, -1 for no bound.",
)
BLOOM_FILTER: Final = Option(
    "state.backend.rocksdb.use-bloom-filter",
    BOOLEAN,
    True,
    _ROCKSDB,
    "Bloom filters, so that reads of absent keys skip files. Flink's default is false.",
)
BLOOM_BLOCKS: Final = Option(
    "state.backend.rocksdb.bloom-filter.block-based-mode",
    BOOLEAN,
    False,
    _ROCKSDB,
    "Only `false`: RocksDB no longer has filters of single blocks.",
)
BLOOM_BITS: Final = Option(
    "state.backend.rocksdb.bloom-filter.bits-per-key",
    number(1.0, 64.0),
    10.0,
    _ROCKSDB,
    "Bits a key of a bloom filter.",
)
LOG_DIRECTORY: Final = Option(
    "state.backend.rocksdb.log.dir",
    optional(STRING),
    None,
    _ROCKSDB,
    "Directory of RocksDB's own info logs. Not set: beside the database.",
)
LOG_FILES: Final = Option(
    "state.backend.rocksdb.log.file-num",
    integer(1),
    4,
    _ROCKSDB,
    "Info logs that are kept.",
)
LOG_FILE_SIZE: Final = Option(
    "state.backend.rocksdb.log.max-file-size",
    MEMORY,
    1 * _MB,
    _ROCKSDB,
    "Size at which an info log is closed. Flink's default is 25mb.",
)
PREDEFINED: Final = Option(
    "state.backend.rocksdb.predefined-options",
    enumeration(PredefinedOptions),
    PredefinedOptions.DEFAULT,
    _ROCKSDB,
    "Flink's set of options for a kind of disk; options that are set win over it.",
)
OPTIONS_FACTORY: Final = Option(
    "state.backend.rocksdb.options-factory",
    optional(STRING),
    None,
    _ROCKSDB,
    "A function as `module:name`, in the runtime image, that is called with the "
    "`rocksdict.Options` of every database and column family and may change them. Memory bounds "
    "are its own business then.",
)
LOG_LEVEL: Final = Option(
    "state.backend.rocksdb.log.level",
    enumeration(RocksDBLogLevel),
    RocksDBLogLevel.INFO,
    _ROCKSDB,
    "Level of RocksDB's own info log; only the default is supported.",
)
TRANSFER_THREADS: Final = Option(
    "state.backend.rocksdb.checkpoint.transfer.thread.num",
    integer(1, 64),
    4,
    _ROCKSDB,
    "Files that a slot uploads or downloads at once.",
)
LOCAL_DIRECTORY: Final = Option(
    "state.backend.rocksdb.localdir",
    optional(STRING),
    None,
    _ROCKSDB,
    "Local directory of working state; a fast disk. Not set: the pod's local volume.",
)

OPTIONS: Final = (
    BACKEND,
    CACHE_SIZE,
    MANAGED,
    FIXED_PER_SLOT,
    WRITE_BUFFER_RATIO,
    HIGH_PRIORITY_RATIO,
    BLOCK_CACHE_SIZE,
    BLOCK_SIZE,
    METADATA_BLOCK_SIZE,
    PARTITIONED_INDEX,
    WRITE_BUFFER_SIZE,
    WRITE_BUFFER_COUNT,
    WRITE_BUFFER_MERGE,
    COMPACTION_STYLE,
    TARGET_FILE_SIZE,
    LEVEL_BASE_SIZE,
    DYNAMIC_LEVELS,
    COMPRESSION,
    WRITE_BATCH_SIZE,
    WRITE_RATE,
    THREADS,
    OPEN_FILES,
    BLOOM_FILTER,
    BLOOM_BLOCKS,
    BLOOM_BITS,
    LOG_DIRECTORY,
    LOG_FILES,
    LOG_FILE_SIZE,
    LOG_LEVEL,
    PREDEFINED,
    OPTIONS_FACTORY,
    TRANSFER_THREADS,
    LOCAL_DIRECTORY,
)
