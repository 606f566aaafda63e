"""Format of a spool of opaque records, for sinks that publish them later (golden-tested).

::

    file    = header block*
    header  = "HRSP" | version:u8 | size:u32 | json[size] | xxh3_64(json):u64
    block   = size:u32 | records:u32 | xxh3_64(payload):u64 | payload[size]
    payload = msgpack array of bin

Integers are big-endian. The JSON is a `SpoolHeader`: job, sink and spool that the records belong
to, and whatever the connector needs to publish them, so that a spool can be published by a process
that knows nothing else (after a rescale, by a changed program, for another job's checkpoint).

A file does not say where it ends: its length and checksum stand in the checkpoint. JDBC and sinks
of users write it through `headrace.connectors.spooling`; Kafka's spool has a format of its own,
because its records have parts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import xxhash

from headrace.connectors.sink import SpoolFile
from headrace.errors import CorruptStateError, StorageUnavailableError
from headrace.ids import JobId, OperatorUid

SPOOL_VERSION: Final = 1
BLOCK_RECORDS_MAX: Final = 4096
BLOCK_BYTES_TARGET: Final = 1 << 20
"""A block is closed by the first record that reaches either bound; it is the unit of memory."""

_MAGIC: Final = b"HRSP"
_HEADER_PREFIX: Final = struct.Struct(">4sBI")
_HEADER_CHECKSUM: Final = struct.Struct(">Q")
_BLOCK_PREFIX: Final = struct.Struct(">IIQ")
_RECORD_OVERHEAD_BYTES: Final = 5  # without it, empty records would never fill a block
_BLOCK_DECODER: Final = msgspec.msgpack.Decoder(list[bytes])
_BLOCK_ENCODER: Final = msgspec.msgpack.Encoder()


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


class RecordSpoolWriter:
    """Appends records to one new file; not thread-safe.

    Every method raises StorageUnavailableError when the local disk refuses.
    """

    def __init__(self, path: Path, header: SpoolHeader) -> None:
        """Create the file and write its header; an existing file is an error."""
        self._path = path
        self._checksum = xxhash.xxh3_128()
        self._block: list[bytes] = []
        self._block_bytes = 0
        self.size_bytes = 0
        try:
            self._file: BinaryIO = path.open("xb")
        except OSError as error:
            raise _disk_error(path, error) from error
        data = msgspec.json.encode(header)
        self._append(_HEADER_PREFIX.pack(_MAGIC, SPOOL_VERSION, len(data)))
        self._append(data)
        self._append(_HEADER_CHECKSUM.pack(xxhash.xxh3_64_intdigest(data)))

    def append(self, record: bytes) -> None:
        """Add one record."""
        self._block.append(record)
        self._block_bytes += _RECORD_OVERHEAD_BYTES + len(record)
        if self._block_bytes >= BLOCK_BYTES_TARGET or len(self._block) >= BLOCK_RECORDS_MAX:
            self._end_block()

    def seal(self) -> SpoolFile:
        """Write what is buffered and close the file; it never changes again."""
        self._end_block()
        try:
            self._file.close()
        except OSError as error:
            raise _disk_error(self._path, error) from error
        return SpoolFile(self._path, self.size_bytes, self._checksum.hexdigest())

    def discard(self) -> None:
        """Close and delete the unfinished file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _end_block(self) -> None:
        if self._block:
            payload = _BLOCK_ENCODER.encode(self._block)
            checksum = xxhash.xxh3_64_intdigest(payload)
            self._append(_BLOCK_PREFIX.pack(len(payload), len(self._block), checksum))
            self._append(payload)
            self._block = []
            self._block_bytes = 0

    def _append(self, data: bytes) -> None:
        try:
            self._file.write(data)
        except OSError as error:
            raise _disk_error(self._path, error) from error
        self._checksum.update(data)
        self.size_bytes += len(data)


def read_spool_header(path: Path) -> SpoolHeader:
    """Return the header of a spool file.

    Raises:
        CorruptStateError: not such a file, or of a version that is not known.
    """
    with path.open("rb") as file:
        return _read_header(file, path)


def read_spool_blocks(path: Path) -> Iterator[list[bytes]]:
    """Yield the blocks of a spool file in order; at most one is in memory.

    Raises:
        CorruptStateError: a checksum, length or count does not hold.
    """
    with path.open("rb") as file:
        _read_header(file, path)
        while prefix := file.read(_BLOCK_PREFIX.size):
            if len(prefix) != _BLOCK_PREFIX.size:
                raise _corrupt(path, "cut off in a block prefix")
            size, count, checksum = _BLOCK_PREFIX.unpack(prefix)
            payload = file.read(size)
            if len(payload) != size or xxhash.xxh3_64_intdigest(payload) != checksum:
                raise _corrupt(path, "block checksum does not hold")
            try:
                records = _BLOCK_DECODER.decode(payload)
            except msgspec.MsgspecError as error:
                raise _corrupt(path, "block cannot be decoded") from error
            if len(records) != count:
                raise _corrupt(path, "block holds another number of records")
            yield records


def _read_header(file: BinaryIO, path: Path) -> SpoolHeader:
    prefix = file.read(_HEADER_PREFIX.size)
    if len(prefix) != _HEADER_PREFIX.size:
        raise _corrupt(path, "cut off in the header")
    magic, version, size = _HEADER_PREFIX.unpack(prefix)
    if magic != _MAGIC:
        raise _corrupt(path, "not a spool of records")
    if version != SPOOL_VERSION:
        raise _corrupt(path, f"written by another release, spool version {version}")
    data = file.read(size)
    if file.read(_HEADER_CHECKSUM.size) != _HEADER_CHECKSUM.pack(xxhash.xxh3_64_intdigest(data)):
        raise _corrupt(path, "header checksum does not hold")
    try:
        return msgspec.json.decode(data, type=SpoolHeader)
    except msgspec.MsgspecError as error:
        raise _corrupt(path, "header cannot be decoded") from error


def _corrupt(path: Path, why: str) -> CorruptStateError:
    return CorruptStateError(
        f"a spool file cannot be read, restore its checkpoint again: {why}; path={path}"
    )


def _disk_error(path: Path, error: OSError) -> StorageUnavailableError:
    msg = f"the local disk refused a spool file, look at its free space; path={path} cause={error}"
    return StorageUnavailableError(msg)
