"""What spool files have in common: a header, then checksummed blocks of records (golden-tested).

::

    file    = header block*
    header  = magic[4] | version:u8 | size:u32 | json[size] | xxh3_64(json):u64
    block   = size:u32 | records:u32 | xxh3_64(payload):u64 | payload[size]
    payload = msgpack array of records

Integers are big-endian. The JSON says whose records these are and how they are published, so that a
process that knows nothing else can do it (after a rescale, by a changed program, for another job's
checkpoint). A file does not say where it ends: its length and checksum stand in the checkpoint.

`headrace.connectors.record_spool` (opaque records) and `headrace.connectors.kafka.spool` are the
two formats; what they add is their magic, their header and what a record is.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Generic, TypeVar

import msgspec
import xxhash

from headrace.connectors.sink import SpoolFile
from headrace.errors import CorruptStateError, StorageUnavailableError

BLOCK_RECORDS_MAX: Final = 4096
BLOCK_BYTES_TARGET: Final = 1 << 20
"""A block is closed by the first record that reaches either bound; it is the unit of memory."""

HeaderT = TypeVar("HeaderT", bound=msgspec.Struct)
RecordT = TypeVar("RecordT")

_HEADER_PREFIX: Final = struct.Struct(">4sBI")
_HEADER_CHECKSUM: Final = struct.Struct(">Q")
_BLOCK_PREFIX: Final = struct.Struct(">IIQ")
_BLOCK_ENCODER: Final = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class SpoolFormat(Generic[HeaderT, RecordT]):
    """One kind of spool file.

    Attributes:
        magic: its first four bytes.
        version: the only one that is written and read.
        what: what it is called when another file is found in its place.
        header_type: what its JSON is.
        blocks: decodes the payload of a block.
    """

    magic: bytes
    version: int
    what: str
    header_type: type[HeaderT]
    blocks: msgspec.msgpack.Decoder[list[RecordT]]

    def encode_header(self, header: HeaderT) -> bytes:
        """Return the bytes that a file of this format begins with."""
        data = msgspec.json.encode(header)
        return (
            _HEADER_PREFIX.pack(self.magic, self.version, len(data))
            + data
            + _HEADER_CHECKSUM.pack(xxhash.xxh3_64_intdigest(data))
        )

    def read_header(self, path: Path) -> HeaderT:
        """Return the header of a file.

        Raises:
            CorruptStateError: not such a file, or of a version that is not known.
        """
        with path.open("rb") as file:
            return self._read_header(file, path)

    def read_blocks(self, path: Path) -> Iterator[list[RecordT]]:
        """Yield the blocks of a file in order; at most one is in memory.

        Raises:
            CorruptStateError: a checksum, length or count does not hold.
        """
        with path.open("rb") as file:
            self._read_header(file, path)
            while prefix := file.read(_BLOCK_PREFIX.size):
                if len(prefix) != _BLOCK_PREFIX.size:
                    raise _corrupt(path, "cut off in a block prefix")
                size, count, checksum = _BLOCK_PREFIX.unpack(prefix)
                payload = file.read(size)
                if len(payload) != size or xxhash.xxh3_64_intdigest(payload) != checksum:
                    raise _corrupt(path, "block checksum does not hold")
                try:
                    records = self.blocks.decode(payload)
                except msgspec.MsgspecError as error:
                    raise _corrupt(path, "block cannot be decoded") from error
                if len(records) != count:
                    raise _corrupt(path, "block holds another number of records")
                yield records

    def _read_header(self, file: BinaryIO, path: Path) -> HeaderT:
        prefix = file.read(_HEADER_PREFIX.size)
        if len(prefix) != _HEADER_PREFIX.size:
            raise _corrupt(path, "cut off in the header")
        magic, version, size = _HEADER_PREFIX.unpack(prefix)
        if magic != self.magic:
            raise _corrupt(path, f"not {self.what}")
        if version != self.version:
            raise _corrupt(path, f"written by another release, spool version {version}")
        data = file.read(size)
        checksum = file.read(_HEADER_CHECKSUM.size)
        if checksum != _HEADER_CHECKSUM.pack(xxhash.xxh3_64_intdigest(data)):
            raise _corrupt(path, "header checksum does not hold")
        try:
            return msgspec.json.decode(data, type=self.header_type)
        except msgspec.MsgspecError as error:
            raise _corrupt(path, "header cannot be decoded") from error


class SpoolWriter(Generic[RecordT]):
    """Appends blocks to one new file; not thread-safe.

    A format's own writer puts a record into ``_block``, adds its size to ``_block_bytes`` and calls
    ``_end_block`` at either bound: that is done once a record, so it is not done here.

    Every method raises StorageUnavailableError when the local disk refuses.
    """

    def __init__(self, path: Path, header: bytes) -> None:
        """Create the file and write its header; an existing file is an error."""
        self._path = path
        self._checksum = xxhash.xxh3_128()
        self._block: list[RecordT] = []
        self._block_bytes = 0
        self.size_bytes = 0
        try:
            self._file: BinaryIO = path.open("xb")
        except OSError as error:
            raise _disk_error(path, error) from error
        self._append(header)

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


def _corrupt(path: Path, why: str) -> CorruptStateError:
    return CorruptStateError(
        f"a spool file cannot be read, restore its checkpoint again: {why}; path={path}"
    )


def _disk_error(path: Path, error: OSError) -> StorageUnavailableError:
    msg = f"the local disk refused a spool file, look at its free space; path={path} cause={error}"
    return StorageUnavailableError(msg)
