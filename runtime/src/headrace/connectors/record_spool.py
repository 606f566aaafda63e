"""Format of a spool of opaque records, for sinks that publish them later (golden-tested).

A `headrace.connectors.spool_file` with the magic ``HRSP`` whose records are msgpack ``bin``. Its
header names job, sink and spool that the records belong to, and whatever the connector needs to
publish them.

JDBC and sinks of users write it through `headrace.connectors.spooling`; Kafka's spool has a format
of its own, because its records have parts.
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
from headrace.ids import JobId, OperatorUid

SPOOL_VERSION: Final = 1

_RECORD_OVERHEAD_BYTES: Final = 5  # without it, empty records would never fill a block


class SpoolHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whose records these are.

    Attributes:
        job_id: job that wrote them; another job may publish them from its checkpoint.
        operator_uid: the sink.
        spool_id: the sink's instance, e.g. ``slot-0003``.
        extra: the connector's own description of where and how they are published.
    """

    job_id: JobId
    operator_uid: OperatorUid
    spool_id: str
    extra: bytes = b""


_FORMAT: Final = SpoolFormat(
    b"HRSP",
    SPOOL_VERSION,
    "a spool of records",
    SpoolHeader,
    msgspec.msgpack.Decoder(list[bytes]),
)


class RecordSpoolWriter(SpoolWriter[bytes]):
    """Appends records to one new file; not thread-safe.

    Every method raises StorageUnavailableError when the local disk refuses.
    """

    def __init__(self, path: Path, header: SpoolHeader) -> None:
        """Create the file and write its header; an existing file is an error."""
        super().__init__(path, _FORMAT.encode_header(header))

    def append(self, record: bytes) -> None:
        """Add one record."""
        self._block.append(record)
        self._block_bytes += _RECORD_OVERHEAD_BYTES + len(record)
        if self._block_bytes >= BLOCK_BYTES_TARGET or len(self._block) >= BLOCK_RECORDS_MAX:
            self._end_block()


def read_spool_header(path: Path) -> SpoolHeader:
    """Return the header of a spool file.

    Raises:
        CorruptStateError: not such a file, or of a version that is not known.
    """
    return _FORMAT.read_header(path)


def read_spool_blocks(path: Path) -> Iterator[list[bytes]]:
    """Yield the blocks of a spool file in order; at most one is in memory.

    Raises:
        CorruptStateError: a checksum, length or count does not hold.
    """
    return _FORMAT.read_blocks(path)
