"""The snapshot file of the in-memory backend: all rows of one state, in the common layout.

::

    "HRROWS01" <name length:u16> <name:utf-8>
    ( <row length:u32> <row> <value length:u32> <value> )*      sorted by row
    ff ff ff ff <number of rows:u64>

All numbers are big-endian. The trailer tells a complete file from a cut one. The format is stored
in checkpoints: golden-tested, never changed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headrace.errors import CorruptStateError, LocalStorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

MAGIC: Final = b"HRROWS01"
SUFFIX: Final = ".rows"

_U16: Final = struct.Struct(">H")
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")
_END: Final = 0xFFFFFFFF

_HEADER_BYTES_MAX: Final = len(MAGIC) + _U16.size + 0xFFFF


def write_row_file(path: Path, name: str, rows: Iterable[tuple[bytes, bytes]]) -> int:
    """Write the rows of state ``name`` and return the file's size in bytes.

    Args:
        path: must not exist.
        name: the state.
        rows: sorted by row.

    Raises:
        LocalStorageError: the file cannot be written.
    """
    encoded = name.encode()
    count = 0
    try:
        with path.open("xb") as file:
            file.write(MAGIC + _U16.pack(len(encoded)) + encoded)
            for row, value in rows:
                file.write(_U32.pack(len(row)) + row + _U32.pack(len(value)) + value)
                count += 1
            file.write(_U32.pack(_END) + _U64.pack(count))
            return file.tell()
    except OSError as error:
        msg = f"freezing state failed: {error.strerror}; file={path}"
        raise LocalStorageError(msg) from error


def read_state_name(path: Path) -> str:
    """Return which state a file has the rows of, without reading them.

    Raises:
        CorruptStateError: the file is missing or of another format.
    """
    try:
        with path.open("rb") as file:
            return _parse_header(path, file.read(_HEADER_BYTES_MAX))[0]
    except OSError as error:
        raise _corrupt(path, error.strerror or "unreadable") from error


def read_row_file(path: Path) -> tuple[str, Iterator[tuple[bytes, bytes]]]:
    """Return the state's name and its rows.

    Raises:
        CorruptStateError: the file is missing, cut or of another format (also while iterating).
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _corrupt(path, error.strerror or "unreadable") from error
    name, start = _parse_header(path, data)
    return name, _rows(path, data, start)


def _parse_header(path: Path, data: bytes) -> tuple[str, int]:
    """Return the state's name and where its rows begin."""
    if not data.startswith(MAGIC):
        raise _corrupt(path, "not a file of rows")
    try:
        (length,) = _U16.unpack_from(data, len(MAGIC))
        start = len(MAGIC) + _U16.size + length
        return data[len(MAGIC) + _U16.size : start].decode(), start
    except (struct.error, UnicodeDecodeError) as error:
        raise _corrupt(path, "no header") from error


def _rows(path: Path, data: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    count = 0
    try:
        while True:
            (length,) = _U32.unpack_from(data, at)
            at += _U32.size
            if length == _END:
                break
            row = data[at : at + length]
            at += length
            (size,) = _U32.unpack_from(data, at)
            at += _U32.size
            value = data[at : at + size]
            at += size
            count += 1
            yield row, value
        (expected,) = _U64.unpack_from(data, at)
    except struct.error as error:
        raise _corrupt(path, "cut short") from error
    if expected != count or at + _U64.size != len(data):
        raise _corrupt(path, "cut short")


def _corrupt(path: Path, reason: str) -> CorruptStateError:
    msg = f"stored state cannot be read, restore another checkpoint: {reason}; file={path}"
    return CorruptStateError(msg)
