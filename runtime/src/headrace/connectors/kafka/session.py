"""One transactional id and its ledger: the only code that opens Kafka transactions.

The argument for exactly-once, which every method below upholds (docs/adr/0007):

1. `claim` (InitProducerId) settles whatever transaction the id had, commits or aborts it for good,
   and fences every earlier producer of the id. It returns only when the outcome is written.
2. `read_ledger` after `claim`, with stable offsets, therefore returns the outcome of every
   transaction that ever touched the ledger, and nobody else can move it while this producer holds
   the id: whoever wants to has to claim, and then our next commit fails.
3. `publish` writes the rows and the checkpoint id in one transaction. Whatever interrupts it, a
   fresh session's claim and ledger say whether it happened.

So doubt is never resolved by looking at an error: the session is thrown away, a new one claims and
reads. All waits are sliced, so that a cancelled generation ends within about `SLICE_S`, and an
attempt without progress ends after `SessionSettings.stall_timeout_s`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Event, Thread
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headrace.clock import Clock
from headrace.connectors.kafka.client_errors import (
    ClientEvents,
    ErrorClass,
    classify,
    error_of,
    kafka_errors,
    to_headrace_error,
)
from headrace.connectors.kafka.publisher import PublicationInDoubtError
from headrace.connectors.kafka.spool import SpoolHeader, SpoolRecord
from headrace.errors import CorruptStateError, SourceUnavailableError
from headrace.ids import CheckpointId

logger = logging.getLogger(__name__)

SLICE_S: Final = 2.0
"""Longest single call into the client library."""

_WARM_UP_S: Final = 0.5
LEDGER_PARTITION: Final = 0

SILENT: Final = "2"
"""librdkafka writes every failed connection to stderr, many a second; we report its events."""

_LIBRDKAFKA_DEFAULTS: Final[Mapping[str, str]] = {
    # Like the Java client, so that records of one key meet those of other writers.
    "partitioner": "murmur2_random",
    # A publication is a bulk copy: fill batches, bound the memory (64 MiB).
    "linger.ms": "20",
    # A broker that comes back is found within a second. A client that lost all brokers is not
    # bootstrapped again behind our back (that leaves stale coordinators in its cache, on which
    # calls wait for ever): a stalled session is replaced, which does the same.
    "reconnect.backoff.max.ms": "1000",
    # Connect at once: on demand, the first connection may wait for a timer of a second, which is
    # most of what a take-over costs (6 ms instead of up to 1,060).
    "enable.sparse.connections": "false",
    "metadata.recovery.strategy": "none",
    "log_level": SILENT,
    "queue.buffering.max.messages": "200000",
    "queue.buffering.max.kbytes": "65536",
}

ProducerFactory = Callable[[dict[str, object]], Producer]


def new_producer(config: dict[str, object]) -> Producer:
    """Return the real client; tests hand in one that fails or dies at a chosen call."""
    return Producer(config)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How a session reaches the brokers and how patient it is.

    Attributes:
        client: librdkafka settings, ``bootstrap.servers`` included.
        transaction_timeout_ms: after this long the broker aborts an open transaction.
        stall_timeout_s: longest time that a claim or a publication may go without progress.
        cancelled: ends all waits.
        clock: measures the waits.
        producer_factory: makes the client.
    """

    client: Mapping[str, str]
    transaction_timeout_ms: int
    stall_timeout_s: float
    cancelled: Event
    clock: Clock
    producer_factory: ProducerFactory = new_producer


class TransactionSession:
    """A producer that holds one transactional id; used by one thread."""

    def __init__(self, identity: SpoolHeader, settings: SessionSettings) -> None:
        """Make the clients; nothing is sent yet.

        Raises:
            InvalidConfigError: librdkafka refuses a setting.
        """
        self.identity = identity
        self._settings = settings
        self._events = ClientEvents()
        self._where = {
            "servers": settings.client["bootstrap.servers"],
            "topic": identity.topic,
            "transactional_id": identity.transactional_id,
        }
        with kafka_errors("set up the sink's clients", self._where):
            self._producer = settings.producer_factory(
                {
                    **_LIBRDKAFKA_DEFAULTS,
                    **settings.client,
                    "transactional.id": identity.transactional_id,
                    "transaction.timeout.ms": settings.transaction_timeout_ms,
                    # No delivery callback: a refused row fails the transaction with its cause, and
                    # the binding cannot run one beside a fatal error (it raises SystemError).
                    "error_cb": self._events.on_error,
                }
            )
            # Never subscribes, so it is no group member: it lends the group's name to the
            # transaction and reads the group's offset.
            self._ledger = Consumer(
                {
                    **connection_settings(settings.client),
                    "group.id": identity.ledger_group,
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "error_cb": self._events.on_error,
                }
            )

    def claim(self) -> None:
        """Settle the id's last transaction and fence every earlier producer of it.

        Raises:
            SourceUnavailableError, InvalidConfigError: see `kafka_errors`.
        """
        self._await_broker()
        self._retry("claim the transactional id", lambda: self._producer.init_transactions(SLICE_S))

    def read_ledger(self) -> CheckpointId | None:
        """Return the last published checkpoint id, None when there is none; only after `claim`."""
        offsets: list[TopicPartition] = []
        partition = TopicPartition(self.identity.topic, LEDGER_PARTITION)

        def read() -> None:
            offsets[:] = self._ledger.committed([partition], timeout=SLICE_S)

        self._retry("read the ledger", read)
        (found,) = offsets
        if found.error is not None:
            raise to_headrace_error(found.error, "read the ledger", self._where)
        return CheckpointId(found.offset) if found.offset >= 0 else None

    def publish(
        self, blocks: Iterable[list[SpoolRecord]], records: int, checkpoint_id: CheckpointId
    ) -> None:
        """Write rows and ledger in one transaction; after `claim`, at most once a claim in doubt.

        Args:
            blocks: the rows, read lazily.
            records: how many there must be.
            checkpoint_id: the ledger's new value.

        Raises:
            PublicationInDoubtError: settle with a new session.
            SourceUnavailableError: as above, but the time is over or the generation is.
            CorruptStateError: another number of rows; nothing was committed.
        """
        try:
            self._producer.begin_transaction()
            written = sum(self._produce(block) for block in blocks)
            if written != records:
                msg = (
                    "a spool holds another number of records than its checkpoint says; "
                    f"checkpoint={checkpoint_id} expected={records} actual={written}"
                )
                raise CorruptStateError(msg)
            self._flush()
            self._repeat(lambda: self._send_ledger(checkpoint_id))
            self._repeat(lambda: self._producer.commit_transaction(SLICE_S))
        except KafkaException as exception:
            raise PublicationInDoubtError(self._events.most_telling(error_of(exception))) from None

    def close(self) -> None:
        """Drop the clients; an open transaction is settled by the next claim of the id.

        The producer's own ``close`` would try to abort the transaction and wait for the broker.
        """
        self._producer.purge()
        del self._producer
        self._ledger.close()

    def _await_broker(self) -> None:
        """Let the first connection come up, for at most `_WARM_UP_S`.

        librdkafka looks for the coordinator at once and then on a timer of 500 ms; asked before
        there is a connection, every claim would take that long.
        """
        deadline = self._settings.clock.monotonic_s() + _WARM_UP_S
        while self._settings.clock.monotonic_s() < deadline:
            try:
                if self._producer.cluster_id(0.02):
                    return
            except KafkaException as exception:
                logger.debug("no broker yet cause=%s", exception)

    def _produce(self, block: list[SpoolRecord]) -> int:
        deadline = self._deadline()
        topic = self.identity.topic
        produce = self._producer.produce
        for key, value, timestamp_ms, other_topic, partition, headers in block:
            # librdkafka takes 0 as "now"; a record without time gets the time of publication.
            time = max(0, timestamp_ms)
            while True:
                try:
                    # By position: half the time of keywords.
                    if headers is None:
                        produce(other_topic or topic, value, key, partition, None, None, time)
                    else:
                        produce(
                            other_topic or topic,
                            value,
                            key,
                            partition,
                            None,
                            None,
                            time,
                            [*headers],
                        )
                    break
                except BufferError:
                    self._producer.poll(0.01)
                    self._check(deadline)
        self._producer.poll(0)
        self._check(deadline)
        return len(block)

    def _flush(self) -> None:
        waiting, deadline = len(self._producer), self._deadline()
        while (left := self._producer.flush(SLICE_S)) > 0:
            if left < waiting:
                waiting, deadline = left, self._deadline()
            self._check(deadline)

    def _send_ledger(self, checkpoint_id: CheckpointId) -> None:
        """Add the ledger's move to the transaction.

        librdkafka does not keep this call's timeout while it looks for the group's coordinator
        (confluentinc/librdkafka#5456), so it runs on a thread that can be left behind. What it
        may still do later belongs to a transaction that the next claim has ended.
        """
        offset = TopicPartition(self.identity.topic, LEDGER_PARTITION, checkpoint_id)
        producer, group = self._producer, self._ledger.consumer_group_metadata()
        outcome: Future[None] = Future()

        def call() -> None:
            try:
                producer.send_offsets_to_transaction([offset], group, SLICE_S)
            except BaseException as error:  # noqa: BLE001 - raised again by `outcome.result`
                outcome.set_exception(error)
            else:
                outcome.set_result(None)

        Thread(target=call, name="kafka-ledger", daemon=True).start()
        deadline = self._deadline()
        while not wait([outcome], SLICE_S).done:
            self._check(deadline)
        outcome.result()

    def _retry(self, action: str, call: Callable[[], None]) -> None:
        """Repeat a call that settles or reads, until it works or the time is over."""
        with kafka_errors(action, self._where, self._events):
            self._repeat(call)

    def _repeat(self, call: Callable[[], None]) -> None:
        deadline = self._deadline()
        while True:
            try:
                call()
            except KafkaException as exception:
                self._producer.poll(0)  # lets the client report why
                error = error_of(exception)
                if classify(error) is not ErrorClass.UNAVAILABLE or error.fatal():
                    raise
                if error.txn_requires_abort() or self._events.configuration is not None:
                    raise
                if self._settings.clock.monotonic_s() > deadline:
                    raise
                self._pause()
            else:
                return

    def _pause(self) -> None:
        if self._settings.clock.wait(self._settings.cancelled, 0.05):
            msg = (
                f"the sink's generation is over; transactional_id={self.identity.transactional_id}"
            )
            raise SourceUnavailableError(msg)

    def _check(self, deadline: float) -> None:
        """Raise when the time is over or the generation is."""
        if self._settings.cancelled.is_set():
            self._pause()
        if self._settings.clock.monotonic_s() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001

    def _deadline(self) -> float:
        return self._settings.clock.monotonic_s() + self._settings.stall_timeout_s


def connection_settings(client: Mapping[str, str]) -> dict[str, object]:
    """Return the part of a producer's settings that every client understands."""
    prefixes = ("bootstrap.", "security.", "sasl.", "ssl.", "socket.", "client.", "reconnect.")
    settings = {name: value for name, value in client.items() if name.startswith(prefixes)}
    return {"log_level": client.get("log_level", SILENT), **settings}
