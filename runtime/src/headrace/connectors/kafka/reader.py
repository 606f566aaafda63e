"""Bounded, read_committed reads of whole topics: what a consumer of the sink may see right now.

For tests, the demo and the command line; jobs read through Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headrace.connectors.kafka.client_errors import (
    ClientEvents,
    ErrorClass,
    classify,
    error_of,
    kafka_errors,
)
from headrace.connectors.kafka.probe import ClusterProbe
from headrace.connectors.kafka.session import connection_settings
from headrace.errors import InternalError

_BATCH: Final = 10_000
_SLICE_S: Final = 0.1
_BOUNDS_ATTEMPTS: Final = 50
_NOT_HEARD_OF_YET: Final = frozenset(
    {
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - librdkafka's local codes are named so
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)


@dataclass(frozen=True, slots=True)
class CommittedRecord:
    """One record as a read_committed consumer gets it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def read_committed(client: Mapping[str, str], topic: str) -> Iterator[CommittedRecord]:
    """Yield a topic's records from its beginning to its last stable offsets at the time of a call.

    Records of one partition come in order. Rows of transactions that are open or aborted are not
    among them; an open one hides what was written after it in its partitions, as for any consumer.

    Args:
        client: librdkafka settings, ``bootstrap.servers`` included.
        topic: an existing topic.

    Raises:
        InvalidConfigError, SourceUnavailableError: see `kafka_errors`.
    """
    numbers = ClusterProbe(client).partitions([topic])[topic]
    events = ClientEvents()
    where = {"servers": client["bootstrap.servers"], "topic": topic}
    with kafka_errors("read a topic", where, events):
        consumer = Consumer(
            {
                **connection_settings(client),
                "group.id": "headrace.reader",  # never joined, never committed
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "isolation.level": "read_committed",
                "error_cb": events.on_error,
            }
        )
        try:
            ranges = {number: _bounds(consumer, topic, number) for number in numbers}
            filled = {number: (low, high) for number, (low, high) in ranges.items() if high > low}
            consumer.assign(
                [TopicPartition(topic, number, low) for number, (low, _) in filled.items()]
            )
            yield from _read_to(consumer, {number: high for number, (_, high) in filled.items()})
        finally:
            consumer.close()


def _bounds(consumer: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """Return first and last stable offset, asking again while a leader is being elected."""
    for _ in range(_BOUNDS_ATTEMPTS):
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10.0)
        except KafkaException as exception:
            error = error_of(exception)
            # The topic exists, it was described: the client has not heard of it yet.
            unheard = error.code() in _NOT_HEARD_OF_YET
            if classify(error) is not ErrorClass.UNAVAILABLE and not unheard:
                raise
            consumer.poll(_SLICE_S)
    return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10.0)


def _read_to(consumer: Consumer, ends: dict[int, int]) -> Iterator[CommittedRecord]:
    """Read until the position of every partition has reached its end (control records count)."""
    while ends:
        for message in consumer.consume(_BATCH, _SLICE_S):
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            partition, offset, topic = message.partition(), message.offset(), message.topic()
            if partition is None or offset is None or topic is None:
                msg = f"the client returned a record without a place; topic={topic}"
                raise InternalError(msg)
            if offset < ends.get(partition, 0):
                _, timestamp_ms = message.timestamp()
                yield CommittedRecord(
                    topic, partition, offset, timestamp_ms, message.key(), message.value()
                )
        for entry in consumer.position(consumer.assignment()):
            if entry.offset >= ends.get(entry.partition, 0):
                ends.pop(entry.partition, None)
