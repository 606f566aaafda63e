"""Format of a Kafka spool file: records that wait for their checkpoint (golden-tested).

A `headrace.connectors.spool_file` with the magic ``HRKS`` and::

    record = [key|nil, value|nil, timestamp_ms (-1 = none), topic|nil, partition (-1 = by key),
              headers|nil]

Its header names the ledger and the transactional id, so a spool can be published after a changed
prefix too. A nil topic is the header's. The number of records stands in the committable; the
committer compares it before it commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from headrace.connectors.spool_file import (
    BLOCK_BYTES_TARGET,
    BLOCK_RECORDS_MAX,
    SpoolFormat,
    SpoolWriter,
)

SPOOL_VERSION: Final = 1

_RECORD_OVERHEAD_BYTES: Final = 16  # without it, empty values would never fill a block

RecordHeaders = list[tuple[str, bytes | None]]
SpoolRecord = tuple[bytes | None, bytes | None, int, str | None, int, RecordHeaders | None]
"""(key, value, timestamp in ms or -1, topic or None, partition or -1, headers or None)."""


class SpoolHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a spool is published and how that is proved.

    Attributes:
        topic: topic of records without one; its partition 0 carries the ledger.
        ledger_group: consumer group whose offset there is the last published checkpoint id.
        transactional_id: identity of the transactions that move the ledger.
    """

    topic: str
    ledger_group: str
    transactional_id: str


_FORMAT: Final = SpoolFormat(
    b"HRKS",
    SPOOL_VERSION,
    "a Kafka spool",
    SpoolHeader,
    msgspec.msgpack.Decoder(list[SpoolRecord]),
)


class SpoolFileWriter(SpoolWriter[SpoolRecord]):
    """Appends records to one new file; not thread-safe.

    Every method raises StorageUnavailableError when the local disk refuses.
    """

    def __init__(self, path: Path, header: SpoolHeader) -> None:
        """Create the file and write its header; an existing file is an error."""
        super().__init__(path, _FORMAT.encode_header(header))
        self.records = 0

    def append(self, record: SpoolRecord) -> None:
        """Add one record."""
        self._block.append(record)
        self.records += 1
        self._block_bytes += _RECORD_OVERHEAD_BYTES + len(record[0] or b"") + len(record[1] or b"")
        if self._block_bytes >= BLOCK_BYTES_TARGET or len(self._block) >= BLOCK_RECORDS_MAX:
            self._end_block()


def read_header(path: Path) -> SpoolHeader:
    """Return the header of a spool file.

    Raises:
        CorruptStateError: not a spool file, or of a version that is not known.
    """
    return _FORMAT.read_header(path)


def read_blocks(path: Path) -> Iterator[list[SpoolRecord]]:
    """Yield the blocks of a spool file in order; at most one is in memory.

    Raises:
        CorruptStateError: a checksum, length or count does not hold.
    """
    return _FORMAT.read_blocks(path)
