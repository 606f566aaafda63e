"""Bytes of list state (B8; docs/state-format.md).

A list is one row without user key, its *tail*, and sealed chunks behind it, in this order::

    <prefix>                   ->  <sealed chunks ever:u32> <array>      the newest elements
    <prefix> <index:u32>       ->  <array>                               from index 1, oldest first

``<array>`` is a MessagePack array. Its items are the elements themselves where the element's codec
is MessagePack, else ``bin`` of the element's bytes. So a short list is one row, read by one get and
removed by one delete; appending rewrites the tail alone, which is sealed when it has grown.

All numbers are big-endian. The format is stored in checkpoints: golden-tested, never changed. Where
chunks end is no part of it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar, cast

import msgspec

from headrace.errors import CorruptStateError
from headrace.serialization.values import MsgpackSerializer

if TYPE_CHECKING:
    from headrace.serialization.serializer import TypeSerializer

T = TypeVar("T")

_U32: Final = struct.Struct(">I")

_ENCODER: Final = msgspec.msgpack.Encoder()
_FRAMES: Final = msgspec.msgpack.Decoder(list[bytes])
_RAW: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])

_FIXARRAY: Final = 0x90
_ARRAY16: Final = 0xDC
_ARRAY32: Final = 0xDD
_ARRAY16_HEAD: Final = struct.Struct(">BH")
_ARRAY32_HEAD: Final = struct.Struct(">BI")
_FIXARRAY_MAX: Final = 15
_ARRAY16_MAX: Final = 0xFFFF


def sealed_row(prefix: bytes, index: int) -> bytes:
    """Return the row of a sealed chunk; ``index`` counts from 1."""
    return prefix + _U32.pack(index)


def tail_value(sealed: int, count: int, items: bytes) -> bytes:
    """Return the value of a list's tail row.

    Args:
        sealed: how many chunks were ever sealed.
        count: number of ``items``.
        items: concatenated array items.
    """
    return _U32.pack(sealed) + array(count, items)


def parse_tail(value: bytes) -> tuple[int, int, bytes]:
    """Return number of sealed chunks, number of items and the items of a tail row.

    Raises:
        CorruptStateError: not such a value.
    """
    try:
        (sealed,) = _U32.unpack_from(value)
        count, items = split_array(value[_U32.size :])
    except (struct.error, IndexError) as error:
        msg = f"the tail of a list cannot be read; value={value[:32].hex()}"
        raise CorruptStateError(msg) from error
    return sealed, count, items


def array(count: int, items: bytes) -> bytes:
    """Return a MessagePack array of ``count`` concatenated items."""
    if count <= _FIXARRAY_MAX:
        return bytes((_FIXARRAY | count,)) + items
    if count <= _ARRAY16_MAX:
        return _ARRAY16_HEAD.pack(_ARRAY16, count) + items
    return _ARRAY32_HEAD.pack(_ARRAY32, count) + items


def split_array(data: bytes) -> tuple[int, bytes]:
    """Return number of items and the items of a MessagePack array.

    Raises:
        struct.error, IndexError: it is cut short.
        CorruptStateError: it is no array.
    """
    first = data[0]
    if first & 0xF0 == _FIXARRAY:
        return first & 0x0F, data[1:]
    if first == _ARRAY16:
        return _ARRAY16_HEAD.unpack_from(data)[1], data[_ARRAY16_HEAD.size :]
    if first == _ARRAY32:
        return _ARRAY32_HEAD.unpack_from(data)[1], data[_ARRAY32_HEAD.size :]
    msg = f"elements of a list are no array; value={data[:32].hex()}"
    raise CorruptStateError(msg)


class ElementCodec(Protocol[T]):
    """Elements as items of an array."""

    def item(self, value: T) -> bytes:
        """Return one element as an array item.

        Raises:
            TypeError: it is not of the declared type.
        """
        ...

    def elements(self, data: bytes) -> list[T]:
        """Return a new list of the elements of an array.

        Raises:
            CorruptStateError: it cannot be read.
        """
        ...


def element_codec(serializer: TypeSerializer[T]) -> ElementCodec[T]:
    """Return how elements of a type are stored."""
    if isinstance(serializer, MsgpackSerializer):
        return cast("ElementCodec[T]", PlainElements(serializer))
    return FramedElements(serializer)


class PlainElements:
    """Elements whose own bytes are one MessagePack object: a whole array is decoded at once."""

    def __init__(self, serializer: MsgpackSerializer) -> None:
        self.item = serializer.serialize
        self._arrays = serializer.of_arrays()

    def elements(self, data: bytes) -> list[object]:
        """Return the elements of an array."""
        return cast("list[object]", self._arrays.deserialize(data))


def frames(data: bytes) -> list[bytes]:
    """Return the bytes of the framed elements of an array.

    Raises:
        CorruptStateError: they are not framed.
    """
    try:
        return _FRAMES.decode(data)
    except msgspec.MsgspecError as error:
        msg = f"elements of a list cannot be read: {error}; length={len(data)}"
        raise CorruptStateError(msg) from error


def frame(element: bytes) -> bytes:
    """Return an element's bytes as an item of an array."""
    return _ENCODER.encode(element)


def raw_elements(data: bytes) -> list[bytes]:
    """Return the bytes of the elements of an array that are MessagePack themselves.

    Raises:
        CorruptStateError: not an array.
    """
    try:
        return [bytes(item) for item in _RAW.decode(data)]
    except msgspec.MsgspecError as error:
        msg = f"elements of a list cannot be read: {error}; length={len(data)}"
        raise CorruptStateError(msg) from error


class FramedElements(Generic[T]):
    """Elements of any codec, each in a MessagePack ``bin``."""

    def __init__(self, serializer: TypeSerializer[T]) -> None:
        self._serialize = serializer.serialize
        self._deserialize = serializer.deserialize

    def item(self, value: T) -> bytes:
        """Return the framed bytes of an element."""
        return frame(self._serialize(value))

    def elements(self, data: bytes) -> list[T]:
        """Return the elements of an array."""
        return [self._deserialize(frame) for frame in frames(data)]
