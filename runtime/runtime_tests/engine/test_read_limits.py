"""Limits of Spark's sources, changed while a query runs: the seam to Spark's insides."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.cache import cache_dir
from headrace.engine.read_limits import parse_offsets, rows_between
from headrace.testing.kafka_broker import KafkaBroker, resolve_broker_class_path

PROGRAM = Path(__file__).with_name("limits_program.py")


def test_offsets_of_kafka_are_counted_by_partition():
    start = parse_offsets('{"a": {"0": 5, "1": 7}}')
    end = parse_offsets('{"a": {"0": 9, "1": 7}, "b": {"0": 3}}')

    assert {"a-0": 5, "a-1": 7} == start
    assert 4 + 0 + 3 == rows_between(start, end)


@pytest.mark.parametrize(
    "text", ["7", "null", "offset 7", '{"logOffset": 4}', '{"offset": 1, "timestamp": 2}']
)
def test_offsets_of_other_sources_are_not_guessed_at(text):
    assert parse_offsets(text) is None


def test_a_partition_that_is_gone_does_not_count():
    assert 2 == rows_between({"a-0": 5, "a-1": 100}, {"a-0": 7})


@pytest.mark.integration
def test_a_changed_limit_is_what_the_next_epoch_reads(tmp_path):
    """500 rows in ours, 500 in users (own limit 5), 20 files of 10 rows, 4 generated an epoch."""
    files = tmp_path / "files"
    files.mkdir()
    for number in range(20):
        (files / f"{number:02}.txt").write_text("row\n" * 10)
    with KafkaBroker(tmp_path / "kafka", resolve_broker_class_path(cache_dir())) as broker:
        fill(broker.bootstrap_servers, {"ours": 500, "users": 500})
        run = subprocess.run(
            [sys.executable, PROGRAM, broker.bootstrap_servers, files, tmp_path / "log"],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    assert run.returncode == 0, run.stderr[-4000:]
    epochs = json.loads(run.stdout.splitlines()[-1])
    read = [[epoch["rows"][name] for name in ("ours", "users", "files")] for epoch in epochs]
    assert [[10, 5, 10], [30, 30, 20], [7, 7, 30], [100, 100, 10], [353, 358, 130]] == read
    assert all(epoch["rows"]["generated"] == 4 for epoch in epochs)
    ours, text, users = epochs[2]["facts"]
    assert {"unit": "rows", "admitted": 7, "backlog": 453, "ceiling": 50_000} == ours
    assert {"unit": "files", "admitted": 3, "backlog": None, "ceiling": 40} == text
    assert {"unit": "rows", "admitted": 7, "backlog": 458, "ceiling": 5} == users
    assert [0, 0] == [epochs[4]["facts"][index]["backlog"] for index in (0, 2)]


def fill(servers: str, topics: dict[str, int]) -> None:
    """Make topics of one partition and fill them."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
        created.result(30)
    producer = Producer({"bootstrap.servers": servers})
    for name, count in topics.items():
        for _ in range(count):
            producer.produce(name, b"row")
    assert producer.flush(30) == 0
