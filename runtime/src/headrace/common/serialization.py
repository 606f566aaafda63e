"""Bytes of records at the borders of a job, as ``pyflink.common.serialization``.

A schema runs in source tasks and slots, so it must pickle. User programs may subclass both.
"""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any

from headrace.common.typeinfo import Types

if TYPE_CHECKING:
    from headrace.common.typeinfo import TypeInformation


class SerializationSchema(abc.ABC):
    """Turns records into bytes."""

    @abc.abstractmethod
    def serialize(self, element: Any) -> bytes:  # noqa: ANN401 - the user's records
        """Return the bytes of a record."""


class DeserializationSchema(abc.ABC):
    """Turns bytes into records."""

    @abc.abstractmethod
    def deserialize(self, message: bytes) -> Any:  # noqa: ANN401 - the user's records
        """Return the record of a message, None to leave the message out."""

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the records."""
        return Types.PICKLED_BYTE_ARRAY()


class SimpleStringSchema(SerializationSchema, DeserializationSchema):
    """Strings."""

    def __init__(self, charset: str = "UTF-8") -> None:
        self._charset = charset

    def serialize(self, element: str) -> bytes:
        """Return the encoded string."""
        return element.encode(self._charset)

    def deserialize(self, message: bytes) -> str:
        """Return the decoded string."""
        return message.decode(self._charset)

    def get_produced_type(self) -> TypeInformation:
        """Return STRING."""
        return Types.STRING()


class ByteArraySchema(SerializationSchema, DeserializationSchema):
    """Bytes as they are."""

    def serialize(self, element: bytes) -> bytes:
        """Return the bytes."""
        return element

    def deserialize(self, message: bytes) -> bytes:
        """Return the bytes."""
        return message

    def get_produced_type(self) -> TypeInformation:
        """Return bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())


class Encoder:
    """How an element becomes one line of a file."""

    def __init__(self, schema: SerializationSchema) -> None:
        """Use the static methods."""
        self.schema = schema

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """Return the element's ``str``."""
        return Encoder(_StrEncoder(charset_name))


class _StrEncoder(SerializationSchema):
    def __init__(self, charset: str) -> None:
        self._charset = charset

    def serialize(self, element: Any) -> bytes:  # noqa: ANN401 - the user's records
        return str(element).encode(self._charset)
