"""``KafkaSource`` and its builder; use `headrace.datastream.connectors.kafka`.

The builder checks what can be checked without a broker and names the setter to call; brokers,
topics and credentials are checked when the job starts (`KafkaSourceSpec.probe`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.common.serialization import DeserializationSchema
from headrace.common.typeinfo import TypeInformation
from headrace.connectors.kafka.client_config import to_librdkafka
from headrace.connectors.kafka.spec import KafkaSourceSpec
from headrace.connectors.kafka.starting_offsets import OffsetReset, StartingOffsets, StartingPlace
from headrace.datastream.connectors.base import Source
from headrace.errors import InvalidConfigError

KafkaOffsetResetStrategy = OffsetReset
"""``EARLIEST``, ``LATEST`` or ``NONE``: partitions without a committed or given offset."""

_OWN_SETTERS: Final[Mapping[str, str]] = {
    "group.id": "set_group_id",
    "auto.offset.reset": "set_starting_offsets",
    "bootstrap.servers": "set_bootstrap_servers",
    "key.deserializer": "set_value_only_deserializer",
    "value.deserializer": "set_value_only_deserializer",
}
_DECIDED: Final = frozenset({"enable.auto.commit", "interceptor.classes"})
"""Offsets are committed by checkpoints alone (O4); Spark's source refuses these two as well."""


class KafkaTopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class KafkaOffsetsInitializer:
    """A place in topics: where a source begins without restored state, or where it ends."""

    def __init__(self, starting: StartingOffsets) -> None:
        """Use the static methods."""
        self.starting = starting

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Begin with the oldest records; as an end: read nothing."""
        return KafkaOffsetsInitializer(StartingOffsets(StartingPlace.EARLIEST))

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Begin with records that arrive after the start; as an end: stop before those."""
        return KafkaOffsetsInitializer(StartingOffsets(StartingPlace.LATEST))

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = OffsetReset.NONE,
    ) -> KafkaOffsetsInitializer:
        """Begin at the offsets that the consumer group has committed."""
        return KafkaOffsetsInitializer(
            StartingOffsets(StartingPlace.COMMITTED, reset=offset_reset_strategy)
        )

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Begin with the first records at or after a time in ms; at the end if there are none."""
        return KafkaOffsetsInitializer(
            StartingOffsets(StartingPlace.TIMESTAMP, timestamp_ms=timestamp)
        )

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = OffsetReset.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Begin at given offsets: the first record to read, as an end the first one not to."""
        known = {(topic, partition): offset for (topic, partition), offset in offsets.items()}
        return KafkaOffsetsInitializer(
            StartingOffsets(StartingPlace.OFFSETS, offsets=known, reset=offset_reset_strategy)
        )


class KafkaSource(Source):
    """Reads topics; made by `builder`."""

    def __init__(self, spec: KafkaSourceSpec, produced_type: TypeInformation) -> None:
        """Use `builder`."""
        self._spec = spec
        self._produced_type = produced_type

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Return a builder."""
        return KafkaSourceBuilder()

    def description(self) -> KafkaSourceSpec:
        """Return the source as data."""
        return self._spec

    def get_produced_type(self) -> TypeInformation:
        """Return the deserializer's type."""
        return self._produced_type


class KafkaSourceBuilder:
    """Collects the settings of a `KafkaSource`."""

    def __init__(self) -> None:
        """Start with nothing set."""
        self._servers: str | None = None
        self._topics: tuple[str, ...] = ()
        self._pattern: str | None = None
        self._group_id: str | None = None
        self._starting = StartingOffsets(StartingPlace.EARLIEST)
        self._stopping: StartingOffsets | None = None
        self._deserializer: DeserializationSchema | None = None
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set the brokers to begin with, as ``host:port[,host:port]``."""
        self._servers = bootstrap_servers
        return self

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read these topics."""
        self._topics = topics
        return self

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read every topic whose whole name matches; new ones join while the job runs."""
        self._pattern = topic_pattern
        return self

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Name the consumer group: of committed offsets, and as prefix of the source's groups."""
        self._group_id = group_id
        return self

    def set_starting_offsets(
        self, starting_offsets_initializer: KafkaOffsetsInitializer | str
    ) -> KafkaSourceBuilder:
        """Set where to begin without restored state; ``earliest`` when it is never called.

        Args:
            starting_offsets_initializer: one of `KafkaOffsetsInitializer`, or the word
                ``earliest``, ``latest`` or ``committed``.
        """
        if isinstance(starting_offsets_initializer, KafkaOffsetsInitializer):
            self._starting = starting_offsets_initializer.starting
            return self
        words = (StartingPlace.EARLIEST, StartingPlace.LATEST, StartingPlace.COMMITTED)
        for place in words:
            if starting_offsets_initializer == place.value:
                self._starting = StartingOffsets(place, reset=OffsetReset.NONE)
                return self
        known = [place.value for place in words]
        msg = (
            "set_starting_offsets takes a KafkaOffsetsInitializer or one of these words; "
            f"words={known} got={starting_offsets_initializer!r}"
        )
        raise InvalidConfigError(msg)

    def set_bounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """End the source before these offsets, as they are when the job is first started.

        A job whose sources have all ended finishes. Partitions that are made later are not read.
        """
        self._stopping = stopping_offsets_initializer.starting
        return self

    def set_unbounded(
        self, stopping_offsets_initializer: KafkaOffsetsInitializer
    ) -> KafkaSourceBuilder:
        """Do the same as `set_bounded`: in streaming there is no other mode to choose."""
        return self.set_bounded(stopping_offsets_initializer)

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema
    ) -> KafkaSourceBuilder:
        """Set how a record's value becomes an element."""
        self._deserializer = deserialization_schema
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set the name under which clients appear in the brokers' logs and metrics."""
        self._properties["client.id"] = prefix
        return self

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property of the Java consumer, such as ``security.protocol``."""
        self._properties[key] = value
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set several properties of the Java consumer."""
        self._properties.update(props)
        return self

    def build(self) -> KafkaSource:
        """Return the source.

        Raises:
            InvalidConfigError: a setting is missing or contradicts another; names the setter.
        """
        properties = dict(self._properties)
        servers = self._servers or properties.pop("bootstrap.servers", None)
        if not servers:
            raise InvalidConfigError("a kafka source needs brokers; missing=set_bootstrap_servers")
        self._check_topics()
        self._check_offsets()
        if self._deserializer is None:
            msg = "a kafka source needs a deserializer; missing=set_value_only_deserializer"
            raise InvalidConfigError(msg)
        for name, setter in _OWN_SETTERS.items():
            if name in properties:
                msg = f"this property has a setter of its own, use it; property={name} use={setter}"
                raise InvalidConfigError(msg)
        for name in sorted(_DECIDED & properties.keys()):
            raise InvalidConfigError(f"this property cannot be set on a source; property={name}")
        to_librdkafka(properties)  # refuses what the probes could not use
        spec = KafkaSourceSpec(
            bootstrap_servers=servers,
            topics=self._topics,
            topic_pattern=self._pattern,
            group_id=self._group_id,
            starting_offsets=self._starting,
            value_deserializer=self._deserializer,
            properties=properties,
            stopping_offsets=self._stopping,
        )
        return KafkaSource(spec, self._deserializer.get_produced_type())

    def _check_topics(self) -> None:
        if bool(self._topics) == (self._pattern is not None):
            msg = (
                "a kafka source needs either topics or a pattern; use=set_topics|set_topic_pattern"
            )
            raise InvalidConfigError(msg)
        if self._pattern is not None:
            try:
                re.compile(self._pattern)
            except re.error as error:
                msg = f"not a regular expression; set_topic_pattern={self._pattern!r} cause={error}"
                raise InvalidConfigError(msg) from error

    def _check_offsets(self) -> None:
        for setter, offsets in (
            ("set_starting_offsets", self._starting),
            ("set_bounded", self._stopping),
        ):
            place = offsets.place if offsets is not None else None
            if place is StartingPlace.COMMITTED and self._group_id is None:
                msg = f"committed offsets belong to a group; missing=set_group_id setter={setter}"
                raise InvalidConfigError(msg)
            by_partition = place in {StartingPlace.COMMITTED, StartingPlace.OFFSETS}
            if place is not None and by_partition and self._pattern is not None:
                msg = (
                    "offsets of single partitions need topics by name; "
                    f"use=set_topics {setter}={place.value}"
                )
                raise InvalidConfigError(msg)
