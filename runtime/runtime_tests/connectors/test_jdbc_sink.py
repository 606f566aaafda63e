"""The JDBC sink over a database in memory: doubt, fencing, lost ledgers, batches, options."""

from __future__ import annotations

import dataclasses
import threading

import psycopg
import pytest

from headrace.common import Row, Types
from headrace.connectors.jdbc.codec import RowCodec
from headrace.connectors.jdbc.committer import CommitterConfig, JdbcCommitter
from headrace.connectors.jdbc.writer import DirectWriter, WriterConfig
from headrace.connectors.sink import (
    CommitOutcome,
    DeliveryGuarantee,
    NoCommitter,
    TwoPhaseCommittingSink,
)
from headrace.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
    JdbcSink,
)
from headrace.errors import (
    InternalError,
    InvalidConfigError,
    InvalidProgramError,
    SinkCommitError,
    SourceUnavailableError,
)
from headrace.testing.sinks import Place, SinkWorld
from runtime_tests.connectors.fake_database import FakeDatabase

ROW = Types.ROW_NAMED(["n"], [Types.LONG()])
SQL = "INSERT INTO t VALUES (?)"
NUMBERED = "INSERT INTO t VALUES ($1)"
OPTIONS = (
    JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    .with_url("jdbc:postgresql://h/d")
    .with_user_name("job")
    .with_password("s3cret")
    .build()
)
PUBLISHED, ALREADY = CommitOutcome.PUBLISHED, CommitOutcome.ALREADY_PUBLISHED


class ManualClock:
    """Waits take no time, and may end a generation."""

    def __init__(self):
        self.now_s = 0.0
        self.at_wait = lambda: None

    def now_ms(self):
        return int(self.now_s * 1000)

    def monotonic_s(self):
        return self.now_s

    def wait(self, event, timeout_s):
        self.now_s += timeout_s
        self.at_wait()
        return event.is_set()


class Target:
    """A sink whose committer talks to the database in memory."""

    def __init__(self, database, clock):
        self.database, self.clock, self.sql = database, clock, SQL

    def make_sink(self):
        spec = JdbcSink.exactly_once_sink(self.sql, ROW, OPTIONS).description()
        return _Described(spec, self.database, self.clock)

    def value(self, number):
        return Row(n=number)

    def visible(self):
        return [row[1] for row in self.database.rows]


class _Described:
    delivery_guarantee = DeliveryGuarantee.EXACTLY_ONCE

    def __init__(self, spec, database, clock):
        self.spec, self.database, self.clock = spec, database, clock

    def probe(self):
        """Nothing to look at."""

    def create_writer(self, context):
        return self.spec.create_writer(context)

    def create_committer(self, context):
        config = CommitterConfig(self.database.connect, "host=h", "ledger", 10.0)
        return JdbcCommitter(config, dataclasses.replace(context, clock=self.clock))


@pytest.fixture
def database():
    return FakeDatabase()


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def target(database, clock):
    return Target(database, clock)


@pytest.fixture
def world(target, tmp_path):
    made = SinkWorld(target, tmp_path)
    yield made
    made.close()


def sealed(attempt, checkpoint, numbers):
    attempt.write(numbers)
    return attempt.seal(checkpoint)


def test_an_answer_that_was_lost_after_the_commit_repeats_nothing(world, database):
    attempt = world.start()
    database.breaks = [("publish", "after")]
    assert PUBLISHED is attempt.committer.commit(sealed(attempt, 1, [1, 2]))
    assert [1, 2] == world.visible()


@pytest.mark.parametrize("times", [1, 3])
def test_a_connection_that_was_lost_before_the_commit_loses_nothing(world, database, times):
    attempt = world.start()
    database.breaks = [("publish", "before"), ("connect", "before")] * times
    assert PUBLISHED is attempt.committer.commit(sealed(attempt, 1, [1, 2]))
    assert [1, 2] == world.visible()


@pytest.mark.parametrize("method", ["connect", "ensure_ledger_table", "claim"])
def test_a_recovery_survives_a_lost_connection(world, database, method):
    database.breaks = [(method, "before")]
    attempt = world.start()
    attempt.committer.commit(sealed(attempt, 1, [1]))
    assert [1] == world.visible()


def test_a_database_that_stays_away_fails_the_job_over(world, database, clock):
    attempt = world.start()
    item = sealed(attempt, 1, [1])
    database.breaks = [("publish", "before")] + [("connect", "before")] * 100
    with pytest.raises(SourceUnavailableError, match="cause=connection lost"):
        attempt.committer.commit(item)
    assert 10.0 <= clock.now_s < 11.0


def test_a_row_that_is_refused_stops_the_job_at_once(world, database, clock):
    attempt = world.start()
    database.breaks, database.error = [("publish", "before")], psycopg.errors.UniqueViolation("b")
    with pytest.raises(SinkCommitError, match="sqlstate=23505"):
        attempt.committer.commit(sealed(attempt, 1, [1]))
    assert 0.0 == clock.now_s


def test_a_generation_that_is_over_ends_its_waits(world, database, clock):
    attempt = world.start()
    item = sealed(attempt, 1, [1])
    database.breaks = [("publish", "before")] * 100
    clock.at_wait = attempt.context.cancelled.set
    with pytest.raises(SourceUnavailableError, match="generation is over"):
        attempt.committer.commit(item)
    assert [] == world.visible()


def test_closing_while_a_call_is_under_way_cancels_it(world, database):
    attempt = world.start()
    item = sealed(attempt, 1, [1])
    entered, leave = threading.Event(), threading.Event()
    session = attempt.committer._session

    def publish(*arguments):
        entered.set()
        assert leave.wait(5)
        raise psycopg.errors.QueryCanceled("canceled")

    session.publish, session.cancel = publish, leave.set
    raised = []

    def commit():
        try:
            attempt.committer.commit(item)
        except SourceUnavailableError as error:
            raised.append(str(error))

    thread = threading.Thread(target=commit)
    thread.start()
    assert entered.wait(5)
    attempt.context.cancelled.set()
    attempt.committer.close()
    thread.join(5)
    assert (1, True) == (len(raised), session.closed)


def test_an_older_generation_is_fenced(world):
    zombie = world.start()
    world.start()
    with pytest.raises(SourceUnavailableError, match="took over"):
        zombie.committer.commit(sealed(zombie, 1, [1]))
    assert [] == world.visible()


def test_a_vanished_slots_older_generation_is_fenced_too(world):
    zombie = world.start(Place(1, 2))
    world.start(Place(0, 1, 1, 2))
    with pytest.raises(SourceUnavailableError, match="took over"):
        zombie.committer.commit(sealed(zombie, 2, [1]))


def test_a_lost_ledger_stops_the_job_and_says_what_to_do(world, database):
    crashed = world.start()
    item = world.uploaded(sealed(crashed, 3, [1]))
    database.ledger.clear()
    with pytest.raises(SinkCommitError, match=r"0 to publish, 3 to leave out.*slot-0000"):
        world.start(Place(restored=3, restored_parallelism=1), [item])
    assert [] == world.visible()


@pytest.mark.parametrize(("written", "expected"), [(0, [1]), (3, [])])
def test_a_person_decides_about_a_lost_ledger_by_writing_it(world, database, written, expected):
    crashed = world.start()
    item = world.uploaded(sealed(crashed, 3, [1]))
    for row in database.ledger.values():
        row[:] = [written, 0]
    world.start(Place(restored=3, restored_parallelism=1), [item])
    assert expected == world.visible()


def test_a_ledger_that_is_missing_without_pending_output_is_written(world, database):
    world.start(Place(restored=7, restored_parallelism=1))
    assert [[7, 1]] == list(database.ledger.values())


def test_output_of_another_jobs_checkpoint_is_published_under_its_ledger(target, tmp_path):
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    old, new = SinkWorld(target, tmp_path / "old"), SinkWorld(target, tmp_path / "new")
    for _ in range(5):
        crashed = old.start()
    item = old.uploaded(sealed(crashed, 3, [1]))
    new._storage = old._storage
    attempt = new.start(Place(restored=3, restored_parallelism=1), [item])
    assert ([PUBLISHED], [1]) == (attempt.recovered, new.visible())
    again = new.start(Place(restored=3, restored_parallelism=1), [item])
    assert ([ALREADY], [1]) == (again.recovered, new.visible())


def test_output_is_published_by_the_statement_that_it_was_written_for(world, target, database):
    crashed = world.start()
    item = world.uploaded(sealed(crashed, 1, [1]))
    target.sql = "INSERT INTO other VALUES (?)"
    world.start(Place(restored=1, restored_parallelism=1), [item])
    assert [(NUMBERED, 1)] == database.rows


def test_a_number_that_was_published_before_is_refused(world):
    attempt = world.start(Place(restored=7, restored_parallelism=1))
    with pytest.raises(SinkCommitError, match="ledger=7 checkpoint=7"):
        attempt.committer.commit(sealed(attempt, 7, [1]))


def test_commits_come_after_the_recovery(target, world):
    context = world.context()
    committer = target.make_sink().create_committer(context)
    with pytest.raises(InternalError, match="before recover"):
        committer.commit(sealed(world.start(), 1, [1]))


# ---- at least once


@pytest.fixture
def writer(database, clock, world):
    config = WriterConfig(database.connect, "host=h", NUMBERED, 3, 100, 2)
    context = dataclasses.replace(world.context(), clock=clock)
    return DirectWriter(config, RowCodec.of_type(ROW.row), context)


def test_a_full_batch_is_written_at_once_and_the_rest_at_the_barrier(writer, database):
    for number in range(4):
        writer.write(Row(n=number), None)
    assert 3 == len(database.rows)
    assert () == writer.prepare_commit(1).files
    assert [0, 1, 2, 3] == [row[1] for row in database.rows]


def test_an_old_batch_is_written_at_the_end_of_an_epoch(writer, database, clock):
    writer.write(Row(n=1), None)
    writer.flush_epoch()
    assert [] == database.rows
    clock.now_s += 0.1
    writer.flush_epoch()
    assert 1 == len(database.rows)


def test_a_batch_is_tried_again_and_may_be_there_twice(writer, database):
    database.breaks = [("write", "after"), ("connect", "before")]
    writer.write(Row(n=1), None)
    writer.prepare_commit(1)
    assert [(NUMBERED, 1)] * 2 == database.rows


def test_retries_have_an_end(writer, database):
    database.breaks = [("write", "before")] * 3
    writer.write(Row(n=1), None)
    with pytest.raises(SourceUnavailableError, match="action=write rows"):
        writer.prepare_commit(1)


def test_nothing_is_asked_of_the_database_without_rows(writer, database):
    writer.flush_epoch()
    writer.prepare_commit(1)
    assert 0 == database.connections


# ---- the program's side


def test_flinks_defaults_are_kept():
    spec = JdbcSink.sink(SQL, ROW, OPTIONS).description()
    assert isinstance(spec, TwoPhaseCommittingSink)
    expected = (DeliveryGuarantee.AT_LEAST_ONCE, 5000, 0, 3)
    found = (spec.delivery_guarantee, spec.batch_size, spec.batch_interval_ms, spec.max_retries)
    assert expected == found
    assert isinstance(spec.create_committer(None), NoCommitter)


def test_options_reach_the_sink():
    execution = (
        JdbcExecutionOptions.builder()
        .with_batch_size(7)
        .with_batch_interval_ms(8)
        .with_max_retries(9)
        .build()
    )
    spec = JdbcSink.upsert_sink("t", ["n"], ROW, OPTIONS, execution).description()
    assert (7, 8, 9) == (spec.batch_size, spec.batch_interval_ms, spec.max_retries)
    assert 'INSERT INTO "t" ("n") VALUES ($1) ON CONFLICT ("n") DO NOTHING' == spec.sql
    once = JdbcExactlyOnceOptions.builder().with_ledger_table("s.l").with_timeout_sec(5).build()
    exact = JdbcSink.exactly_once_sink(SQL, ROW, OPTIONS, once).description()
    assert ("s.l", 5) == (exact.ledger_table, exact.timeout_s)


def test_no_secret_is_shown():
    assert "s3cret" not in repr(JdbcSink.sink(SQL, ROW, OPTIONS).description())


def test_what_does_not_fit_is_refused_by_name():
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder
    for build, kind, message in [
        (lambda: JdbcSink.sink("INSERT", ROW, OPTIONS), InvalidConfigError, "parameters=0"),
        (lambda: JdbcSink.sink(SQL, Types.LONG(), OPTIONS), InvalidProgramError, "Types.ROW"),
        (lambda: builder().build(), InvalidConfigError, "with_url"),
        (
            lambda: builder().with_url("jdbc:postgresql://h/d").with_driver_name("x").build(),
            InvalidConfigError,
            "driver=x",
        ),
        (
            lambda: JdbcExecutionOptions.builder().with_batch_size(0).build(),
            InvalidConfigError,
            "batch_size=0",
        ),
        (
            lambda: JdbcExactlyOnceOptions.builder().with_ledger_table("").build(),
            InvalidConfigError,
            "not a name",
        ),
    ]:
        with pytest.raises(kind, match=message):
            build()
