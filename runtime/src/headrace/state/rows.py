"""Layout of stored rows; the one place that knows it (C5, C6, T9; docs/state-format.md).

State::   <key_group:u16> <key length:u32> <key> <namespace length:u16> <namespace> [<user key>]
Timer::   <key_group:u16> <timestamp_ms + 2^63:u64> <key length:u32> <key>
          <namespace length:u16> <namespace>

All numbers are big-endian, so rows sort by key group first (a key-group range is one contiguous
range of rows) and timers of a key group by time. Each state has its own row store, so the state's
name is not part of a row. The format is stored in checkpoints: golden-tested, never changed.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from headrace.errors import CorruptStateError

if TYPE_CHECKING:
    from headrace.keygroups import KeyGroupRange

_STATE_HEAD: Final = struct.Struct(">HI")
_TIMER_HEAD: Final = struct.Struct(">HQI")
_U16: Final = struct.Struct(">H")
_TIME: Final = struct.Struct(">Q")

_TIME_OFFSET: Final = 1 << 63
"""Turns a signed time into an unsigned one that sorts alike."""

NO_NAMESPACE: Final = b"\x00\x00"

END_OF_ROWS: Final = b"\xff\xff"
"""Behind every row: key groups end at 0x7fff."""


def state_row(key_group: int, key: bytes) -> bytes:
    """Return the row of a key's state without namespace."""
    return _STATE_HEAD.pack(key_group, len(key)) + key + NO_NAMESPACE


def parse_state_row(row: bytes) -> tuple[int, bytes, bytes, bytes]:
    """Return key group, key, namespace and user key of a state's row.

    Raises:
        CorruptStateError: not such a row.
    """
    try:
        key_group, key_length = _STATE_HEAD.unpack_from(row)
        key_end = _STATE_HEAD.size + key_length
        (namespace_length,) = _U16.unpack_from(row, key_end)
    except struct.error as error:
        msg = f"a row of state is too short; row={row.hex()}"
        raise CorruptStateError(msg) from error
    namespace_end = key_end + _U16.size + namespace_length
    if namespace_end > len(row):
        msg = f"a row of state is too short; row={row.hex()}"
        raise CorruptStateError(msg)
    key = row[_STATE_HEAD.size : key_end]
    return key_group, key, row[key_end + _U16.size : namespace_end], row[namespace_end:]


def timer_row(key_group: int, timestamp_ms: int, key: bytes) -> bytes:
    """Return the row of a timer without namespace; its value is empty."""
    return _TIMER_HEAD.pack(key_group, timestamp_ms + _TIME_OFFSET, len(key)) + key + NO_NAMESPACE


def sort_time(timestamp_ms: int) -> bytes:
    """Return a time as rows hold it: eight bytes that sort as times do.

    Raises:
        struct.error: the time does not fit 64 bits.
    """
    return _TIME.pack(timestamp_ms + _TIME_OFFSET)


def sort_time_of(row: bytes) -> bytes:
    """Return the time of a timer's row as `sort_time` would."""
    return row[2:10]


def parse_timer_row(row: bytes) -> tuple[int, int, bytes]:
    """Return key group, timestamp in ms and key of a timer's row.

    Raises:
        CorruptStateError: not such a row.
    """
    try:
        key_group, time, key_length = _TIMER_HEAD.unpack_from(row)
    except struct.error as error:
        msg = f"a row of a timer is too short; row={row.hex()}"
        raise CorruptStateError(msg) from error
    key = row[_TIMER_HEAD.size : _TIMER_HEAD.size + key_length]
    if len(row) != _TIMER_HEAD.size + key_length + len(NO_NAMESPACE):
        msg = f"a row of a timer has the wrong length; row={row.hex()}"
        raise CorruptStateError(msg)
    return key_group, time - _TIME_OFFSET, key


def key_group_of(row: bytes) -> int:
    """Return the key group of any row."""
    return int.from_bytes(row[:2], "big")


def rows_of_range(key_groups: KeyGroupRange) -> tuple[bytes, bytes]:
    """Return where the rows of a key-group range start (inclusive) and end (exclusive)."""
    return _U16.pack(key_groups.start), _U16.pack(key_groups.end + 1)
