"""Builders take what PyFlink's take and name the setter where something is missing (B4, H4)."""

from __future__ import annotations

import cloudpickle
import pytest

from headrace.common.serialization import SimpleStringSchema
from headrace.connectors.kafka.spec import KafkaSinkSpec, KafkaSourceSpec
from headrace.connectors.kafka.starting_offsets import OffsetReset, StartingOffsets, StartingPlace
from headrace.connectors.sink import TwoPhaseCommittingSink
from headrace.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicPartition,
)
from headrace.errors import InvalidConfigError


def source_builder():
    return (
        KafkaSource.builder()
        .set_bootstrap_servers("kafka:9092")
        .set_topics("payments", "refunds")
        .set_group_id("fraud")
        .set_value_only_deserializer(SimpleStringSchema())
    )


def records():
    return (
        KafkaRecordSerializationSchema.builder()
        .set_topic("alerts")
        .set_key_serialization_schema(SimpleStringSchema())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )


def sink_builder():
    return (
        KafkaSink.builder()
        .set_bootstrap_servers("kafka:9092")
        .set_record_serializer(records())
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("fraud-pipeline-sink-v2")
    )


def options(builder):
    return builder.build().description().spark_options()


def test_a_source_is_described_by_plain_data():
    spec = source_builder().build().description()
    assert isinstance(spec, KafkaSourceSpec)
    assert (spec.bootstrap_servers, spec.topics, spec.group_id) == (
        "kafka:9092",
        ("payments", "refunds"),
        "fraud",
    )
    assert spec.starting_offsets == StartingOffsets(StartingPlace.EARLIEST)


def test_spark_reads_it_with_these_options():
    assert options(source_builder()) == {
        "kafka.bootstrap.servers": "kafka:9092",
        "subscribe": "payments,refunds",
        "groupIdPrefix": "fraud",
        "failOnDataLoss": "true",
        "startingOffsets": "earliest",
    }


def test_client_properties_get_sparks_prefix():
    builder = source_builder().set_properties(
        {"security.protocol": "SSL", "isolation.level": "read_committed"}
    )
    found = options(builder)
    assert found["kafka.security.protocol"] == "SSL"
    assert found["kafka.isolation.level"] == "read_committed"


def test_a_pattern_subscribes_to_a_pattern():
    builder = (
        KafkaSource.builder()
        .set_bootstrap_servers("kafka:9092")
        .set_topic_pattern("pay.*")
        .set_value_only_deserializer(SimpleStringSchema())
    )
    found = options(builder)
    assert (found["subscribePattern"], "subscribe" in found) == ("pay.*", False)


@pytest.mark.parametrize("place", ["earliest", "latest"])
def test_starting_offsets_are_a_word_or_an_initializer(place):
    by_word = options(source_builder().set_starting_offsets(place))
    initializer = getattr(KafkaOffsetsInitializer, place)()
    assert options(source_builder().set_starting_offsets(initializer)) == by_word
    assert by_word["startingOffsets"] == place


def test_starting_at_a_time():
    found = options(
        source_builder().set_starting_offsets(KafkaOffsetsInitializer.timestamp(1_700_000_000_000))
    )
    assert found["startingTimestamp"] == "1700000000000"
    assert found["startingOffsetsByTimestampStrategy"] == "latest"


def test_given_offsets_are_kept_by_partition():
    initializer = KafkaOffsetsInitializer.offsets(
        {KafkaTopicPartition("payments", 1): 42}, KafkaOffsetResetStrategy.LATEST
    )
    spec = source_builder().set_starting_offsets(initializer).build().description()
    assert spec.starting_offsets == StartingOffsets(
        StartingPlace.OFFSETS, offsets={("payments", 1): 42}, reset=OffsetReset.LATEST
    )


@pytest.mark.parametrize("setter", ["set_bounded", "set_unbounded"])
def test_a_source_may_end(setter):
    builder = source_builder()
    assert builder.build().description().stopping_offsets is None
    bounded = getattr(builder, setter)(KafkaOffsetsInitializer.latest()).build().description()
    assert bounded.stopping_offsets == StartingOffsets(StartingPlace.LATEST)
    assert bounded.spark_options() == options(source_builder())


def no_servers():
    return KafkaSource.builder().set_topics("t").set_value_only_deserializer(SimpleStringSchema())


@pytest.mark.parametrize(
    ("builder", "named"),
    [
        (no_servers, "set_bootstrap_servers"),
        (lambda: KafkaSource.builder().set_bootstrap_servers("k:1"), "set_topics"),
        (lambda: source_builder().set_topic_pattern("x.*"), "set_topic_pattern"),
        (
            lambda: KafkaSource.builder().set_bootstrap_servers("k:1").set_topics("t"),
            "set_value_only_deserializer",
        ),
        (lambda: source_builder().set_property("group.id", "x"), "set_group_id"),
        (
            lambda: (
                no_servers()
                .set_bootstrap_servers("k:1")
                .set_bounded(KafkaOffsetsInitializer.committed_offsets())
            ),
            "setter=set_bounded",
        ),
        (lambda: source_builder().set_property("auto.offset.reset", "x"), "set_starting_offsets"),
        (lambda: source_builder().set_property("enable.auto.commit", "true"), "enable.auto.commit"),
        (
            lambda: (
                no_servers()
                .set_bootstrap_servers("k:1")
                .set_starting_offsets(KafkaOffsetsInitializer.committed_offsets())
            ),
            "set_group_id",
        ),
    ],
)
def test_a_source_that_cannot_work_names_the_setter(builder, named):
    with pytest.raises(InvalidConfigError, match=named):
        builder().build()


def test_an_unknown_starting_word_is_refused():
    with pytest.raises(InvalidConfigError, match="words="):
        source_builder().set_starting_offsets("beginning")


def test_a_sink_is_a_two_phase_sink():
    spec = sink_builder().build().description()
    assert isinstance(spec, KafkaSinkSpec)
    assert isinstance(spec, TwoPhaseCommittingSink)
    assert (spec.serializer.topic, spec.transactional_id_prefix) == (
        "alerts",
        "fraud-pipeline-sink-v2",
    )
    assert spec.transaction_timeout_ms == 600_000


def test_a_sink_without_a_guarantee_gives_none():
    sink = KafkaSink.builder().set_bootstrap_servers("k:1").set_record_serializer(records())
    assert sink.build().description().delivery_guarantee is DeliveryGuarantee.NONE


@pytest.mark.parametrize(
    ("builder", "named"),
    [
        (lambda: KafkaSink.builder().set_record_serializer(records()), "set_bootstrap_servers"),
        (lambda: KafkaSink.builder().set_bootstrap_servers("k:1"), "set_record_serializer"),
        (lambda: sink_builder().set_transactional_id_prefix(""), "set_transactional_id_prefix"),
        (lambda: sink_builder().set_property("acks", "1"), "acks"),
        (lambda: sink_builder().set_property("enable.idempotence", "false"), "enable.idempotence"),
        (lambda: sink_builder().set_property("transactional.id", "x"), "transactional_id_prefix"),
        (lambda: sink_builder().set_property("transaction.timeout.ms", "10"), "at_least=1000"),
        (lambda: sink_builder().set_property("transaction.timeout.ms", "1 h"), "milliseconds"),
        (lambda: sink_builder().set_property("headrace.lost.ledger", "ignore"), "lost.ledger"),
        (lambda: sink_builder().set_property("headrace.typo", "1"), "headrace.typo"),
    ],
)
def test_a_sink_that_cannot_work_names_the_setter(builder, named):
    with pytest.raises(InvalidConfigError, match=named):
        builder().build()


def test_records_need_a_topic_and_a_value():
    builder = KafkaRecordSerializationSchema.builder
    with pytest.raises(InvalidConfigError, match="set_topic"):
        builder().set_value_serialization_schema(SimpleStringSchema()).build()
    with pytest.raises(InvalidConfigError, match="set_value_serialization_schema"):
        builder().set_topic("t").build()


def test_a_topic_selector_needs_a_ledger_topic_for_exactly_once():
    chosen = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda value: value[0])
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    builder = sink_builder().set_record_serializer(chosen)
    with pytest.raises(InvalidConfigError, match="set_ledger_topic"):
        builder.build()
    spec = builder.set_ledger_topic("ledger").build().description()
    assert spec.serializer.topic == "ledger"
    assert spec.serializer.record(["a"][0], 7)[3] == "a"


def test_descriptions_travel_and_hide_their_secrets():
    spec = sink_builder().set_property("sasl.password", "s3cret").build().description()
    assert "s3cret" not in repr(spec)
    travelled = cloudpickle.loads(cloudpickle.dumps(spec))
    assert travelled.properties == {"sasl.password": "s3cret"}
