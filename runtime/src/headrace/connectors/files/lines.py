"""Text files of one row a line, such as JSON lines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol

import xxhash

from headrace.connectors.sink import SpoolFile
from headrace.errors import UserCodeError

_BUFFER_BYTES: Final = 1 << 20
_NEWLINE: Final = b"\n"


class RowEncoder(Protocol):
    """How a value becomes the bytes of one line, without its end."""

    def serialize(self, value: object) -> bytes:
        """Return the line."""
        ...


@dataclass(frozen=True, slots=True)
class LineFormat:
    """Every value is a line; a `headrace.connectors.files.writer.FileFormat`."""

    encoder: RowEncoder

    def create_part(self, path: Path) -> LinePart:
        """Create a file."""
        return LinePart(path, self.encoder)


class LinePart:
    """One file under construction."""

    def __init__(self, path: Path, encoder: RowEncoder) -> None:
        self._path = path
        self._encode = encoder.serialize
        self.size_bytes = 0
        self._checksum = xxhash.xxh3_128()
        self._file: BinaryIO = path.open("xb", buffering=0)
        self._buffer = bytearray()

    def append(self, value: object) -> None:
        """Add a line."""
        line = self._encode(value)
        if _NEWLINE in line:
            msg = (
                "an encoder of a file sink returned more than one line, readers would see several "
                f"rows: encode line ends; line={line[:120]!r}"
            )
            raise UserCodeError(msg)
        buffer = self._buffer
        buffer += line
        buffer += _NEWLINE
        self.size_bytes += len(line) + 1
        if len(buffer) >= _BUFFER_BYTES:
            self._flush()

    def seal(self) -> SpoolFile:
        """Finish the file; it never changes again."""
        self._flush()
        self._file.close()
        return SpoolFile(self._path, self.size_bytes, self._checksum.hexdigest())

    def discard(self) -> None:
        """Delete the file."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        data = bytes(self._buffer)
        self._buffer.clear()
        self._checksum.update(data)
        written = 0
        while written < len(data):
            written += self._file.write(data[written:])
