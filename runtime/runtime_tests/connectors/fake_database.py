"""A database with a ledger, in memory, whose connections can be made to break."""

from __future__ import annotations

import psycopg

from headrace.connectors.jdbc.session import Publication
from headrace.errors import SourceUnavailableError


class FakeDatabase:
    """What all connections see."""

    def __init__(self):
        self.rows = []
        self.ledger = {}  # (job, sink, spool) -> [checkpoint, generation]
        self.tables = set()
        self.connections = 0
        self.breaks = []  # what happens to the next calls: (method, "before" | "after")
        self.error = psycopg.OperationalError("connection lost")

    def connect(self):
        self.connections += 1
        self.break_if_told("connect", "before")
        return FakeSession(self)

    def break_if_told(self, method, moment):
        if self.breaks and self.breaks[0] == (method, moment):
            del self.breaks[0]
            raise self.error


class FakeSession:
    def __init__(self, database):
        self.database = database
        self.closed = False

    def ensure_ledger_table(self, table):
        self.database.break_if_told("ensure_ledger_table", "before")
        self.database.tables.add(table)

    def claim(self, table, spool, generation, published):
        self.database.break_if_told("claim", "before")
        key = (spool.job_id, spool.operator_uid, spool.spool_id)
        if published is not None:
            self.database.ledger.setdefault(key, [published, generation])
        found = self.database.ledger.get(key)
        if found is None:
            return None
        if found[1] > generation:
            raise SourceUnavailableError("another attempt took over")
        found[1] = generation
        return found[0]

    def publish(self, table, spool, generation, batch):
        self.database.break_if_told("publish", "before")
        found = self.database.ledger.get((spool.job_id, spool.operator_uid, spool.spool_id))
        if found is None:
            return Publication.LEDGER_LOST
        if found[0] >= batch.checkpoint_id:
            return Publication.ALREADY_PUBLISHED
        if generation is not None and found[1] > generation:
            raise SourceUnavailableError("another attempt took over")
        rows = [(batch.sql.decode(), *map(int, row)) for row in batch.rows]
        self.database.rows += rows
        found[0] = batch.checkpoint_id
        self.database.break_if_told("publish", "after")
        return Publication.PUBLISHED

    def write(self, sql, rows):
        self.database.break_if_told("write", "before")
        self.database.rows += [(sql, *map(int, row)) for row in rows]
        self.database.break_if_told("write", "after")

    def cancel(self):
        self.database.break_if_told("cancel", "before")

    def close(self):
        self.closed = True
