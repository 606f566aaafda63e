"""One broker for all tests of a run; every test has a topic, job and sinks of its own."""

from __future__ import annotations

import pytest

from headrace.cli.cache import cache_dir
from headrace.testing.kafka_broker import (
    KafkaBroker,
    KafkaBrokerConfig,
    resolve_broker_class_path,
)
from runtime_tests.connectors.sink_world import SinkWorld

SASL_USERS = {"payments": "s3cret"}


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kafka")
    config = KafkaBrokerConfig(sasl_users=SASL_USERS)
    with KafkaBroker(directory, resolve_broker_class_path(cache_dir()), config) as running:
        yield running


@pytest.fixture
def world(broker, tmp_path):
    made = SinkWorld(broker.bootstrap_servers, tmp_path)
    made.create_topic()
    yield made
    made.close()
