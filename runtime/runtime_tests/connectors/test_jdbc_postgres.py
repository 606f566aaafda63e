"""The JDBC sink with a real PostgreSQL server: the suite of sinks, answers that never come."""

from __future__ import annotations

import threading
from contextlib import closing

import psycopg
import pytest

from headrace.common import Row
from headrace.connectors.jdbc.session import DatabaseSession, SessionSettings
from headrace.connectors.sink import CommitOutcome, DeliveryGuarantee
from headrace.errors import SinkCommitError, SourceUnavailableError
from headrace.testing.postgres import USER
from headrace.testing.sinks import (
    AtLeastOnceSinkContract,
    Place,
    SinkWorld,
    TwoPhaseSinkContract,
)
from runtime_tests.connectors.cutting_proxy import CuttingProxy
from runtime_tests.connectors.postgres_world import (
    TableTarget,
    UpsertTarget,
    connection_settings,
    options,
)

pytestmark = pytest.mark.integration


@pytest.fixture
def world(target, tmp_path):
    made = SinkWorld(target, tmp_path)
    yield made
    made.close()


class TestExactlyOnce(TwoPhaseSinkContract):
    killed_after_calls = (10, 300, 700, 1000, 1300, 1600, 2000, 2500, 3000, 4000, 6000, 9000, 20000)

    @pytest.fixture
    def sink_under_test(self, target):
        return target


class TestAtLeastOnce(AtLeastOnceSinkContract):
    @pytest.fixture
    def sink_under_test(self, target):
        target.guarantee = DeliveryGuarantee.AT_LEAST_ONCE
        return target


class TestUpsert(AtLeastOnceSinkContract):
    @pytest.fixture
    def sink_under_test(self, database, server):
        return UpsertTarget(database, server.port)

    def test_rows_that_are_repeated_are_there_once_and_the_last_one_counts(
        self, sink_under_test, tmp_path, database
    ):
        """H8: without a ledger, readers see every key once, whatever is repeated."""
        world = SinkWorld(sink_under_test, tmp_path)
        for _ in range(2):
            attempt = world.start()
            attempt.write([1, 2, 3, 2])
            attempt.writer.write(Row(number=3, name="last"), None)
            attempt.seal(1)
        world.close()
        rows = database.execute(f'SELECT * FROM "{sink_under_test.schema}"."order" ORDER BY 1')
        assert [(1, "row 1"), (2, "row 2"), (3, "last")] == rows.fetchall()


# ---- answers that never come


@pytest.mark.parametrize(
    ("marker", "moment"),
    [
        (b"COMMIT", "after"),
        (b"COMMIT", "before"),
        (b"FOR UPDATE", "after"),
        (b"row 3", "after"),
        (b"SET checkpoint_id", "before"),
    ],
)
def test_rows_are_there_once_when_the_connection_is_cut(database, server, tmp_path, marker, moment):
    proxy = CuttingProxy(server.port)
    with closing(proxy):
        target = TableTarget(database, proxy.port)
        world = SinkWorld(target, tmp_path)
        attempt = world.start()
        attempt.write(range(10))
        proxy.arm(marker, moment)
        outcome = attempt.committer.commit(attempt.seal(1))
        assert (CommitOutcome.PUBLISHED, 1) == (outcome, proxy.cuts)
        assert list(range(10)) == world.visible()
        world.close()


def test_rows_are_there_once_when_the_server_is_killed(server, database, tmp_path):
    target = TableTarget(database, server.port)
    world = SinkWorld(target, tmp_path)
    attempt = world.start()
    attempt.write([1])
    attempt.committer.commit(attempt.seal(1))
    attempt.write([2])
    item = attempt.seal(2)
    server.kill()
    restart = threading.Thread(target=server.start)
    restart.start()
    assert CommitOutcome.PUBLISHED is attempt.committer.commit(item)
    restart.join()
    world.close()
    with closing(psycopg.connect(**connection_settings(server), autocommit=True)) as fresh:
        target.database = fresh
        assert [1, 2] == world.visible()


def test_a_frozen_older_attempt_holds_up_a_newer_one_for_a_bounded_time(world, target, database):
    """It stopped inside its transaction: the server ends it, and with it its lock."""
    target.timeout_s = 1
    frozen = world.start()
    frozen.write([1])
    item = world.uploaded(frozen.seal(1))
    connection = frozen.committer._session._connection
    connection.execute("BEGIN")
    connection.execute(f'SELECT 1 FROM "{target.schema}"."ledger" FOR UPDATE')
    target.timeout_s = 20
    world.start(Place(restored=1, restored_parallelism=1), [item])
    assert [1] == world.visible()


def test_a_cancelled_generation_ends_its_commit_soon(world, target, database):
    attempt = world.start()
    attempt.write([1])
    item = attempt.seal(1)
    with database.transaction():
        database.execute(f'LOCK TABLE "{target.schema}"."order"')

        def close():
            attempt.context.cancelled.set()
            attempt.committer.close()

        threading.Timer(0.2, close).start()
        with pytest.raises(SourceUnavailableError, match="generation is over"):
            attempt.committer.commit(item)
    assert [] == world.visible()


def test_slots_may_create_the_ledger_together(target, server):
    settings = SessionSettings(options(server.port).settings(), 10_000)
    failures = []

    def create():
        try:
            with closing(DatabaseSession(settings)) as session:
                session.ensure_ledger_table(f"{target.schema}.ledger")
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=create) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == failures


def test_a_commit_is_on_disk_even_where_the_databases_default_is_less(server, database):
    database.execute(f"ALTER ROLE {USER} SET synchronous_commit = off")
    try:
        settings = SessionSettings(options(server.port).settings(), 10_000)
        with closing(DatabaseSession(settings)) as session:
            assert ("on",) == session._one("SHOW synchronous_commit", [])
    finally:
        database.execute(f"ALTER ROLE {USER} RESET synchronous_commit")


# ---- rows that the database refuses


def test_a_refused_row_stops_the_job_and_is_published_once_the_table_takes_it(
    database, server, tmp_path
):
    target = TableTarget(database, server.port, "CONSTRAINT small CHECK (number < 3)")
    world = SinkWorld(target, tmp_path)
    attempt = world.start()
    attempt.write([1, 2, 3])
    item = world.uploaded(attempt.seal(1))
    with pytest.raises(SinkCommitError, match=r'sqlstate=23514 cause=.*"small"'):
        attempt.committer.commit(item)
    assert [] == world.visible()
    database.execute(f'ALTER TABLE "{target.schema}"."order" DROP CONSTRAINT small')
    world.start(Place(restored=1, restored_parallelism=1), [item])
    assert [1, 2, 3] == world.visible()
    world.close()
