"""The broker for tests keeps its data over SIGKILL and never outlives its owner."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.connectors.kafka.probe import ClusterProbe
from headrace.errors import InvalidConfigError
from headrace.testing.kafka_broker import KafkaBroker


def test_it_says_what_it_needs(tmp_path):
    with pytest.raises(InvalidConfigError, match="class path"):
        KafkaBroker(tmp_path, [])


@pytest.mark.integration
def test_topics_survive_a_kill(broker, world):
    broker.kill()
    broker.start()
    assert ClusterProbe(world.client).partitions([world.topic]) == {world.topic: [0, 1]}


@pytest.mark.integration
def test_it_dies_with_the_process_that_started_it(tmp_path):
    owner = subprocess.Popen(
        [sys.executable, "-m", "runtime_tests.connectors.broker_owner", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        broker = Path("/proc") / owner.stdout.readline().strip()
        assert broker.exists()
        owner.kill()
    deadline = time.monotonic() + 10
    while broker.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not broker.exists()
