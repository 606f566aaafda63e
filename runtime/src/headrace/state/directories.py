"""Names of the local directories of keyed state, as Flink's RocksDB backend (C8, T22).

::

    job_<job id>_op_<operator class>_<murmur3_128(uid)>__<index>_<parallelism>__uuid_<uuid>/db

``index`` counts from 1. The operator's uid enters as the 32 hexadecimal digits of its hash (seed 0,
as Guava prints it), which is also Flink's operator id. A fresh uuid in each name keeps a slot
process that is still dying away from the files, and so from the RocksDB lock, of its successor.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.ids import JobId, OperatorUid

DB_DIRECTORY: Final = "db"
"""Below the working directory; holds RocksDB's own files."""

_MASK: Final = (1 << 64) - 1
_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F


def working_directory(
    job_id: JobId, operator_class: str, uid: OperatorUid, slot: int, parallelism: int
) -> str:
    """Return the name of a new working directory of one operator in one slot.

    Args:
        job_id: the job.
        operator_class: class name of the operator's function.
        uid: the operator's uid.
        slot: 0-based slot index.
        parallelism: number of slots.
    """
    instance = f"{slot + 1}_{parallelism}__uuid_{uuid.uuid4()}"
    return f"job_{job_id}_op_{operator_class}_{operator_id(uid)}__{instance}"


def operator_id(uid: str) -> str:
    """Return Flink's operator id of a uid: murmur3_128 with seed 0, 32 hexadecimal digits."""
    return murmur3_128(uid.encode()).hex()


def murmur3_128(data: bytes) -> bytes:
    """Return MurmurHash3 x64 128 (Appleby, 2011) of ``data`` with seed 0, as Guava writes it."""
    h1 = h2 = 0
    blocks = len(data) // 16
    for index in range(blocks):
        k1 = int.from_bytes(data[16 * index : 16 * index + 8], "little")
        k2 = int.from_bytes(data[16 * index + 8 : 16 * index + 16], "little")
        h1 ^= _mix_k1(k1)
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _mix_k2(k2)
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[16 * blocks :]
    h2 ^= _mix_k2(int.from_bytes(tail[8:], "little"))
    h1 ^= _mix_k1(int.from_bytes(tail[:8], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return h1.to_bytes(8, "little") + h2.to_bytes(8, "little")


def _rotate(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _mix_k1(k1: int) -> int:
    return _rotate(k1 * _C1 & _MASK, 31) * _C2 & _MASK


def _mix_k2(k2: int) -> int:
    return _rotate(k2 * _C2 & _MASK, 33) * _C1 & _MASK


def _finish(value: int) -> int:
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & _MASK
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & _MASK
    return value ^ value >> 33
