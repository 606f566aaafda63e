"""Frozen descriptions of a Kafka source and sink, as the builders make them.

They travel: in the job graph to the slots (cloudpickle), so they hold no connection and import no
client library until one is needed. Secrets in ``properties`` never appear in ``repr``.

The source is read by Spark's own connector. `KafkaSourceSpec.spark_options` gives its options;
columns are Spark's: key, value, topic, partition, offset, timestamp, timestampType. Offsets belong
to the checkpoint (O4): starting offsets count for a start from empty state only (E12).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from headrace.connectors.kafka.client_config import to_java, to_librdkafka
from headrace.connectors.kafka.lost_ledger import LostLedgerPolicy
from headrace.connectors.kafka.record import RecordSerializer
from headrace.connectors.kafka.spool import SpoolHeader
from headrace.connectors.kafka.starting_offsets import (
    StartingOffsets,
    StartingPlace,
    complete_offsets,
    decode_offsets,
    encode_offsets,
)
from headrace.connectors.kafka.stopping_offsets import find_stopping_offsets, matching_topics
from headrace.connectors.sink import (
    Committer,
    DeliveryGuarantee,
    NoCommitter,
    SinkContext,
    SinkWriter,
)
from headrace.connectors.spools import spool_id_of, spools_to_fence

if TYPE_CHECKING:
    from headrace.connectors.kafka.committer import CommitterConfig

LOST_LEDGER: Final = "headrace.lost.ledger"
COMMIT_TIMEOUT_MS: Final = "headrace.commit.timeout.ms"
LOST_LEDGER_POLICIES: Final = frozenset(policy.value for policy in LostLedgerPolicy)
_OWN_PROPERTIES: Final = frozenset({LOST_LEDGER, COMMIT_TIMEOUT_MS})

DEFAULT_TRANSACTION_TIMEOUT_MS: Final = 600_000
"""10 minutes (H5), below the broker's default transaction.max.timeout.ms of 15."""

TRANSACTION_TIMEOUT_MS_MIN: Final = 1_000
DEFAULT_COMMIT_TIMEOUT_MS: Final = 120_000

STALL_TIMEOUT_S: Final = 30.0
"""A client that makes no progress for this long is replaced; brokers elect leaders in less."""


class DeserializationSchema(Protocol):
    """How bytes become a value; the public classes are in ``headrace.common.serialization``."""

    def deserialize(self, data: bytes) -> object:
        """Return the value of one record."""
        ...


@dataclass(frozen=True, slots=True)
class KafkaSourceSpec:
    """A Kafka source.

    Attributes:
        bootstrap_servers: ``host:port[,host:port]``.
        topics: names, or empty when ``topic_pattern`` is set.
        topic_pattern: Java regular expression over topic names, None when ``topics`` is set.
        group_id: used for committed starting offsets and as prefix of Spark's own groups.
        starting_offsets: where to begin without restored state.
        stopping_offsets: where a bounded source ends, None for one without an end.
        value_deserializer: value bytes -> value.
        properties: client settings in Java's names; secrets among them.
    """

    bootstrap_servers: str
    topics: tuple[str, ...]
    topic_pattern: str | None
    group_id: str | None
    starting_offsets: StartingOffsets
    value_deserializer: DeserializationSchema
    properties: Mapping[str, str] = field(repr=False)
    stopping_offsets: StartingOffsets | None = None

    def client_settings(self) -> dict[str, str]:
        """Return librdkafka settings for probes."""
        return {**to_librdkafka(self.properties), "bootstrap.servers": self.bootstrap_servers}

    def probe(self) -> None:
        """Check from the driver, within 15 s, that brokers answer and topics exist.

        Raises:
            InvalidConfigError: unknown topic, refused credentials, bad setting.
            SourceUnavailableError: no broker answered.
        """
        from headrace.connectors.kafka.probe import ClusterProbe  # noqa: PLC0415 - an extra

        probe = ClusterProbe(self.client_settings())
        if self.topics:
            probe.partitions(self.topics)
        else:
            probe.check_reachable()

    def report_progress(self, spark_offset: str) -> None:
        """Commit the offsets of a completed checkpoint to the group, for monitoring only (H13).

        Nothing ever reads them back for a restore. Does nothing without a group id.

        Args:
            spark_offset: the source's entry in Spark's offset log, a JSON.

        Raises:
            SourceUnavailableError, InvalidConfigError: not done; a caller logs it and goes on.
        """
        from headrace.connectors.kafka.probe import ClusterProbe  # noqa: PLC0415 - an extra

        if self.group_id is not None:
            probe = ClusterProbe(self.client_settings())
            probe.commit_offsets(self.group_id, decode_offsets(spark_offset))

    def spark_options(self) -> dict[str, str]:
        """Return the options of Spark's ``kafka`` source for a start without restored state.

        Asks the brokers when the starting offsets are committed or given ones, because Spark wants
        every partition named.

        Raises:
            InvalidConfigError, SourceUnavailableError: as `probe`.
        """
        starting = self.starting_offsets
        if starting.place in {StartingPlace.COMMITTED, StartingPlace.OFFSETS}:
            return self.build_spark_options(self._resolve_offsets())
        return self.build_spark_options(None)

    def build_spark_options(self, offsets: Mapping[tuple[str, int], int] | None) -> dict[str, str]:
        """Return Spark's options; pure. ``offsets`` are the resolved ones, when any are needed."""
        options = {f"kafka.{name}": value for name, value in to_java(self.properties).items()}
        options["kafka.bootstrap.servers"] = self.bootstrap_servers
        if self.topic_pattern is None:
            options["subscribe"] = ",".join(self.topics)
        else:
            options["subscribePattern"] = self.topic_pattern
        if self.group_id is not None:
            # Spark tracks offsets itself; with one group id two queries would disturb each other.
            options["groupIdPrefix"] = self.group_id
        # Offsets that retention has deleted are lost data: say so, never skip them.
        options["failOnDataLoss"] = "true"
        starting = self.starting_offsets
        match starting.place:
            case StartingPlace.EARLIEST | StartingPlace.LATEST:
                options["startingOffsets"] = starting.place.value
            case StartingPlace.TIMESTAMP:
                options["startingTimestamp"] = str(starting.timestamp_ms)
                # Nothing that young yet: begin with what comes next.
                options["startingOffsetsByTimestampStrategy"] = "latest"
            case StartingPlace.COMMITTED | StartingPlace.OFFSETS:
                options["startingOffsets"] = encode_offsets(offsets or {})
        return options

    def find_end(self) -> dict[tuple[str, int], int] | None:
        """Ask the brokers where the source ends, for a start without restored state.

        Returns:
            for every (topic, partition) the first offset that is not read; None without an end.

        Raises:
            InvalidConfigError, SourceUnavailableError: as `probe`.
        """
        if self.stopping_offsets is None:
            return None
        from headrace.connectors.kafka.probe import ClusterProbe  # noqa: PLC0415 - an extra

        probe = ClusterProbe(self.client_settings())
        topics = self.topics
        if self.topic_pattern is not None:
            topics = tuple(matching_topics(probe.topics(), self.topic_pattern))
        return find_stopping_offsets(probe, topics, self.stopping_offsets, self.group_id)

    def _resolve_offsets(self) -> dict[tuple[str, int], int]:
        from headrace.connectors.kafka.probe import ClusterProbe  # noqa: PLC0415 - an extra

        probe = ClusterProbe(self.client_settings())
        partitions = probe.partitions(self.topics)
        starting = self.starting_offsets
        known = (
            probe.committed(self.group_id or "", self.topics)
            if starting.place is StartingPlace.COMMITTED
            else starting.offsets
        )
        return complete_offsets(known, partitions, starting.reset)


@dataclass(frozen=True, slots=True)
class KafkaSinkSpec:
    """A Kafka sink; a `TwoPhaseCommittingSink`.

    Attributes:
        bootstrap_servers: ``host:port[,host:port]``.
        serializer: value -> record.
        delivery_guarantee: what readers may count on.
        transactional_id_prefix: unique to the sink within the Kafka cluster (H4).
        properties: client settings in Java's names, and ours (``headrace.``); secrets among them.
    """

    bootstrap_servers: str
    serializer: RecordSerializer
    delivery_guarantee: DeliveryGuarantee
    transactional_id_prefix: str
    properties: Mapping[str, str] = field(repr=False)

    @property
    def transaction_timeout_ms(self) -> int:
        """After this long the broker aborts a publication that is under way."""
        text = self.properties.get("transaction.timeout.ms", str(DEFAULT_TRANSACTION_TIMEOUT_MS))
        return int(text)

    def client_settings(self) -> dict[str, str]:
        """Return librdkafka settings."""
        kafka = {k: v for k, v in self.properties.items() if k not in _OWN_PROPERTIES}
        kafka.pop("transaction.timeout.ms", None)
        return {**to_librdkafka(kafka), "bootstrap.servers": self.bootstrap_servers}

    def probe(self) -> None:
        """Check from the driver, within 15 s, that brokers answer and the topic exists.

        Raises:
            InvalidConfigError: unknown topic, refused credentials, bad setting.
            SourceUnavailableError: no broker answered.
        """
        from headrace.connectors.kafka.probe import ClusterProbe  # noqa: PLC0415 - an extra

        probe = ClusterProbe(self.client_settings())
        if self.serializer.topic:
            probe.partitions([self.serializer.topic])
        else:
            probe.check_reachable()

    def create_writer(self, context: SinkContext) -> SinkWriter:
        """See `TwoPhaseCommittingSink.create_writer`."""
        from headrace.connectors.kafka.writers import (  # noqa: PLC0415 - an extra
            DirectWriter,
            SpoolingWriter,
        )

        spool_id = spool_id_of(context.slot)
        if self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            return SpoolingWriter(
                context.operator_uid,
                spool_id,
                self.identity(context, spool_id),
                self.serializer,
                context.spool_dir,
            )
        return DirectWriter(
            context.operator_uid,
            spool_id,
            self.serializer,
            self.client_settings(),
            context.clock,
            wait=self.delivery_guarantee is DeliveryGuarantee.AT_LEAST_ONCE,
        )

    def create_committer(self, context: SinkContext) -> Committer:
        """See `TwoPhaseCommittingSink.create_committer`."""
        if self.delivery_guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return NoCommitter()
        from headrace.connectors.kafka.committer import KafkaCommitter  # noqa: PLC0415 - an extra

        return KafkaCommitter(self.committer_config(context))

    def identity(self, context: SinkContext, spool_id: str) -> SpoolHeader:
        """Return where a spool is published and how that is proved (DESIGN 7)."""
        return SpoolHeader(
            topic=self.serializer.topic,
            ledger_group=f"headrace.{context.job_id}.{context.operator_uid}.{spool_id}",
            transactional_id=f"{self.transactional_id_prefix}-{spool_id}",
        )

    def committer_config(self, context: SinkContext) -> CommitterConfig:
        """Return the committer's configuration for one slot."""
        from headrace.connectors.kafka.committer import CommitterConfig  # noqa: PLC0415 - an extra
        from headrace.connectors.kafka.publisher import PublisherConfig  # noqa: PLC0415 - an extra
        from headrace.connectors.kafka.session import (  # noqa: PLC0415 - an extra
            SessionSettings,
            TransactionSession,
        )

        commit_timeout_s = (
            int(self.properties.get(COMMIT_TIMEOUT_MS, str(DEFAULT_COMMIT_TIMEOUT_MS))) / 1000
        )
        session = SessionSettings(
            client=self.client_settings(),
            transaction_timeout_ms=self.transaction_timeout_ms,
            stall_timeout_s=min(STALL_TIMEOUT_S, commit_timeout_s),
            cancelled=context.cancelled,
            clock=context.clock,
        )
        vanished = spools_to_fence(
            context.slot, context.parallelism, context.restored_parallelism or 0
        )
        return CommitterConfig(
            own=self.identity(context, spool_id_of(context.slot)),
            fence=tuple(self.identity(context, spool_id) for spool_id in vanished),
            restored_checkpoint_id=context.restored_checkpoint_id,
            publisher=PublisherConfig(
                open_session=partial(TransactionSession, settings=session),
                servers=self.bootstrap_servers,
                transaction_timeout_ms=self.transaction_timeout_ms,
                commit_timeout_s=commit_timeout_s,
                lost_ledger=LostLedgerPolicy(self.properties.get(LOST_LEDGER, "fail")),
                clock=context.clock,
                cancelled=context.cancelled,
            ),
        )
