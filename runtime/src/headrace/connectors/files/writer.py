"""First phase of the file sink: rows go to local files that are published as they are."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import xxhash

from headrace.connectors.files.target import TARGET_SUFFIX, PartNaming, encode_target
from headrace.connectors.sink import PendingSpool, SpoolFile
from headrace.errors import StorageUnavailableError, UserCodeError
from headrace.ids import CheckpointId

PART_BYTES_MAX: Final = 256 << 20
"""A longer part goes on in a new file; readers split work by files."""

_BUFFER_BYTES: Final = 1 << 20
_NEWLINE: Final = b"\n"
_TRACEBACK_CHARS_MAX: Final = 4000


class RowEncoder(Protocol):
    """How a value becomes the bytes of one line, without its end."""

    def serialize(self, value: object) -> bytes:
        """Return the line."""
        ...


class _Part:
    """One local file under construction."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_bytes = 0
        self._checksum = xxhash.xxh3_128()
        self._file: BinaryIO = path.open("xb", buffering=0)
        self._buffer = bytearray()

    def append(self, line: bytes) -> None:
        buffer = self._buffer
        buffer += line
        buffer += _NEWLINE
        self.size_bytes += len(line) + 1
        if len(buffer) >= _BUFFER_BYTES:
            self._flush()

    def seal(self) -> SpoolFile:
        self._flush()
        self._file.close()
        return SpoolFile(self.path, self.size_bytes, self._checksum.hexdigest())

    def discard(self) -> None:
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _flush(self) -> None:
        data = bytes(self._buffer)
        self._buffer.clear()
        self._checksum.update(data)
        written = 0
        while written < len(data):
            written += self._file.write(data[written:])


class FileWriter:
    """`headrace.connectors.sink.SinkWriter` of the file sink in one slot."""

    def __init__(self, naming: PartNaming, encoder: RowEncoder, directory: Path) -> None:
        self._naming = naming
        self._encode = encoder.serialize
        self._directory = directory
        self._number = 0
        self._part: _Part | None = None
        self._sealed: list[SpoolFile] = []
        self._records = 0

    def write(self, value: object, timestamp_ms: int | None) -> None:  # noqa: ARG002 - the contract
        """See `SinkWriter.write`."""
        try:
            line = self._encode(value)
        except Exception as error:
            msg = f"the encoder of a file sink failed; error={type(error).__name__}: {error}"
            text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARS_MAX:]
            raise UserCodeError(msg, traceback_text=text) from error
        if _NEWLINE in line:
            msg = (
                "an encoder of a file sink returned more than one line, readers would see several "
                f"rows: encode line ends; line={line[:120]!r}"
            )
            raise UserCodeError(msg)
        try:
            self._current().append(line)
        except OSError as error:
            raise self._disk_error(error) from error
        self._records += 1

    def flush_epoch(self) -> None:
        """Nothing to do: rows are written by size."""

    def prepare_commit(self, checkpoint_id: CheckpointId) -> PendingSpool:
        """See `SinkWriter.prepare_commit`; the first file says where the others go."""
        try:
            self._seal_part()
            files = self._sealed
            if files:
                target = self._naming.target(checkpoint_id, len(files), self._records)
                path = self._directory / f"{self._number:08d}{TARGET_SUFFIX}"
                self._number += 1
                data = encode_target(target)
                path.write_bytes(data)
                digest = xxhash.xxh3_128_hexdigest(data)
                files = [SpoolFile(path, len(data), digest), *files]
        except OSError as error:
            raise self._disk_error(error) from error
        naming = self._naming
        pending = PendingSpool(
            naming.operator_uid, naming.spool_id, checkpoint_id, tuple(files), self._records
        )
        self._sealed = []
        self._records = 0
        return pending

    def close(self) -> None:
        """Delete what is not sealed under a checkpoint."""
        if self._part is not None:
            self._part.discard()
            self._part = None
        for file in self._sealed:
            file.path.unlink(missing_ok=True)
        self._sealed = []

    def _current(self) -> _Part:
        if self._part is not None and self._part.size_bytes >= PART_BYTES_MAX:
            self._seal_part()
        if self._part is None:
            self._part = _Part(self._directory / f"{self._number:08d}.part")
            self._number += 1
        return self._part

    def _seal_part(self) -> None:
        if self._part is not None:
            self._sealed.append(self._part.seal())
            self._part = None

    def _disk_error(self, error: OSError) -> StorageUnavailableError:
        msg = (
            "the local disk refused a spool file, look at its free space; "
            f"directory={self._directory} cause={error}"
        )
        return StorageUnavailableError(msg)
