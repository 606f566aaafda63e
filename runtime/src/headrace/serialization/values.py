"""Value serializers: MessagePack of typed values through msgspec, and pickle as the fallback.

Bytes of a value are one MessagePack object (stored format, golden-tested; docs/state-format.md)::

    STRING, BYTES, BOOLEAN      str, bin, bool
    BYTE..LONG                  int, shortest form: any width reads any narrower one
    BIG_INT                     int when it fits 64 bits, else bin of big-endian two's complement
    FLOAT, DOUBLE               float 64
    DECIMAL                     str, exponent kept
    DATE, TIME                  int: days since 1970-01-01, microseconds since midnight
    TIMESTAMP, INSTANT          int: microseconds since 1970-01-01T00:00 (INSTANT: in UTC)
    DURATION                    int: microseconds
    ROW                         array [row kind, field, ...]; nil for None
    TUPLE, LIST, MAP            array, array, map; nil for None
    class                       what msgspec writes: a map by field name, or an array
    NumPy array                 array [bin of its elements, little-endian, length of dimension, ...]
    Arrow array, batch          bin: Arrow IPC message without schema
    PICKLED                     pickle, protocol 5 (not MessagePack)

`serialize` checks every part, so that bytes that cannot be read back are never stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import msgspec

from headrace.errors import CorruptStateError, IncompatibleStateError, InvalidProgramError
from headrace.serialization.codecs import build_codec
from headrace.serialization.compatibility import Compatibility, Verdict, of_value
from headrace.serialization.described import describe, parse
from headrace.serialization.evolution import resolve
from headrace.serialization.pickles import pickled, unpickled
from headrace.serialization.type_text import type_text
from headrace.serialization.types import PICKLED, STORED_PICKLE, ListType, PickledType

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.serialization.serializer import TypeSerializer
    from headrace.serialization.types import TypeDescription

MSGPACK: Final = "msgpack/1"
PICKLE: Final = "pickle/1"
"""Names of the two byte formats in stored snapshots."""


def build_value_serializer(description: TypeDescription) -> TypeSerializer[object]:
    """See `headrace.serialization.registry.value_serializer`."""
    if isinstance(description, PickledType):
        return StoredPickleSerializer() if description.as_bytes else PickleSerializer()
    return MsgpackSerializer(description)


class _DescribedSerializer:
    """Identity, snapshot and compatibility of a serializer that is given by its description."""

    def __init__(self, description: TypeDescription, codec: str) -> None:
        self._description = description
        self._described = describe(description)
        self._codec_name = codec

    def __reduce__(self) -> tuple[object, ...]:
        return build_value_serializer, (self._description,)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _DescribedSerializer)
            and type(other) is type(self)
            and other._description == self._description
        )

    def __hash__(self) -> int:
        return hash(self._description)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type_text(self._description)})"

    def snapshot(self) -> dict[str, object]:
        """Return codec and type."""
        return {"codec": self._codec_name, "type": self._described}

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of values stored under ``stored``."""
        raise NotImplementedError

    def _foreign(self, stored: dict[str, object]) -> Compatibility:
        codec = stored.get("codec")
        note = f"the codecs differ; stored={codec} declared={self._codec_name}"
        return of_value(Verdict.INCOMPATIBLE, str(codec), type_text(self._description), note)


class MsgpackSerializer(_DescribedSerializer):
    """Typed MessagePack."""

    def __init__(self, description: TypeDescription) -> None:
        super().__init__(description, MSGPACK)
        codec = build_codec(description)
        self.coerce = codec.coerce
        self._immutable = codec.immutable
        self._lower = codec.lower
        self._lift = codec.lift
        self._verify = codec.verify
        self._encode = msgspec.msgpack.Encoder().encode
        try:
            self._decode = msgspec.msgpack.Decoder(codec.wire_type).decode
        except TypeError as error:
            msg = f"a type cannot be stored: {error}; type={type_text(description)}"
            raise InvalidProgramError(msg) from error

    @property
    def immutable(self) -> bool:
        """Whether no part of a value can change."""
        return self._immutable

    def serialize(self, value: object) -> bytes:
        """Return MessagePack bytes.

        Raises:
            TypeError: a part of the value is not of its declared type.
        """
        try:
            data = self._encode(self._lower(value))
            if self._verify:
                self._decode(data)
        except (msgspec.ValidationError, OverflowError, UnicodeEncodeError, ValueError) as error:
            msg = f"a value is not of its declared type: {error}; declared={self._text()}"
            raise TypeError(msg) from error
        return data

    def deserialize(self, data: bytes) -> object:
        """Return the value.

        Raises:
            CorruptStateError: not bytes of this type.
        """
        try:
            return self._lift(self._decode(data))
        except (msgspec.MsgspecError, ValueError, OverflowError, ArithmeticError) as error:
            msg = (
                f"stored bytes are not of their type: {error}; "
                f"declared={self._text()} length={len(data)}"
            )
            raise CorruptStateError(msg) from error

    def of_arrays(self) -> MsgpackSerializer:
        """Return the serializer of lists of such values: arrays of exactly what this one writes."""
        return MsgpackSerializer(ListType(self._description))

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of values stored under ``stored``."""
        match stored.get("codec"):
            case self._codec_name:
                return resolve(parse(stored.get("type")), self._description).compatibility
            case codec if codec == PICKLE:
                note = "pickled values become typed, every value is checked"
                return of_value(Verdict.AFTER_MIGRATION, "PICKLED", self._text(), note)
            case _:
                return self._foreign(stored)

    def migration(self, stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Return the function bytes under ``stored`` -> bytes under this type."""
        if stored.get("codec") == PICKLE:

            def migrated(data: bytes) -> bytes:
                return self.serialize(unpickled(data))

        else:
            convert = resolve(parse(stored.get("type")), self._description).convert
            decode = msgspec.msgpack.Decoder().decode

            def migrated(data: bytes) -> bytes:
                # Once around, so that constraints are checked and defaults are stored.
                value = self.deserialize(self._encode(convert(decode(data))))
                return self._encode(self._lower(value))

        def migrate(data: bytes) -> bytes:
            try:
                return migrated(data)
            except _NO_COUNTERPART as error:
                msg = f"a stored value has no counterpart: {error}; declared={self._text()}"
                raise IncompatibleStateError(msg) from error

        return migrate

    def _text(self) -> str:
        return type_text(self._description)


class PickleSerializer(_DescribedSerializer):
    """Any Python object, by pickle: slower, larger, and lost when its class moves (B34)."""

    immutable: Final = False

    def __init__(self) -> None:
        super().__init__(PICKLED, PICKLE)

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """Return what becomes of values stored under ``stored``: pickles stay pickles."""
        match stored.get("codec"):
            case self._codec_name:
                return of_value(Verdict.AS_IS, "PICKLED", "PICKLED")
            case codec if codec == MSGPACK:
                note = "a typed state would be pickled, which ends its evolution; keep its type"
                stored_text = type_text(parse(stored.get("type")))
                return of_value(Verdict.INCOMPATIBLE, stored_text, "PICKLED", note)
            case _:
                return self._foreign(stored)

    def migration(self, _stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """Nothing migrates to pickles; the function leaves bytes as they are."""
        return lambda data: data

    def coerce(self, value: object) -> object:
        """Accept everything."""
        return value

    def serialize(self, value: object) -> bytes:
        """Return a pickle.

        Raises:
            TypeError: the object cannot be pickled.
        """
        return pickled(value)

    def deserialize(self, data: bytes) -> object:
        """Return the object.

        Raises:
            CorruptStateError: not a pickle, or one of a class that is no longer there.
        """
        return unpickled(data)


class StoredPickleSerializer(_DescribedSerializer):
    """Pickled values as their bytes, for readers without the program: nothing is unpickled."""

    immutable: Final = True

    def __init__(self) -> None:
        super().__init__(STORED_PICKLE, PICKLE)

    def compatibility(self, stored: dict[str, object]) -> Compatibility:
        """As of pickles."""
        return PickleSerializer().compatibility(stored)

    def migration(self, stored: dict[str, object]) -> Callable[[bytes], bytes]:
        """As of pickles."""
        return PickleSerializer().migration(stored)

    def coerce(self, value: object) -> object:
        """Accept bytes."""
        if isinstance(value, bytes):
            return value
        msg = f"a stored pickle is bytes; type={type(value).__qualname__}"
        raise TypeError(msg)

    def serialize(self, value: object) -> bytes:
        """Return the pickle as it is."""
        return cast("bytes", self.coerce(value))

    def deserialize(self, data: bytes) -> object:
        """Return the pickle as it is."""
        return data


_NO_COUNTERPART: Final[tuple[type[Exception], ...]] = (
    ArithmeticError,
    AttributeError,
    CorruptStateError,
    LookupError,
    TypeError,
    ValueError,
)
"""What conversions and classes raise for a value that does not fit; msgspec's are ValueErrors."""
