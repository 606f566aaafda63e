"""Where a bounded Kafka source ends, for each of the places that a program may name (A17)."""

from __future__ import annotations

import dataclasses

import pytest
from confluent_kafka import Producer

from headrace.connectors.kafka.spec import KafkaSourceSpec
from headrace.connectors.kafka.starting_offsets import OffsetReset, StartingOffsets, StartingPlace
from headrace.connectors.kafka.stopping_offsets import find_stopping_offsets, matching_topics
from headrace.errors import InvalidConfigError

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)


class Cluster:
    """Partitions with offsets 10 (first) .. 20 (after the last); the last record is at 1000 ms."""

    def partitions(self, topics):
        return {"a": [0, 1], "b": [0]}

    def committed(self, group, topics):
        return {A0: 15} if group == "fraud" else {}

    def earliest(self, partitions):
        return dict.fromkeys(partitions, 10)

    def latest(self, partitions):
        return dict.fromkeys(partitions, 20)

    def at_time(self, partitions, time_ms):
        return {partition: 17 for partition in partitions if partition == A1 and time_ms <= 1000}


def end(place, group="fraud", **more):
    return find_stopping_offsets(Cluster(), ("a", "b"), StartingOffsets(place, **more), group)


def test_latest_is_the_end_of_every_partition_now():
    assert {A0: 20, A1: 20, B0: 20} == end(StartingPlace.LATEST)


def test_earliest_is_before_the_first_record():
    assert {A0: 10, A1: 10, B0: 10} == end(StartingPlace.EARLIEST)


def test_a_time_that_a_partition_has_not_reached_is_its_end_now():
    assert {A0: 20, A1: 17, B0: 20} == end(StartingPlace.TIMESTAMP, timestamp_ms=900)


@pytest.mark.parametrize(("reset", "rest"), [(OffsetReset.EARLIEST, 10), (OffsetReset.LATEST, 20)])
def test_partitions_that_nobody_names_follow_the_reset_strategy(reset, rest):
    assert {A0: 15, A1: rest, B0: rest} == end(StartingPlace.COMMITTED, reset=reset)
    given = {A1: 99}
    assert {A0: rest, A1: 99, B0: rest} == end(StartingPlace.OFFSETS, offsets=given, reset=reset)


def test_without_a_reset_strategy_every_partition_must_be_named():
    with pytest.raises(InvalidConfigError, match=r"\('a', 0\)"):
        end(StartingPlace.OFFSETS, offsets={A1: 99}, reset=OffsetReset.NONE)


def test_a_pattern_matches_whole_names_and_must_match_one():
    assert ["pay-1", "pay-2"] == matching_topics(["pay-2", "pay-1", "repay-1"], r"pay-\d")
    with pytest.raises(InvalidConfigError, match="no topic matches"):
        matching_topics(["other"], "pay.*")


@pytest.mark.integration
def test_a_real_broker_answers_for_every_place(world):
    producer = Producer(world.client)
    for number in range(5):
        producer.produce(world.topic, b"x", partition=0, timestamp=1_000 + number)
    assert producer.flush(10) == 0
    source = KafkaSourceSpec(
        bootstrap_servers=world.servers,
        topics=(world.topic,),
        topic_pattern=None,
        group_id="nobody",
        starting_offsets=StartingOffsets(StartingPlace.EARLIEST),
        value_deserializer=None,
        properties={"isolation.level": "read_committed"},
    )

    def ends(place, **more):
        spec = dataclasses.replace(source, stopping_offsets=StartingOffsets(place, **more))
        return {partition: offset for (_, partition), offset in spec.find_end().items()}

    assert source.find_end() is None
    assert {0: 5, 1: 0} == ends(StartingPlace.LATEST)
    assert {0: 0, 1: 0} == ends(StartingPlace.EARLIEST)
    assert {0: 3, 1: 0} == ends(StartingPlace.TIMESTAMP, timestamp_ms=1_003)
    assert {0: 5, 1: 0} == ends(StartingPlace.TIMESTAMP, timestamp_ms=9_000)
    assert {0: 5, 1: 0} == ends(StartingPlace.COMMITTED, reset=OffsetReset.LATEST)
    by_pattern = dataclasses.replace(
        source,
        topics=(),
        topic_pattern=f"{world.topic[:-1]}.",
        stopping_offsets=StartingOffsets(StartingPlace.LATEST),
    )
    assert {(world.topic, 0): 5, (world.topic, 1): 0} == by_pattern.find_end()
