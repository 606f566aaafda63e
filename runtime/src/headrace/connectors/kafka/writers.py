"""First phase of the Kafka sink: `SpoolingWriter` (exactly-once) and `DirectWriter` (the others).

Both run on the slot's main thread and turn a value into a record with the same `RecordSerializer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from headrace.clock import Clock
from headrace.connectors.kafka.client_errors import ClientEvents, kafka_errors, to_headrace_error
from headrace.connectors.kafka.record import RecordSerializer
from headrace.connectors.kafka.session import SILENT
from headrace.connectors.kafka.spool import SpoolFileWriter, SpoolHeader
from headrace.connectors.sink import PendingSpool, SpoolFile
from headrace.errors import SourceUnavailableError
from headrace.ids import CheckpointId, OperatorUid

SPOOL_FILE_BYTES_MAX: Final = 256 << 20
"""A longer spool goes on in a new file, so that uploads overlap and a retry repeats little."""

FLUSH_TIMEOUT_S: Final = 60.0


class SpoolingWriter:
    """`headrace.connectors.sink.SinkWriter` that collects records in local files."""

    def __init__(
        self,
        operator_uid: OperatorUid,
        spool_id: str,
        identity: SpoolHeader,
        serializer: RecordSerializer,
        directory: Path,
    ) -> None:
        self._operator_uid = operator_uid
        self._spool_id = spool_id
        self._identity = identity
        self._serialize = serializer.record
        self._directory = directory
        self._number = 0
        self._current: SpoolFileWriter | None = None
        self._sealed: list[SpoolFile] = []
        self._records = 0

    def write(self, value: object, timestamp_ms: int | None) -> None:
        """See `SinkWriter.write`."""
        record = self._serialize(value, timestamp_ms)
        current = self._current
        if current is None or current.size_bytes >= SPOOL_FILE_BYTES_MAX:
            current = self._next_file()
        current.append(record)
        self._records += 1

    def flush_epoch(self) -> None:
        """Nothing to do: blocks are cut by size."""

    def prepare_commit(self, checkpoint_id: CheckpointId) -> PendingSpool:
        """See `SinkWriter.prepare_commit`."""
        self._seal_current()
        pending = PendingSpool(
            self._operator_uid, self._spool_id, checkpoint_id, tuple(self._sealed), self._records
        )
        self._sealed = []
        self._records = 0
        return pending

    def close(self) -> None:
        """Delete what is not sealed under a checkpoint."""
        if self._current is not None:
            self._current.discard()
            self._current = None
        for file in self._sealed:
            file.path.unlink(missing_ok=True)
        self._sealed = []

    def _next_file(self) -> SpoolFileWriter:
        self._seal_current()
        path = self._directory / f"{self._spool_id}-{self._number:08d}.spool"
        self._number += 1
        self._current = SpoolFileWriter(path, self._identity)
        return self._current

    def _seal_current(self) -> None:
        if self._current is not None:
            self._sealed.append(self._current.seal())
            self._current = None


class DirectWriter:
    """`headrace.connectors.sink.SinkWriter` of at-least-once and of no guarantee.

    At-least-once waits at the barrier until the broker has everything; ``wait=False`` never waits.
    """

    def __init__(
        self,
        operator_uid: OperatorUid,
        spool_id: str,
        serializer: RecordSerializer,
        config: Mapping[str, str],
        clock: Clock,
        *,
        wait: bool,
    ) -> None:
        self._operator_uid = operator_uid
        self._spool_id = spool_id
        self._serializer = serializer
        self._clock = clock
        self._wait = wait
        self._failed: KafkaError | None = None
        self._events = ClientEvents()
        self._where = {"servers": config["bootstrap.servers"], "topic": serializer.topic}
        with kafka_errors("set up the sink's client", self._where):
            self._producer = Producer(
                {
                    "partitioner": "murmur2_random",
                    "enable.idempotence": wait,
                    "log_level": SILENT,
                    **config,
                    "error_cb": self._events.on_error,
                    "on_delivery": self._on_delivery,
                    "delivery.report.only.error": True,
                }
            )

    def write(self, value: object, timestamp_ms: int | None) -> None:
        """See `SinkWriter.write`; waits while the client's buffer is full."""
        key, payload, time, topic, _, _ = self._serializer.record(value, timestamp_ms)
        deadline: float | None = None
        while True:
            try:
                with kafka_errors("write a record", self._where, self._events):
                    self._producer.produce(
                        topic or self._serializer.topic, payload, key, timestamp=max(0, time)
                    )
                    return
            except BufferError:
                now = self._clock.monotonic_s()
                deadline = deadline if deadline is not None else now + FLUSH_TIMEOUT_S
                self._producer.poll(0.1)
                self._check(now > deadline)

    def flush_epoch(self) -> None:
        """Let the client report what it could not deliver."""
        with kafka_errors("write a record", self._where, self._events):
            self._producer.poll(0)
        self._check(timed_out=False)

    def prepare_commit(self, checkpoint_id: CheckpointId) -> PendingSpool:
        """See `SinkWriter.prepare_commit`."""
        deadline = self._clock.monotonic_s() + FLUSH_TIMEOUT_S
        with kafka_errors("flush records", self._where, self._events):
            while self._wait and self._producer.flush(1.0) > 0:
                self._check(self._clock.monotonic_s() > deadline)
        self._check(timed_out=False)
        return PendingSpool(self._operator_uid, self._spool_id, checkpoint_id, (), 0)

    def close(self) -> None:
        """Drop what is not delivered: a failover writes it again."""
        self._producer.purge()

    def _check(self, timed_out: bool) -> None:
        if self._failed is not None and self._wait:
            cause = self._events.most_telling(self._failed)
            raise to_headrace_error(cause, "deliver a record", self._where)
        if timed_out:
            where = " ".join(f"{name}={value}" for name, value in self._where.items())
            msg = (
                "kafka did not take the sink's records in time; "
                f"{where} cause={self._events.latest}"
            )
            raise SourceUnavailableError(msg)

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and self._failed is None:
            self._failed = error
