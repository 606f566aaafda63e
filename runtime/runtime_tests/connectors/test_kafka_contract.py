"""The Kafka sinks run through the suite that sinks of users run through, with a real broker."""

from __future__ import annotations

import time
import uuid

import pytest

from headrace.common.serialization import SimpleStringSchema
from headrace.connectors.kafka.probe import ClusterProbe
from headrace.connectors.kafka.reader import read_committed
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from headrace.testing.sinks import AtLeastOnceSinkContract, TwoPhaseSinkContract

pytestmark = pytest.mark.integration

SETTLES_WITHIN_S = 2.0


class TopicTarget:
    """A topic of its own."""

    def __init__(self, servers, guarantee):
        self.client = {"bootstrap.servers": servers}
        self.guarantee = guarantee
        self.topic = f"contract-{uuid.uuid4().hex[:8]}"
        ClusterProbe(self.client).create_topic(self.topic, 2, {})

    def make_sink(self):
        builder = KafkaRecordSerializationSchema.builder().set_topic(self.topic)
        records = builder.set_value_serialization_schema(SimpleStringSchema()).build()
        return (
            KafkaSink.builder()
            .set_bootstrap_servers(self.client["bootstrap.servers"])
            .set_record_serializer(records)
            .set_delivery_guarantee(self.guarantee)
            .set_transactional_id_prefix(self.topic)
            .build()
        )

    def value(self, number):
        return str(number)

    def visible(self):
        """A commit is acknowledged a moment before its markers are in every partition."""
        deadline = time.monotonic() + SETTLES_WITHIN_S
        found, last = self._read(), None
        while found != last and time.monotonic() < deadline:
            time.sleep(0.05)
            found, last = self._read(), found
        return found

    def _read(self):
        return [int(record.value) for record in read_committed(self.client, self.topic)]


class TestExactlyOnce(TwoPhaseSinkContract):
    killed_after_calls = (50, 200, 500, 900, 1500)

    @pytest.fixture
    def sink_under_test(self, broker):
        return TopicTarget(broker.bootstrap_servers, DeliveryGuarantee.EXACTLY_ONCE)


class TestAtLeastOnce(AtLeastOnceSinkContract):
    @pytest.fixture
    def sink_under_test(self, broker):
        return TopicTarget(broker.bootstrap_servers, DeliveryGuarantee.AT_LEAST_ONCE)
