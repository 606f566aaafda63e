"""Framing of the data channel between pump and slot, over a Unix or a TCP socket.

::

    frame = <type:u8> <length:u32 LE> <body>

    pump -> slot   HELLO   msgpack(Hello)
    slot -> pump   READY   empty                      or ERROR msgpack(ErrorInfo)
    pump -> slot   CHUNK   <chunk bytes>              any number, see headrace.slot.chunk
    pump -> slot   END     msgpack(EpochEnd)
    slot -> pump   OUT     <slot:u16 LE> <chunk>      any number, at any time after READY
    slot -> pump   RESULT  msgpack(EpochResult)       or ERROR msgpack(ErrorInfo)

Chunks are processed as they arrive, not after the last one (DESIGN 3b), and are never parsed by the
pump. A connection that ends before RESULT has aborted the epoch: the slot waits for a Restore.
"""

from __future__ import annotations

import enum
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import socket

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""Longest body that is accepted; chunks are cut far below it."""

_HEADER: Final = struct.Struct("<BI")


class FrameType(enum.IntEnum):
    """First byte of a frame."""

    HELLO = 1
    READY = 2
    CHUNK = 3
    END = 4
    OUT = 5
    RESULT = 6
    ERROR = 7


def send_frame(sock: socket.socket, kind: FrameType, *parts: bytes | memoryview) -> None:
    """Send one frame whose body is the concatenation of ``parts``; blocks until it is sent."""
    length = sum(len(part) for part in parts)
    if length > FRAME_BYTES_MAX:
        msg = f"frame is too long; type={kind.name} length={length} max={FRAME_BYTES_MAX}"
        raise ValueError(msg)
    sock.sendall(_HEADER.pack(kind, length))
    for part in parts:
        sock.sendall(part)


class FrameReader:
    """Reads frames of one socket through a buffered file; one reader a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._file = sock.makefile("rb", buffering=1 << 20)

    def read(self) -> tuple[FrameType, bytes]:
        """Return the next frame.

        Raises:
            EOFError: the peer closed the connection, between or inside frames.
            ValueError: what came is not a frame of this protocol.
        """
        header = self._read_exactly(_HEADER.size)
        kind, length = _HEADER.unpack(header)
        if length > FRAME_BYTES_MAX:
            msg = f"frame is too long; type={kind} length={length} max={FRAME_BYTES_MAX}"
            raise ValueError(msg)
        return FrameType(kind), self._read_exactly(length)

    def _read_exactly(self, length: int) -> bytes:
        data: bytes = self._file.read(length)
        if len(data) != length:
            raise EOFError
        return data
