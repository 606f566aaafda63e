"""Tables of a real PostgreSQL server as targets of the JDBC sink."""

from __future__ import annotations

import itertools

from headrace.common import Row, Types
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcSink,
)
from headrace.testing.postgres import DATABASE, PASSWORD, USER

NUMBER = Types.ROW_NAMED(["number", "name"], [Types.LONG(), Types.STRING()])
TABLES = itertools.count()


def options(port, password=PASSWORD, database=DATABASE, user=USER):
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    builder.with_url(f"jdbc:postgresql://127.0.0.1:{port}/{database}").with_user_name(user)
    return (builder if password is None else builder.with_password(password)).build()


def ledger(name):
    return JdbcExactlyOnceOptions.builder().with_ledger_table(f"{name}_ledger").build()


class TableTarget:
    """A table of its own, with a reserved word as its name."""

    guarantee = DeliveryGuarantee.EXACTLY_ONCE
    timeout_s = 20

    def __init__(self, database, port, constraint=""):
        self.database, self.port = database, port
        self.schema = f"Select {next(TABLES)}"
        database.execute(f'CREATE SCHEMA "{self.schema}"')
        database.execute(
            f'CREATE TABLE "{self.schema}"."order" (number bigint {constraint}, name text)'
        )

    @property
    def table(self):
        return f"{self.schema}.order"

    def make_sink(self):
        sql = JdbcSink.insert_statement(self.table, NUMBER)
        if self.guarantee is DeliveryGuarantee.AT_LEAST_ONCE:
            return JdbcSink.sink(sql, NUMBER, options(self.port))
        once = JdbcExactlyOnceOptions.builder().with_ledger_table(f"{self.schema}.ledger")
        once = once.with_timeout_sec(self.timeout_s).build()
        return JdbcSink.exactly_once_sink(sql, NUMBER, options(self.port), once)

    def value(self, number):
        return Row(number=number, name=f"row {number}")

    def visible(self):
        rows = self.database.execute(f'SELECT number FROM "{self.schema}"."order"').fetchall()
        return [number for (number,) in rows]


class UpsertTarget(TableTarget):
    def __init__(self, database, port):
        super().__init__(database, port, "PRIMARY KEY")

    def make_sink(self):
        return JdbcSink.upsert_sink(self.table, ["number"], NUMBER, options(self.port))


def connection_settings(server):
    return {
        "host": "127.0.0.1",
        "port": server.port,
        "dbname": DATABASE,
        "user": USER,
        "password": PASSWORD,
    }
