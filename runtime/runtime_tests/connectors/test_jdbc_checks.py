"""What the JDBC sink finds before a job starts, its types, and a job, with a real server."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from headrace.common import Row, Types
from headrace.connectors.jdbc import probe
from headrace.datastream.connectors.jdbc import JdbcExactlyOnceOptions, JdbcSink
from headrace.errors import InvalidConfigError, SourceUnavailableError
from headrace.testing.postgres import PASSWORD, USER
from headrace.testing.sinks import SinkWorld
from runtime_tests.connectors.postgres_world import NUMBER, TableTarget, ledger, options

pytestmark = pytest.mark.integration


# ---- found before the job starts


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(probe, "PAUSE_S", 0.01)


def sink(port, sql="INSERT INTO pg_class (relname) VALUES (?)", field=None, **connection):
    row = Types.ROW_NAMED(["f"], [field or Types.STRING()])
    return JdbcSink.sink(sql, row, options(port, **connection)).description()


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        ({"password": "wrong"}, r"correct user, password or database; .*user=headrace cause="),
        ({"password": None}, r"missing=with_password"),
        ({"user": "nobody"}, r"correct user, password or database"),
        ({"database": "missing"}, r'correct user.*database=missing .*"missing" does not exist'),
    ],
)
def test_refused_credentials_are_found_before_the_start(server, impatient, connection, message):
    with pytest.raises(InvalidConfigError, match=f"(?s){message}") as raised:
        sink(server.port, **connection).probe()
    assert "wrong" not in str(raised.value)


def test_a_server_that_is_not_there_may_come_back(impatient):
    with pytest.raises(SourceUnavailableError, match="port=1 "):
        sink(1).probe()


@pytest.mark.parametrize(
    ("sql", "field", "sqlstate"),
    [
        ("INSERT INTO missing VALUES (?)", None, "42P01"),
        ('INSERT INTO "{}"."order" (missing) VALUES (?)', None, "42703"),
        ('INSERT INTO "{}"."order" (number) VALUES (?)', Types.BOOLEAN(), "42804"),
        ('INSERT INTO "{}"."order" (number) VALUES (?)', Types.SQL_DATE(), "42804"),
        ("INSERT INTO order VALUES (?)", None, "42601"),
    ],
)
def test_a_statement_that_does_not_fit_the_table_is_found_before_the_start(
    server, target, sql, field, sqlstate
):
    with pytest.raises(InvalidConfigError, match=f"action=prepare .*sqlstate={sqlstate}"):
        sink(server.port, sql.format(target.schema), field).probe()


def test_a_ledger_that_may_not_be_created_is_found_before_the_start(server, database, target):
    database.execute("CREATE ROLE poor LOGIN PASSWORD 'p'")
    database.execute(f'GRANT USAGE ON SCHEMA "{target.schema}" TO poor')
    database.execute(f'GRANT INSERT ON "{target.schema}"."order" TO poor')
    once = JdbcExactlyOnceOptions.builder().with_ledger_table(f"{target.schema}.l").build()
    sql = JdbcSink.insert_statement(target.table, NUMBER)
    connection = options(server.port, password="p", user="poor")
    spec = JdbcSink.exactly_once_sink(sql, NUMBER, connection, once).description()
    with pytest.raises(InvalidConfigError, match=r"create the ledger table .*sqlstate=42501"):
        spec.probe()


def test_what_fits_is_found_to_fit(target):
    target.make_sink().description().probe()


# ---- types


def test_values_of_every_type_are_stored_as_they_are(server, database, tmp_path):
    noon = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
    columns = [
        ("smallint", Types.SHORT(), -1),
        ("integer", Types.INT(), 1 << 30),
        ("bigint", Types.LONG(), 1 << 62),
        ("numeric", Types.BIG_INT(), 1 << 90),
        ("numeric", Types.BIG_DEC(), Decimal("1.10")),
        ("real", Types.FLOAT(), 0.5),
        ("double precision", Types.DOUBLE(), 0.1),
        ("boolean", Types.BOOLEAN(), True),
        ("text", Types.STRING(), "ü ' \\ \n"),
        ("varchar(5)", Types.STRING(), "abc"),
        ("uuid", Types.STRING(), uuid.UUID(int=7)),
        ("jsonb", Types.STRING(), {"a": [1]}),
        ("mood", Types.STRING(), "glad"),
        ("bytea", Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\0\xff"),
        ("date", Types.SQL_DATE(), noon.date()),
        ("time", Types.SQL_TIME(), dt.time(1, 2, 3, 4)),
        ("timestamp", Types.SQL_TIMESTAMP(), noon.replace(tzinfo=None)),
        ("timestamptz", Types.INSTANT(), noon),
        ("interval", Types.DURATION(), dt.timedelta(days=1, microseconds=1)),
        ("text[]", Types.LIST(Types.STRING()), ["a", None, 'b"']),
        ("bigint[]", Types.LIST(Types.LONG()), [1, None, 1 << 62]),
    ]
    database.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    fields = [f"f{number}" for number in range(len(columns))]
    types = ", ".join(f"{f} {c[0]}" for f, c in zip(fields, columns, strict=True))
    database.execute(f"CREATE TABLE kinds ({types})")
    row_type = Types.ROW_NAMED(fields, [column[1] for column in columns])

    class Kinds(TableTarget):
        def make_sink(self):
            sql = JdbcSink.insert_statement("kinds", row_type)
            return JdbcSink.exactly_once_sink(sql, row_type, options(self.port), ledger("kinds"))

    target = Kinds(database, server.port)
    target.make_sink().description().probe()
    world = SinkWorld(target, tmp_path)
    attempt = world.start()
    given = [c[2] for c in columns]
    written = [str(v) if isinstance(v, uuid.UUID) else v for v in given]
    written[11] = '{"a": [1]}'
    attempt.writer.write(Row(*written), None)
    attempt.writer.write(Row(*[None] * len(columns)), None)
    attempt.committer.commit(attempt.seal(1))
    world.close()
    found = database.execute("SELECT * FROM kinds").fetchall()
    assert [tuple(given), (None,) * len(columns)] == found


# ---- a job


def test_every_sink_of_a_job_has_every_row_once(server, database, tmp_path):
    """The job ends in good order, so at-least-once is once as well."""
    for name, key in (("once", ""), ("least", ""), ("upsert", "PRIMARY KEY")):
        database.execute(f"CREATE TABLE {name} (number bigint {key}, name text)")
    program = Path(__file__).with_name("sinks_program.py")
    done = subprocess.run(
        [sys.executable, program, server.url, USER, tmp_path],
        cwd=tmp_path,
        env={**os.environ, "PASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    expected = [(number, f"row {number}") for number in range(200)]
    for name in ("once", "least", "upsert"):
        assert expected == sorted(database.execute(f"SELECT * FROM {name}").fetchall())
    assert expected == sorted(
        (row["number"], row["name"]) for row in pq.read_table(tmp_path / "parquet").to_pylist()
    )
    batches = [json.loads(path.read_text()) for path in tmp_path.glob("batch-*")]
    assert list(range(200)) == sorted(number for batch in batches for number in batch)
    ledgers = database.execute("SELECT spool_id FROM headrace_ledger").fetchall()
    assert {("slot-0000",), ("slot-0001",)} == set(ledgers)
