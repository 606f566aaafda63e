"""Layout of stored rows; the one place that knows it (C5, C6, T9; docs/state-format.md).

State::   <key_group:u16> <key length:u32> <key> <namespace length:u16> <namespace> [<user key>]
Timer::   <key_group:u16> <timestamp_ms + 2^63:u64> <key length:u32> <key>
          <namespace length:u16> <namespace>

The user key of a map's entry is its key's canonical bytes. A list has one row without user key and
chunks behind it with user keys ``<index:u32>`` (`headrace.state.list_rows`). Value, reducing and
aggregating state have no user key. A window's namespace is ``<start + 2^63:u64><end + 2^63:u64>``.

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

_WINDOW: Final = struct.Struct(">QQ")

NO_NAMESPACE: Final = b"\x00\x00"

_LAST_BYTE: Final = 0xFF

END_OF_ROWS: Final = b"\xff\xff"
"""Behind every row: key groups end at 0x7fff."""


def state_row(key_group: int, key: bytes, namespace: bytes = b"") -> bytes:
    """Return the row of a key's state; a map's or list's rows begin with it.

    Raises:
        struct.error: the namespace is longer than 65,535 bytes.
    """
    if namespace:
        return _STATE_HEAD.pack(key_group, len(key)) + key + _U16.pack(len(namespace)) + namespace
    return _STATE_HEAD.pack(key_group, len(key)) + key + NO_NAMESPACE


def end_of_prefix(prefix: bytes) -> bytes:
    """Return the first row behind all that begin with ``prefix``, a result of `state_row`."""
    last = len(prefix) - 1
    while prefix[last] == _LAST_BYTE:
        last -= 1
    return prefix[:last] + bytes((prefix[last] + 1,))


def window_namespace(start_ms: int, end_ms: int) -> bytes:
    """Return the namespace of a window: windows sort by start, then by end, before 1970 too.

    Raises:
        struct.error: a time does not fit 64 bits.
    """
    return _WINDOW.pack(start_ms + _TIME_OFFSET, end_ms + _TIME_OFFSET)


def parse_window_namespace(namespace: bytes) -> tuple[int, int]:
    """Return start and end of a window in ms.

    Raises:
        CorruptStateError: not a window's namespace.
    """
    try:
        start, end = _WINDOW.unpack(namespace)
    except struct.error as error:
        msg = f"a namespace is not a window; namespace={namespace.hex()}"
        raise CorruptStateError(msg) from error
    return start - _TIME_OFFSET, end - _TIME_OFFSET


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


def timer_row(key_group: int, timestamp_ms: int, key: bytes, namespace: bytes = b"") -> bytes:
    """Return the row of a timer; its value is empty.

    Raises:
        struct.error: the namespace is longer than 65,535 bytes.
    """
    head = _TIMER_HEAD.pack(key_group, timestamp_ms + _TIME_OFFSET, len(key)) + key
    if namespace:
        return head + _U16.pack(len(namespace)) + namespace
    return head + NO_NAMESPACE


def sort_time(timestamp_ms: int) -> bytes:
    """Return a time as rows hold it: eight bytes that sort as times do.

    Raises:
        struct.error: the time does not fit 64 bits.
    """
    return _TIME.pack(timestamp_ms + _TIME_OFFSET)


def sort_time_of(row: bytes) -> bytes:
    """Return the time of a timer's row as `sort_time` would."""
    return row[2:10]


def parse_timer_row(row: bytes) -> tuple[int, int, bytes, bytes]:
    """Return key group, timestamp in ms, key and namespace of a timer's row.

    Raises:
        CorruptStateError: not such a row.
    """
    try:
        key_group, time, key_length = _TIMER_HEAD.unpack_from(row)
        key_end = _TIMER_HEAD.size + key_length
        (namespace_length,) = _U16.unpack_from(row, key_end)
    except struct.error as error:
        msg = f"a row of a timer is too short; row={row.hex()}"
        raise CorruptStateError(msg) from error
    namespace = row[key_end + _U16.size :]
    if len(namespace) != namespace_length:
        msg = f"a row of a timer has the wrong length; row={row.hex()}"
        raise CorruptStateError(msg)
    return key_group, time - _TIME_OFFSET, row[_TIMER_HEAD.size : key_end], namespace


def parse_sort_time(data: bytes) -> int:
    """Return the time of the first eight bytes of ``data``.

    Raises:
        struct.error: there are fewer.
    """
    time: int = _TIME.unpack_from(data)[0]
    return time - _TIME_OFFSET


def key_group_of(row: bytes) -> int:
    """Return the key group of any row."""
    return int.from_bytes(row[:2], "big")


def rows_of_range(key_groups: KeyGroupRange) -> tuple[bytes, bytes]:
    """Return where the rows of a key-group range start (inclusive) and end (exclusive)."""
    return _U16.pack(key_groups.start), _U16.pack(key_groups.end + 1)
