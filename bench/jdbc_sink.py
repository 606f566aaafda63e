"""The JDBC sink alone: how fast rows are spooled, published in one transaction, and upserted.

Starts a real PostgreSQL server without fsync; it shares the machine, so publication is a lower
bound. Prints one JSON line last: rows a second, bytes of a row on disk, and the milliseconds of a
commit of one row and of the take-over at a start. Rows have two numbers and a string.

    python bench/jdbc_sink.py --rows 200000
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

from headrace.common import Row, Types
from headrace.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from headrace.testing.postgres import DATABASE, PASSWORD, USER, PostgresServer
from headrace.testing.sinks import Attempt, Place, SinkWorld

ROW = Types.ROW_NAMED(["id", "amount", "name"], [Types.LONG(), Types.DOUBLE(), Types.STRING()])


class Table:
    """A sink under test; nobody reads it."""

    def __init__(self, sink: JdbcSink) -> None:
        self.sink = sink

    def make_sink(self) -> JdbcSink:
        return self.sink

    def value(self, number: int) -> Row:
        return Row(id=number, amount=number / 7, name=f"name of {number}")

    def visible(self) -> list[int]:
        return []


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure_exactly_once(world: SinkWorld, rows: int) -> dict[str, float]:
    attempt = world.start()
    spool_s = seconds(lambda: attempt.write(range(rows)))
    item = attempt.seal(1)
    spool_bytes = sum(file.size_bytes for file in item.committable.files)
    publish_s = seconds(lambda: attempt.committer.commit(item))
    commits = sorted(commit_one(attempt, number) for number in range(2, 42))
    take_over_s = seconds(lambda: world.start(Place(restored=41, restored_parallelism=1)))
    return {
        "spool_rows_per_s": round(rows / spool_s),
        "publish_rows_per_s": round(rows / publish_s),
        "spool_bytes_per_row": round(spool_bytes / rows, 1),
        "commit_one_row_ms": round(commits[len(commits) // 2] * 1000, 1),
        "take_over_ms": round(take_over_s * 1000, 1),
    }


def commit_one(attempt: Attempt, checkpoint: int) -> float:
    attempt.write([checkpoint])
    item = attempt.seal(checkpoint)
    return seconds(lambda: attempt.committer.commit(item))


def measure_upsert(world: SinkWorld, rows: int) -> dict[str, float]:
    attempt = world.start()

    def write() -> None:
        attempt.write(range(rows))
        attempt.seal(1)

    return {
        "upsert_new_rows_per_s": round(rows / seconds(write)),
        "upsert_known_rows_per_s": round(rows / seconds(write)),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    rows = parser.parse_args().rows
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    with tempfile.TemporaryDirectory() as scratch, PostgresServer() as server:
        login = {"host": "127.0.0.1", "port": server.port, "dbname": DATABASE}
        with psycopg.connect(**login, user=USER, password=PASSWORD) as connection:
            for name, key in (("plain", ""), ("keyed", "PRIMARY KEY")):
                connection.execute(
                    f"CREATE TABLE {name} (id bigint {key}, amount float8, name text)"
                )
        builder.with_url(server.url).with_user_name(USER).with_password(PASSWORD)
        options = builder.build()
        insert = JdbcSink.insert_statement("plain", ROW)
        sinks = {
            "once": JdbcSink.exactly_once_sink(insert, ROW, options),
            "upsert": JdbcSink.upsert_sink("keyed", ["id"], ROW, options),
        }
        worlds = {}
        for name, sink in sinks.items():
            directory = Path(scratch) / name
            directory.mkdir()
            worlds[name] = SinkWorld(Table(sink), directory)
        numbers = measure_exactly_once(worlds["once"], rows) | measure_upsert(
            worlds["upsert"], rows
        )
        for world in worlds.values():
            world.close()
    print(json.dumps({"bench": "jdbc_sink", "rows": rows, **numbers}))


if __name__ == "__main__":
    main()
