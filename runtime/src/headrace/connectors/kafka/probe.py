"""Questions to a cluster that are asked before a job starts, each answered within a few seconds.

Used on the driver by the source's and the sink's `probe`, to resolve starting offsets, and by
tests. Topics are described, never asked for by name in a metadata request: that may create them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from headrace.connectors.kafka.client_errors import ClientEvents, kafka_errors, to_headrace_error
from headrace.connectors.kafka.session import connection_settings
from headrace.errors import SourceUnavailableError

PROBE_TIMEOUT_S: Final = 10.0
_SLICE_S: Final = 0.1
_INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})

T = TypeVar("T")


class ClusterProbe:
    """One admin connection, used by one thread; there is nothing to close."""

    def __init__(self, client: Mapping[str, str], timeout_s: float = PROBE_TIMEOUT_S) -> None:
        """Make the client; nothing is sent yet.

        Args:
            client: librdkafka settings, ``bootstrap.servers`` included.
            timeout_s: bound of every question.

        Raises:
            InvalidConfigError: librdkafka refuses a setting.
        """
        self._timeout_s = timeout_s
        self._isolation = (
            IsolationLevel.READ_COMMITTED
            if client.get("isolation.level") == "read_committed"
            else IsolationLevel.READ_UNCOMMITTED
        )
        self._events = ClientEvents()
        self._servers = client["bootstrap.servers"]
        with kafka_errors("set up a kafka client", {"servers": self._servers}):
            # The library's stub forgets that settings may be callbacks.
            config: dict[str, Any] = connection_settings(client)
            config["error_cb"] = self._events.on_error
            self._admin = AdminClient(config)

    def check_reachable(self) -> None:
        """Check addresses, protocol and credentials.

        Raises:
            InvalidConfigError: refused.
            SourceUnavailableError: no broker answered.
        """
        future = self._admin.describe_cluster(request_timeout=self._timeout_s)
        self._answer(future, "reach the brokers", {})

    def partitions(self, topics: Sequence[str]) -> dict[str, list[int]]:
        """Return the partitions of each topic.

        Raises:
            InvalidConfigError: a topic does not exist or may not be seen; names it.
            SourceUnavailableError: no broker answered.
        """
        futures = self._admin.describe_topics(
            TopicCollection([*topics]), request_timeout=self._timeout_s
        )
        found: dict[str, list[int]] = {}
        for topic, future in futures.items():
            description = self._answer(future, "look up a topic", {"topic": topic})
            found[topic] = sorted(partition.id for partition in description.partitions)
        return found

    def committed(self, group: str, topics: Sequence[str]) -> dict[tuple[str, int], int]:
        """Return a consumer group's stable offsets; partitions without one are left out."""
        partitions = [
            TopicPartition(topic, number)
            for topic, numbers in self.partitions(topics).items()
            for number in numbers
        ]
        futures = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, partitions)],
            require_stable=True,
            request_timeout=self._timeout_s,
        )
        answer = self._answer(futures[group], "read a consumer group", {"group": group})
        offsets: dict[tuple[str, int], int] = {}
        for entry in answer.topic_partitions or []:
            if entry.error is not None:
                raise to_headrace_error(
                    entry.error, "read a consumer group", {"group": group, "topic": entry.topic}
                )
            if entry.offset >= 0:
                offsets[entry.topic, entry.partition] = entry.offset
        return offsets

    def topics(self) -> list[str]:
        """Return the names of all topics that may be seen, without Kafka's own."""
        with kafka_errors("list topics", {"servers": self._servers}, self._events):
            known = self._admin.list_topics(timeout=self._timeout_s).topics
        return sorted(name for name in known if name not in _INTERNAL_TOPICS)

    def earliest(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the offset of each partition's first record."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Return the offset after each partition's last record.

        With ``isolation.level=read_committed``, the last one before the first open transaction.
        """
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def at_time(
        self, partitions: Iterable[tuple[str, int]], time_ms: int
    ) -> dict[tuple[str, int], int]:
        """Return the first offsets at or after a time; partitions without one are left out."""
        found = self._offsets(partitions, OffsetSpec.for_timestamp(time_ms))
        return {partition: offset for partition, offset in found.items() if offset >= 0}

    def _offsets(
        self, partitions: Iterable[tuple[str, int]], place: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        asked = {TopicPartition(*partition): place for partition in partitions}
        if not asked:
            return {}
        futures = self._admin.list_offsets(
            asked, isolation_level=self._isolation, request_timeout=self._timeout_s
        )
        return {
            (entry.topic, entry.partition): self._answer(
                future, "look up offsets", {"topic": entry.topic, "partition": entry.partition}
            ).offset
            for entry, future in futures.items()
        }

    def commit_offsets(self, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Set a consumer group's offsets; the group must have no members.

        Raises:
            SourceUnavailableError, InvalidConfigError: not done.
        """
        partitions = [TopicPartition(*place, offset) for place, offset in sorted(offsets.items())]
        futures = self._admin.alter_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, partitions)], request_timeout=self._timeout_s
        )
        answer = self._answer(futures[group], "commit offsets of a group", {"group": group})
        for entry in answer.topic_partitions or []:
            if entry.error is not None:
                where = {"group": group, "topic": entry.topic, "partition": entry.partition}
                raise to_headrace_error(entry.error, "commit offsets of a group", where)

    def create_topic(self, topic: str, partitions: int, config: Mapping[str, str]) -> None:
        """Create a topic with as many replicas as the broker's default.

        Raises:
            SourceUnavailableError: it exists already, or no broker answered.
        """
        new = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config={**config})
        future = self._admin.create_topics([new], request_timeout=self._timeout_s)[topic]
        self._answer(future, "create a topic", {"topic": topic})

    def delete_group(self, group: str) -> None:
        """Delete a consumer group with its offsets."""
        future = self._admin.delete_consumer_groups([group], request_timeout=self._timeout_s)[group]
        self._answer(future, "delete a consumer group", {"group": group})

    def _answer(self, future: Future[T], action: str, where: Mapping[str, object]) -> T:
        """Wait for an answer; a reported refusal of credentials ends the wait at once."""
        values = {"servers": self._servers, **where}
        for _ in range(int((self._timeout_s + 1.0) / _SLICE_S)):
            self._admin.poll(0)  # error reports come out here, results through the future
            if wait([future], _SLICE_S).done:
                with kafka_errors(action, values, self._events):
                    return future.result()
            if self._events.configuration is not None:
                raise to_headrace_error(self._events.configuration, action, values)
        msg = f"kafka did not answer; action={action!r} servers={self._servers}"
        raise SourceUnavailableError(msg) from self._latest()

    def _latest(self) -> KafkaException | None:
        latest = self._events.latest
        return None if latest is None else KafkaException(latest)
