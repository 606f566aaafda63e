"""What a job that is set up wrongly says about it, within seconds (H5, must-hold: bad input)."""

from __future__ import annotations

import dataclasses
import socket

import pytest

from headrace.connectors.kafka.probe import ClusterProbe
from headrace.connectors.kafka.spec import KafkaSourceSpec
from headrace.connectors.kafka.starting_offsets import OffsetReset, StartingOffsets, StartingPlace
from headrace.errors import InvalidConfigError, SourceUnavailableError

pytestmark = pytest.mark.integration


@pytest.fixture
def source(world):
    return KafkaSourceSpec(
        bootstrap_servers=world.servers,
        topics=(world.topic,),
        topic_pattern=None,
        group_id="tests",
        starting_offsets=StartingOffsets(StartingPlace.EARLIEST),
        value_deserializer=None,
        properties={},
    )


def sasl(broker, password):
    return {
        "bootstrap_servers": broker.sasl_bootstrap_servers,
        "properties": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f'username="payments" password="{password}";'
            ),
        },
    }


def test_a_reachable_topic_passes(source, world):
    source.probe()
    world.spec.probe()


def test_right_credentials_pass(source, broker):
    dataclasses.replace(source, **sasl(broker, "s3cret")).probe()


def test_wrong_credentials_are_named(source, broker):
    with pytest.raises(InvalidConfigError, match="refused the credentials") as raised:
        dataclasses.replace(source, **sasl(broker, "wrong")).probe()
    assert "wrong" not in str(raised.value)


def test_an_unknown_topic_is_named(source, world):
    with pytest.raises(InvalidConfigError, match=r"does not exist.*topic=nowhere"):
        dataclasses.replace(source, topics=("nowhere",)).probe()
    world.topic = "nowhere-either"
    with pytest.raises(InvalidConfigError, match=r"does not exist.*topic=nowhere-either"):
        world.spec.probe()


def test_a_missing_broker_is_named(source):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{unused.getsockname()[1]}"
        probe = ClusterProbe({"bootstrap.servers": servers}, timeout_s=1.5)
        with pytest.raises(SourceUnavailableError, match=f"servers={servers}.*refused"):
            probe.check_reachable()


def test_an_unknown_client_setting_is_refused(source):
    with pytest.raises(InvalidConfigError, match=r"ssl\.truststore\.lokation"):
        dataclasses.replace(source, properties={"ssl.truststore.lokation": "x"}).probe()


def test_committed_offsets_are_resolved_for_every_partition(source, world):
    """The group has committed partition 0 only; the other one follows the reset strategy."""
    from confluent_kafka import Consumer, TopicPartition

    group = f"group-{world.job_id}"
    consumer = Consumer({**world.client, "group.id": group})
    consumer.commit(offsets=[TopicPartition(world.topic, 0, 5)], asynchronous=False)
    consumer.close()
    starting = StartingOffsets(StartingPlace.COMMITTED, reset=OffsetReset.LATEST)
    spec = dataclasses.replace(source, group_id=group, starting_offsets=starting)
    expected = f'{{"{world.topic}":{{"0":5,"1":-1}}}}'
    assert expected == spec.spark_options()["startingOffsets"]


def test_progress_is_shown_in_the_consumer_group_and_read_by_nobody(source, world):
    """H13: group offsets are for monitoring."""
    spec = dataclasses.replace(source, group_id=f"group-{world.job_id}")
    spec.report_progress(f'{{"{world.topic}":{{"0":41,"1":7}}}}')
    committed = ClusterProbe(world.client).committed(spec.group_id, [world.topic])
    assert {(world.topic, 0): 41, (world.topic, 1): 7} == committed
    assert spec.spark_options()["startingOffsets"] == "earliest"


def test_a_source_without_a_group_reports_nothing(source):
    dataclasses.replace(source, group_id=None, bootstrap_servers="nowhere:1").report_progress("{}")
