"""A job with one Kafka sink, seen from outside: what slots do to it and what consumers see."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from headrace.checkpoint.protocol.types import FileHandle, SinkCommittable
from headrace.clock import SystemClock
from headrace.connectors.kafka.committer import KafkaCommitter
from headrace.connectors.kafka.probe import ClusterProbe
from headrace.connectors.kafka.reader import read_committed
from headrace.connectors.kafka.record import RecordSerializer
from headrace.connectors.kafka.session import TransactionSession, new_producer
from headrace.connectors.kafka.spec import KafkaSinkSpec
from headrace.connectors.sink import DeliveryGuarantee, LocalCommittable, SinkContext
from headrace.ids import CheckpointId, Generation, JobId, OperatorUid, SlotIndex

VISIBLE_WITHIN_S = 20.0


class Utf8:
    def serialize(self, value):
        return str(value).encode()


def local(pending):
    """The spool as the slot hands it back when its checkpoint is complete or restored."""
    handles = [
        FileHandle(file.path.name, f"chk-{pending.checkpoint_id}/{file.path.name}",
                   file.size_bytes, file.checksum)
        for file in pending.files
    ]  # fmt: skip
    committable = SinkCommittable(
        pending.operator_uid, pending.spool_id, pending.checkpoint_id, handles, pending.records
    )
    return LocalCommittable(committable, tuple(file.path for file in pending.files))


@dataclass
class SinkWorld:
    servers: str
    directory: Path
    job_id: JobId = field(default_factory=lambda: JobId(uuid.uuid4().hex))
    topic: str = field(default_factory=lambda: f"out-{uuid.uuid4().hex[:8]}")
    properties: dict[str, str] = field(default_factory=dict)
    guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    generation: int = 0
    _opened: list = field(default_factory=list)

    @property
    def client(self):
        return {"bootstrap.servers": self.servers}

    @property
    def spec(self):
        serializer = RecordSerializer(self.topic, None, None, Utf8())
        return KafkaSinkSpec(
            self.servers, serializer, self.guarantee, f"test-{self.job_id}", self.properties
        )

    def create_topic(self, partitions=2, topic=None):
        ClusterProbe(self.client).create_topic(topic or self.topic, partitions, {})

    def context(self, slot=0, parallelism=1, restored=None, restored_parallelism=None):
        """A new generation of one slot; its spool directory is new as well."""
        self.generation += 1
        spool_dir = self.directory / f"spool-{slot}-{self.generation}"
        spool_dir.mkdir()
        return SinkContext(
            job_id=self.job_id,
            operator_uid=OperatorUid("payments-out"),
            slot=SlotIndex(slot),
            parallelism=parallelism,
            generation=Generation(self.generation),
            restored_checkpoint_id=restored,
            restored_parallelism=restored_parallelism,
            spool_dir=spool_dir,
            clock=SystemClock(),
        )

    def writer(self, context):
        writer = self.spec.create_writer(context)
        self._opened.append(writer)
        return writer

    def committer(self, context, producer_factory=new_producer):
        """The slot's committer; a producer of its own lets a test break it at a chosen call."""
        config = self.spec.committer_config(context)
        settings = config.publisher.open_session.keywords["settings"]
        breakable = replace(settings, producer_factory=producer_factory)
        open_session = partial(TransactionSession, settings=breakable)
        publisher = replace(config.publisher, open_session=open_session)
        committer = KafkaCommitter(replace(config, publisher=publisher))
        self._opened.append(committer)
        return committer

    def sealed(self, writer, checkpoint, values):
        """Write values and seal them for a checkpoint."""
        for value in values:
            writer.write(value, None)
        return local(writer.prepare_commit(CheckpointId(checkpoint)))

    def visible(self, topic=None):
        """Sorted values that a read_committed consumer sees now."""
        records = read_committed(self.client, topic or self.topic)
        return sorted(int(record.value) for record in records)

    def assert_visible(self, expected, topic=None):
        """A commit is acknowledged a moment before its markers are in every partition."""
        deadline = time.monotonic() + VISIBLE_WITHIN_S
        while (found := self.visible(topic)) != expected and time.monotonic() < deadline:
            time.sleep(0.02)
        assert expected == found

    def ledger_group(self, slot=0):
        return f"headrace.{self.job_id}.payments-out.slot-{slot:04d}"

    def ledger(self, slot=0):
        """What the broker knows as last published checkpoint, None for nothing."""
        offsets = ClusterProbe(self.client).committed(self.ledger_group(slot), [self.topic])
        return offsets.get((self.topic, 0))

    def close(self):
        for opened in self._opened:
            opened.close()
