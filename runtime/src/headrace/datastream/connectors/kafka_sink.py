"""``KafkaSink`` and its builders; use `headrace.datastream.connectors.kafka`.

The builder checks what can be checked without a broker and names the setter to call; brokers, topic
and credentials are checked when the job starts (`KafkaSinkSpec.probe`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from headrace.common.serialization import SerializationSchema
from headrace.connectors.kafka.client_config import to_librdkafka
from headrace.connectors.kafka.record import RecordSerializer
from headrace.connectors.kafka.spec import (
    COMMIT_TIMEOUT_MS,
    LOST_LEDGER,
    LOST_LEDGER_POLICIES,
    TRANSACTION_TIMEOUT_MS_MIN,
    KafkaSinkSpec,
)
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream.connectors.base import Sink
from headrace.errors import InvalidConfigError

_OWN_SETTERS: Final[Mapping[str, str]] = {
    "bootstrap.servers": "set_bootstrap_servers",
    "transactional.id": "set_transactional_id_prefix",
    "key.serializer": "set_record_serializer",
    "value.serializer": "set_record_serializer",
}
_SAFE_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "acks": frozenset({"all", "-1"}),
    "enable.idempotence": frozenset({"true"}),
}
"""What exactly-once needs; other values would break it."""


class KafkaRecordSerializationSchema:
    """How an element becomes a Kafka record; made by `builder`."""

    def __init__(self, serializer: RecordSerializer) -> None:
        """Use `builder`."""
        self.serializer = serializer

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder."""
        return KafkaRecordSerializationSchemaBuilder()


class KafkaRecordSerializationSchemaBuilder:
    """Collects how elements become records."""

    def __init__(self) -> None:
        """Start with nothing set."""
        self._topic: str | None = None
        self._selector: Callable[[Any], str] | None = None
        self._key: SerializationSchema | None = None
        self._value: SerializationSchema | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write to this topic."""
        self._topic = topic
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic of every element; exactly-once needs `set_ledger_topic` on the sink."""
        self._selector = topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set how the record's key is made from the element; without it records have no key."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Set how the record's value is made from the element."""
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Return the schema.

        Raises:
            InvalidConfigError: a setting is missing or contradicts another; names the setter.
        """
        if (self._topic is None) == (self._selector is None):
            msg = "records need either a topic or a selector; use=set_topic|set_topic_selector"
            raise InvalidConfigError(msg)
        if self._value is None:
            msg = "records need a value; missing=set_value_serialization_schema"
            raise InvalidConfigError(msg)
        return KafkaRecordSerializationSchema(
            RecordSerializer(self._topic or "", self._selector, self._key, self._value)
        )


class KafkaSink(Sink):
    """Writes to topics; made by `builder`."""

    def __init__(self, spec: KafkaSinkSpec) -> None:
        """Use `builder`."""
        self._spec = spec

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder."""
        return KafkaSinkBuilder()

    def description(self) -> KafkaSinkSpec:
        """Return the sink as data."""
        return self._spec


class KafkaSinkBuilder:
    """Collects the settings of a `KafkaSink`."""

    def __init__(self) -> None:
        """Start with no guarantee, as Flink does."""
        self._servers: str | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix: str | None = None
        self._ledger_topic: str | None = None
        self._serializer: RecordSerializer | None = None
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the brokers to begin with, as ``host:port[,host:port]``."""
        self._servers = bootstrap_servers
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set what readers may count on; NONE when it is never called."""
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set the prefix of transactional ids: unique to the sink within the Kafka cluster (H4)."""
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(
        self, record_serializer: KafkaRecordSerializationSchema
    ) -> KafkaSinkBuilder:
        """Set how elements become records."""
        self._serializer = record_serializer.serializer
        return self

    def set_ledger_topic(self, topic: str) -> KafkaSinkBuilder:
        """Set the topic that carries the exactly-once ledger when records choose their topics.

        Nothing is written to it; consumer groups keep their offset on its partition 0.
        """
        self._ledger_topic = topic
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of the producer in its Java name, such as ``compression.type``."""
        self._properties[key] = value
        return self

    def build(self) -> KafkaSink:
        """Return the sink.

        Raises:
            InvalidConfigError: a setting is missing or contradicts another; names the setter.
        """
        properties = dict(self._properties)
        servers = self._servers or properties.pop("bootstrap.servers", None)
        if not servers:
            raise InvalidConfigError("a kafka sink needs brokers; missing=set_bootstrap_servers")
        if self._serializer is None:
            raise InvalidConfigError("a kafka sink needs records; missing=set_record_serializer")
        for name, setter in _OWN_SETTERS.items():
            if name in properties:
                msg = f"this property has a setter of its own, use it; property={name} use={setter}"
                raise InvalidConfigError(msg)
        serializer = self._serializer
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            serializer = self._check_exactly_once(serializer, properties)
        _check_own_properties(properties)
        to_librdkafka(properties)  # refuses what has no counterpart
        return KafkaSink(
            KafkaSinkSpec(servers, serializer, self._guarantee, self._prefix or "", properties)
        )

    def _check_exactly_once(
        self, serializer: RecordSerializer, properties: Mapping[str, str]
    ) -> RecordSerializer:
        if not self._prefix:
            msg = (
                "exactly-once needs a prefix that no other sink of the kafka cluster uses; "
                "missing=set_transactional_id_prefix"
            )
            raise InvalidConfigError(msg)
        for name, allowed in _SAFE_VALUES.items():
            value = properties.get(name)
            if value is not None and value.lower() not in allowed:
                msg = f"this value breaks exactly-once; property={name} value={value}"
                raise InvalidConfigError(msg)
        if serializer.topic_selector is None:
            return serializer
        if not self._ledger_topic:
            msg = (
                "exactly-once with a topic selector needs one topic that carries the ledger; "
                "missing=set_ledger_topic"
            )
            raise InvalidConfigError(msg)
        return RecordSerializer(
            self._ledger_topic, serializer.topic_selector, serializer.key, serializer.value
        )


def _check_own_properties(properties: Mapping[str, str]) -> None:
    for name, least in (
        ("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS_MIN),
        (COMMIT_TIMEOUT_MS, TRANSACTION_TIMEOUT_MS_MIN),
    ):
        text = properties.get(name)
        if text is not None and not (text.isdecimal() and int(text) >= least):
            msg = f"not a number of milliseconds; property={name} value={text} at_least={least}"
            raise InvalidConfigError(msg)
    policy = properties.get(LOST_LEDGER)
    if policy is not None and policy not in LOST_LEDGER_POLICIES:
        msg = (
            "no such policy for a lost ledger; "
            f"property={LOST_LEDGER} value={policy} known={sorted(LOST_LEDGER_POLICIES)}"
        )
        raise InvalidConfigError(msg)
    strangers = [
        name
        for name in properties
        if name.startswith("headrace.") and name not in {LOST_LEDGER, COMMIT_TIMEOUT_MS}
    ]
    if strangers:
        raise InvalidConfigError(f"no such property of a kafka sink; property={strangers[0]}")
