"""Value -> Kafka record, as a program describes it; part of the travelling job graph."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from headrace.connectors.kafka.spool import SpoolRecord
from headrace.errors import UserCodeError

_TRACEBACK_CHARS_MAX: Final = 4000


class SerializationSchema(Protocol):
    """How a value becomes bytes; the public classes are in ``headrace.common.serialization``."""

    def serialize(self, value: object) -> bytes | None:
        """Return the value's bytes; None makes a tombstone."""
        ...


@dataclass(frozen=True, slots=True)
class RecordSerializer:
    """Value -> Kafka record.

    Attributes:
        topic: target, or the ledger's place when ``topic_selector`` is set.
        topic_selector: value -> topic, None when all go to ``topic``.
        key: how the key is made from the value, None for records without one.
        value: how the record's value is made.
    """

    topic: str
    topic_selector: Callable[[object], str] | None
    key: SerializationSchema | None
    value: SerializationSchema

    def record(self, value: object, timestamp_ms: int | None) -> SpoolRecord:
        """Return the record of one value.

        Raises:
            UserCodeError: a schema or the selector raised.
        """
        try:
            key = None if self.key is None else self.key.serialize(value)
            payload = self.value.serialize(value)
            topic = None if self.topic_selector is None else self.topic_selector(value)
        except Exception as error:
            msg = (
                "a record serializer of a Kafka sink failed; "
                f"topic={self.topic} error={type(error).__name__}: {error}"
            )
            text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARS_MAX:]
            raise UserCodeError(msg, traceback_text=text) from error
        time = -1 if timestamp_ms is None else timestamp_ms
        return key, payload, time, topic, -1, None
