"""A Kafka cluster as far as the sink sees it: epochs, ledgers and a log, with faults on demand."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from threading import Event

from confluent_kafka import KafkaError

from headrace.connectors.kafka.committer import CommitterConfig, KafkaCommitter
from headrace.connectors.kafka.lost_ledger import LostLedgerPolicy
from headrace.connectors.kafka.publisher import PublicationInDoubtError, PublisherConfig
from headrace.connectors.kafka.spool import SpoolHeader


class Fault(enum.Enum):
    NONE = "none"
    FAILS = "fails"
    """The publication does not happen and is reported as failed."""
    REPLY_LOST = "reply-lost"
    """The publication happens and is reported as failed."""
    DIES_BEFORE = "dies-before"
    DIES_AFTER = "dies-after"


class Killed(BaseException):
    """Stands for SIGKILL: nothing of the product may catch it."""


class ManualClock:
    """Waits take their time at once."""

    def __init__(self):
        self.now_s = 0.0

    def now_ms(self):
        return int(self.now_s * 1000)

    def monotonic_s(self):
        return self.now_s

    def wait(self, event, timeout_s):
        self.now_s += timeout_s
        return event.is_set()


@dataclass
class FakeCluster:
    epochs: dict[str, int] = field(default_factory=dict)
    ledgers: dict[str, int] = field(default_factory=dict)
    log: list[bytes] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    """What happens to the next publications; when it is empty they work."""
    clock: ManualClock = field(default_factory=ManualClock)

    def open_session(self, identity):
        return FakeSession(self, identity)

    def committer(self, slot=0, fence=(), restored=None, policy=LostLedgerPolicy.FAIL):
        config = CommitterConfig(
            own=identity_of(slot),
            fence=tuple(identity_of(other) for other in fence),
            restored_checkpoint_id=restored,
            publisher=PublisherConfig(
                open_session=self.open_session,
                servers="fake:9092",
                transaction_timeout_ms=600_000,
                commit_timeout_s=60.0,
                lost_ledger=policy,
                clock=self.clock,
                cancelled=Event(),
            ),
        )
        return KafkaCommitter(config)


def identity_of(slot):
    return SpoolHeader("out", f"headrace.job.sink.slot-{slot:04d}", f"prefix-slot-{slot:04d}")


class FakeSession:
    def __init__(self, cluster, identity):
        self._cluster, self._identity = cluster, identity
        self._epoch = None

    def claim(self):
        epochs, name = self._cluster.epochs, self._identity.transactional_id
        self._epoch = epochs[name] = epochs.get(name, 0) + 1

    def read_ledger(self):
        assert self._epoch is not None
        return self._cluster.ledgers.get(self._identity.ledger_group)

    def publish(self, blocks, records, checkpoint_id):
        rows = [record[1] for block in blocks for record in block]
        assert len(rows) == records
        fault = self._cluster.faults.pop(0) if self._cluster.faults else Fault.NONE
        if fault is Fault.DIES_BEFORE:
            raise Killed
        if self._cluster.epochs[self._identity.transactional_id] != self._epoch:
            raise PublicationInDoubtError(KafkaError(KafkaError._FENCED))
        if fault is Fault.FAILS:
            raise PublicationInDoubtError(KafkaError(KafkaError._STATE))
        self._cluster.log += rows
        self._cluster.ledgers[self._identity.ledger_group] = checkpoint_id
        if fault is Fault.DIES_AFTER:
            raise Killed
        if fault is Fault.REPLY_LOST:
            raise PublicationInDoubtError(KafkaError(KafkaError._TIMED_OUT))

    def close(self):
        pass
