"""Spark reads the sources with the options of their descriptions, and decoders take its rows.

It reads what file sinks have written as tables as well, in the same process.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import cloudpickle
import pytest
from confluent_kafka import Producer

from headrace.common.serialization import SimpleStringSchema
from headrace.common.time import Duration
from headrace.datastream.connectors.file_system import FileSource, StreamFormat
from headrace.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
)
from headrace.testing.sinks import Place
from headrace.testing.sinks import SinkWorld as FileSinkWorld
from runtime_tests.connectors.sink_world import SinkWorld
from runtime_tests.connectors.spark_reader import Reading, Table
from runtime_tests.sinks.targets import JsonTarget, ParquetTarget

pytestmark = pytest.mark.integration

BASE_MS = int(time.time() * 1000) - 60_000


def fill(world):
    """Write six records a partition, a second apart in the broker's time."""
    producer = Producer(world.client)
    for partition in (0, 1):
        for number in range(6):
            value, stamp = f"{partition}-{number}", BASE_MS + number * 1000
            producer.produce(world.topic, value, partition=partition, timestamp=stamp)
    assert producer.flush(10) == 0


def kafka_source(world, starting):
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(world.servers)
        .set_topics(world.topic)
        .set_group_id("tests")
        .set_starting_offsets(starting)
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
        .description()
    )


@pytest.fixture(scope="module")
def results(broker, tmp_path_factory):
    """Results of all readings, from one Spark process: by name, (values, timestamps) a reading."""
    directory = tmp_path_factory.mktemp("spark")
    world = SinkWorld(broker.bootstrap_servers, directory)
    world.create_topic()
    fill(world)
    offsets = KafkaOffsetsInitializer
    (directory / "in").mkdir()
    lines = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{directory}/in")
        .monitor_continuously(Duration.of_seconds(1))
        .build()
        .description()
    )
    readings = {
        "beginning": Reading(kafka_source(world, offsets.earliest()), "1"),
        "offsets": Reading(
            kafka_source(world, offsets.offsets({KafkaTopicPartition(world.topic, 1): 4})), "2"
        ),
        "time": Reading(kafka_source(world, offsets.timestamp(BASE_MS + 2_500)), "3"),
        "files": Reading(lines, "4", {f"{directory}/in/1.txt": "a\nä ü\n"}),
        "more files": Reading(lines, "4", {f"{directory}/in/2.txt": "c\n"}),
    }
    for reading in list(readings.values()):
        reading.log = str(directory / "log" / reading.log)
    for name, target in (("json", JsonTarget), ("parquet", ParquetTarget)):
        path = write_and_leave_pending(target, directory / name)
        readings[name] = Table(str(path), name, ["number", "name"])
        manifests = f"{path}/_headrace/*/*/*.json"
        readings[f"{name} manifests"] = Table(manifests, "json", ["records", "size(parts)"])
    (directory / "readings").write_bytes(cloudpickle.dumps(list(readings.values())))
    child = subprocess.run(
        [sys.executable, "-m", "runtime_tests.connectors.spark_reader",
         str(directory / "readings"), str(directory / "results")],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-3000:]
    return dict(zip(readings, json.loads((directory / "results").read_text()), strict=True))


def write_and_leave_pending(target, directory):
    """Two committed checkpoints of two slots, a sealed third one, and rows after it."""
    directory.mkdir()
    world = FileSinkWorld(target(directory / "out"), directory)
    for slot in (0, 1):
        attempt = world.start(Place(slot, 2))
        for checkpoint in (1, 2):
            attempt.write([100 * slot + checkpoint, 100 * slot + checkpoint + 10])
            attempt.committer.commit(attempt.seal(checkpoint))
        attempt.write([-1])
        attempt.seal(3)
        attempt.write([-2])
    return directory / "out"


def values_from(first):
    return sorted(f"{partition}-{n}" for partition in (0, 1) for n in range(first[partition], 6))


def test_a_topic_is_read_from_its_beginning_with_the_brokers_timestamps(results):
    values, stamps = results["beginning"]
    assert values_from((0, 0)) == sorted(values)
    assert {BASE_MS + n * 1000 for n in range(6)} == set(stamps)


def test_given_offsets_name_the_first_record_and_other_partitions_begin_early(results):
    assert values_from((0, 4)) == sorted(results["offsets"][0])


def test_a_time_names_the_first_records(results):
    assert values_from((3, 3)) == sorted(results["time"][0])


def test_lines_of_files_are_read_once(results):
    assert [["a", "ä ü"], []] == results["files"]
    assert [["c"], []] == results["more files"]


@pytest.mark.parametrize(("name", "row"), [("json", "line {}\nend"), ("parquet", "row {}")])
def test_a_sinks_directory_is_a_table_of_exactly_the_committed_rows(results, name, row):
    """H9: rows of a checkpoint that is not complete are not in the directory at all."""
    rows, columns = results[name]
    committed = [1, 2, 11, 12, 101, 102, 111, 112]
    assert [[number, row.format(number)] for number in committed] == sorted(rows)
    assert {("number", "bigint"), ("name", "string")} == {tuple(column) for column in columns}
    manifests, _ = results[f"{name} manifests"]
    assert [[2, 1]] * 4 == manifests
