"""One broker and one database server for all tests of a run; a test has a topic or table alone."""

from __future__ import annotations

import psycopg
import pytest

from headrace.cli.cache import cache_dir
from headrace.testing.kafka_broker import (
    KafkaBroker,
    KafkaBrokerConfig,
    resolve_broker_class_path,
)
from headrace.testing.postgres import PostgresServer
from runtime_tests.connectors.postgres_world import TableTarget, connection_settings
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


@pytest.fixture(scope="session")
def server():
    with PostgresServer() as running:
        yield running


@pytest.fixture
def database(server):
    with psycopg.connect(**connection_settings(server), autocommit=True) as connection:
        yield connection


@pytest.fixture
def target(database, server):
    return TableTarget(database, server.port)
