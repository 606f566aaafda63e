"""Serializers of scalar keys: canonical bytes, and Spark's hash.

Bytes of a declared key (stored format, golden-tested; see docs/state-format.md)::

    STRING            <utf-8>
    BYTES             <bytes>
    BOOLEAN           00 | 01
    BYTE..LONG        <value + 2^63 : u64 BE>     one form for all widths, so that keys may widen
    FLOAT, DOUBLE     <ieee754:8 BE>, all bits flipped if negative, else the sign bit;
                      a FLOAT is rounded to 32 bits first, -0.0 is 0.0, there is one NaN
    everything else   type-tagged bytes, see `headrace.serialization.canonical_keys`

Numbers sort by value as bytes. `hash64` equals Spark's ``xxhash64`` (T10): one function in SQL,
in the JVM and here, so that rows and state can never disagree on the owner of a key.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import numpy as np
import xxhash

from headrace.errors import CorruptStateError
from headrace.keygroups import KEY_HASH_SEED
from headrace.serialization import canonical, canonical_values
from headrace.serialization.compatibility import Compatibility, Verdict, of_value
from headrace.serialization.described import describe, parse
from headrace.serialization.type_text import type_text
from headrace.serialization.types import INTEGER_BITS, ScalarKind, ScalarType

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from headrace.serialization.types import TypeDescription

T = TypeVar("T")

CODEC: Final = "key/1"
"""Name of this module's byte format in stored snapshots."""

UNDECLARED: Final = "UNDECLARED"
UNDECLARED_TYPE: Final[dict[str, object]] = {"type": "undeclared"}
"""Stands for the type of keys that describe themselves."""

_KEY_BITS: Final = {kind.value: bits for kind, bits in INTEGER_BITS.items()}

_U64: Final = struct.Struct(">Q")
_F64: Final = struct.Struct(">d")
_LE_I64: Final = struct.Struct("<q")
_LE_F64: Final = struct.Struct("<d")
_LE_I32: Final = struct.Struct("<i")
_F32: Final = struct.Struct(">f")
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1
_EXACT_IN_DOUBLE: Final = 1 << 53


class DeclaredKeySerializer(Generic[T]):
    """What all key serializers share: identity, snapshot and compatibility."""

    immutable: Final = True
    cache_key_is_key = True

    def __init__(self, description: TypeDescription) -> None:
        self._description = description
        self._described = describe(description)
        self._snapshot: dict[str, object] = {"codec": CODEC, "type": self._described}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._description == self._description

    def __hash__(self) -> int:
        return hash(self._description)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._text()})"

    def snapshot(self) -> dict[str, object]:
        """Return codec and type."""
        return self._snapshot

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return whether keys stored under ``stored`` are found: as they are, or not at all.

        Keys decide where rows are, so they never migrate.
        """
        declared = self._text()
        if stored.get("codec") != CODEC:
            note = f"unknown key codec; stored={stored.get('codec')} declared={CODEC}"
            return of_value(Verdict.INCOMPATIBLE, str(stored.get("codec")), declared, note)
        described = stored.get("type")
        text = UNDECLARED if described == UNDECLARED_TYPE else type_text(parse(described))
        if described == self._described or self._shares_bytes_with(described):
            return of_value(Verdict.AS_IS, text, declared)
        note = f"key types do not evolve; stored={text} declared={declared}"
        return of_value(Verdict.INCOMPATIBLE, text, declared, note)

    def migration(self, _stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Keys never migrate; the function leaves bytes as they are."""
        return lambda data: data

    def _shares_bytes_with(self, stored: object) -> bool:
        """Whether a narrower type's keys have this one's bytes."""
        old = stored.get("type") if isinstance(stored, dict) else None
        new = self._described["type"]
        if old in _KEY_BITS and new in _KEY_BITS:
            return _KEY_BITS[str(old)] <= _KEY_BITS[str(new)]
        return (old, new) == ("float", "double")

    def _text(self) -> str:
        return type_text(self._description)

    def refuse(self, key: object) -> NoReturn:
        """Raise the TypeError that names declared type and the key's type."""
        msg = (
            "a key is not of its declared type; "
            f"declared={self._text()} type={type(key).__qualname__}"
        )
        raise TypeError(msg)

    def corrupt(self, data: bytes) -> NoReturn:
        """Raise the CorruptStateError of bytes that are no key of this type."""
        msg = f"key bytes are not of their type; type={self._described} length={len(data)}"
        raise CorruptStateError(msg)


class StringKeySerializer(DeclaredKeySerializer[str]):
    """STRING: UTF-8."""

    def __init__(self) -> None:
        super().__init__(ScalarType(ScalarKind.STRING))

    def coerce(self, value: object) -> str:
        """Accept str and its subclasses."""
        if type(value) is str:
            return value
        if isinstance(value, str):
            return str.__str__(value)
        return self.refuse(value)

    def serialize(self, value: str) -> bytes:
        """Return UTF-8; a lone surrogate is refused."""
        return canonical.utf8(value)

    def deserialize(self, data: bytes) -> str:
        """Return the string."""
        try:
            return data.decode()
        except UnicodeDecodeError:
            return self.corrupt(data)

    def cache_key(self, key: str) -> object:
        """The string itself."""
        return key

    def hash64(self, key: str) -> int:
        """Hash of the UTF-8 bytes."""
        return xxhash.xxh64_intdigest(canonical.utf8(key), KEY_HASH_SEED)

    def spark_expression(self, column: str) -> str:
        """Spark hashes the UTF-8 bytes."""
        return f"xxhash64({column})"


class BytesKeySerializer(DeclaredKeySerializer[bytes]):
    """BYTES: as they are."""

    def __init__(self) -> None:
        super().__init__(ScalarType(ScalarKind.BYTES))

    def coerce(self, value: object) -> bytes:
        """Accept bytes, bytearray and memoryview."""
        if type(value) is bytes:
            return value
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return self.refuse(value)

    def serialize(self, value: bytes) -> bytes:
        """Return the bytes."""
        return value

    def deserialize(self, data: bytes) -> bytes:
        """Return the bytes."""
        return data

    def cache_key(self, key: bytes) -> object:
        """The bytes themselves."""
        return key

    def hash64(self, key: bytes) -> int:
        """Hash of the bytes."""
        return xxhash.xxh64_intdigest(key, KEY_HASH_SEED)

    def spark_expression(self, column: str) -> str:
        """Spark hashes the bytes."""
        return f"xxhash64({column})"


class BooleanKeySerializer(DeclaredKeySerializer[bool]):
    """BOOLEAN: one byte."""

    def __init__(self) -> None:
        super().__init__(ScalarType(ScalarKind.BOOLEAN))

    def coerce(self, value: object) -> bool:
        """Accept bool and NumPy's bool."""
        if isinstance(value, bool | np.bool_):
            return bool(value)
        return self.refuse(value)

    def serialize(self, value: bool) -> bytes:
        """Return 00 or 01."""
        return b"\x01" if value else b"\x00"

    def deserialize(self, data: bytes) -> bool:
        """Return the truth value."""
        if data not in {b"\x00", b"\x01"}:
            return self.corrupt(data)
        return data == b"\x01"

    def cache_key(self, key: bool) -> object:
        """The truth value itself."""
        return key

    def hash64(self, key: bool) -> int:
        """Hash as Spark does: an int of 4 bytes."""
        return xxhash.xxh64_intdigest(_LE_I32.pack(key), KEY_HASH_SEED)

    def spark_expression(self, column: str) -> str:
        """Spark hashes an int 0 or 1."""
        return f"xxhash64({column})"


class IntegerKeySerializer(DeclaredKeySerializer[int]):
    """BYTE, SHORT, INT, LONG: all as a sign-flipped 64-bit integer."""

    def __init__(self, kind: ScalarKind) -> None:
        super().__init__(ScalarType(kind))
        self._max = (1 << (INTEGER_BITS[kind] - 1)) - 1

    def coerce(self, value: object) -> int:
        """Accept ints and NumPy integers within the type's range; bool is not an integer."""
        if type(value) is not int:
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                return self.refuse(value)
            value = int(value)
        if not -self._max - 1 <= value <= self._max:
            msg = f"a key is out of its type's range; declared={self._described} value={value}"
            raise TypeError(msg)
        return value

    def serialize(self, value: int) -> bytes:
        """Return eight bytes that sort by value."""
        return _U64.pack(value + _SIGN)

    def deserialize(self, data: bytes) -> int:
        """Return the integer."""
        if len(data) != _U64.size:
            return self.corrupt(data)
        (flipped,) = _U64.unpack(data)
        return int(flipped) - _SIGN

    def cache_key(self, key: int) -> object:
        """The integer itself."""
        return key

    def hash64(self, key: int) -> int:
        """Hash as Spark does of a bigint: 8 bytes, little-endian."""
        return xxhash.xxh64_intdigest(_LE_I64.pack(key), KEY_HASH_SEED)

    def spark_expression(self, column: str) -> str:
        """Spark hashes narrower integers as an int, so widen first."""
        return f"xxhash64(CAST({column} AS BIGINT))"


class FloatKeySerializer(DeclaredKeySerializer[float]):
    """FLOAT and DOUBLE: a double that sorts by value."""

    cache_key_is_key = False

    def __init__(self, kind: ScalarKind) -> None:
        super().__init__(ScalarType(kind))
        self._single = kind is ScalarKind.FLOAT

    def coerce(self, value: object) -> float:
        """Accept floats and the ints that every double holds (2^53); FLOAT rounds to 32 bits."""
        if isinstance(value, bool) or not isinstance(value, float | int | np.floating | np.integer):
            return self.refuse(value)
        if isinstance(value, int | np.integer) and abs(int(value)) > _EXACT_IN_DOUBLE:
            return self.refuse(value)
        number = float(value)
        if self._single and math.isfinite(number):
            number = _round_to_float32(number)
        return canonical_values.canonical_float(number)

    def serialize(self, value: float) -> bytes:
        """Return eight bytes that sort by value."""
        (bits,) = _U64.unpack(_F64.pack(value))
        return _U64.pack(bits ^ (_ALL if bits & _SIGN else _SIGN))

    def deserialize(self, data: bytes) -> float:
        """Return the float."""
        if len(data) != _U64.size:
            return self.corrupt(data)
        (bits,) = _U64.unpack(data)
        (value,) = _F64.unpack(_U64.pack(bits ^ (_SIGN if bits & _SIGN else _ALL)))
        return canonical_values.canonical_float(value)

    def cache_key(self, key: float) -> object:
        """The float itself, a fixed string for NaN, which does not equal itself."""
        return key if key == key else "NaN"  # noqa: PLR0124

    def hash64(self, key: float) -> int:
        """Hash as Spark does of a double: 8 bytes, little-endian."""
        return xxhash.xxh64_intdigest(_LE_F64.pack(key), KEY_HASH_SEED)

    def spark_expression(self, column: str) -> str:
        """Spark hashes a float as four bytes, so widen first."""
        return f"xxhash64(CAST({column} AS DOUBLE))"


def _round_to_float32(number: float) -> float:
    try:
        (rounded,) = _F32.unpack(_F32.pack(number))
    except OverflowError:
        return math.copysign(math.inf, number)
    return float(rounded)
