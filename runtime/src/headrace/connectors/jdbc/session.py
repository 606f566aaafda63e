"""One connection to the database: statements, and the ledger that proves what was published.

The ledger is a table with one row for each spool (job, sink, slot)::

    job_id, sink_uid, spool_id | checkpoint_id, generation, updated_at

``publish`` locks the spool's row, looks, writes the rows of the batch, and moves the ledger, in one
transaction. So rows and ledger are visible together or not at all, and of two attempts at one
spool, in this process or another, the second waits for the first one's end and sees its result,
also when the first one's client lost its connection after it had sent COMMIT.

Not thread-safe, but for `cancel`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg
from psycopg import RawCursor
from psycopg.conninfo import make_conninfo
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus

from headrace.connectors.jdbc.sql import quoted_table
from headrace.connectors.jdbc.url import shown
from headrace.connectors.record_spool import SpoolHeader
from headrace.errors import SourceUnavailableError
from headrace.ids import CheckpointId, Generation

_LEDGER_LOCK: Final = 0x4865_6164_7261_6365  # "Headrace": of whoever creates a ledger table
_CANCEL_TIMEOUT_S: Final = 2.0
_LOCK_TIMEOUT_MS: Final = 10_000
_TCP_USER_TIMEOUT_MS: Final = 30_000

Connection = psycopg.Connection[tuple[object, ...]]


class Publication(enum.Enum):
    """What `publish` found and did."""

    PUBLISHED = "published"
    ALREADY_PUBLISHED = "already-published"
    LEDGER_LOST = "ledger-lost"


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """How to connect.

    Attributes:
        connection: libpq's settings; a password among them.
        statement_timeout_ms: the server ends a statement that takes longer.
    """

    connection: dict[str, str] = field(repr=False)
    statement_timeout_ms: int

    @property
    def where(self) -> str:
        """Return where it leads, without secrets."""
        return shown(self.connection)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one checkpoint.

    Attributes:
        checkpoint_id: what the ledger says afterwards.
        sql: statement, run once for every row.
        rows: parameters; raising while they are read leaves nothing written.
    """

    checkpoint_id: CheckpointId
    sql: bytes
    rows: Iterable[list[object]]


class DatabaseSession:
    """One connection; methods raise psycopg's errors, see `database_errors`."""

    def __init__(self, settings: SessionSettings) -> None:
        """Connect.

        Raises:
            psycopg.OperationalError: no connection.
        """
        self._connection: Connection = psycopg.connect(
            make_conninfo(**{"tcp_user_timeout": str(_TCP_USER_TIMEOUT_MS), **settings.connection}),
            autocommit=True,
            cursor_factory=RawCursor,
        )
        try:
            self._execute(
                "SELECT set_config('statement_timeout', $1, false),"
                " set_config('lock_timeout', $2, false),"
                # Of a client that froze inside a transaction: its locks must not outlive it.
                " set_config('idle_in_transaction_session_timeout', $1, false),"
                # A commit must outlive the server: some databases default to less.
                " CASE WHEN current_setting('synchronous_commit') = 'off'"
                " THEN set_config('synchronous_commit', 'on', false) END",
                [str(settings.statement_timeout_ms), str(_LOCK_TIMEOUT_MS)],
            )
        except BaseException:
            self._connection.close()
            raise

    def check_statement(self, sql: str, oids: Sequence[int]) -> None:
        """Let the server look at a statement without running it."""
        result = self._connection.pgconn.prepare(b"", sql.encode(), list(oids))
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result)

    def ensure_ledger_table(self, table: str) -> None:
        """Create the ledger's table unless it is there."""
        name = quoted_table(table)
        if self._one("SELECT to_regclass($1)", [name]) != (None,):
            return
        with self._connection.transaction():
            # CREATE TABLE IF NOT EXISTS fails in one of two sessions that run it together.
            self._execute("SELECT pg_advisory_xact_lock($1::bigint)", [_LEDGER_LOCK])
            self._execute(
                f"CREATE TABLE IF NOT EXISTS {name} ("
                "job_id text NOT NULL, sink_uid text NOT NULL, spool_id text NOT NULL,"
                " checkpoint_id bigint NOT NULL, generation bigint NOT NULL,"
                " updated_at timestamptz NOT NULL DEFAULT now(),"
                " PRIMARY KEY (job_id, sink_uid, spool_id))"
            )

    def claim(
        self, table: str, spool: SpoolHeader, generation: Generation, published: CheckpointId | None
    ) -> CheckpointId | None:
        """Take a spool over for a generation and return its ledger.

        Args:
            table: of the ledger.
            spool: whose.
            generation: later calls of older ones are refused.
            published: what a new ledger says; None leaves a missing one missing.

        Raises:
            SourceUnavailableError: a newer generation has it.
        """
        name = quoted_table(table)
        if published is not None:
            self._execute(
                f"INSERT INTO {name} AS l (job_id, sink_uid, spool_id, checkpoint_id, generation)"  # noqa: S608 - quoted
                " VALUES ($1, $2, $3, $4, $5) ON CONFLICT (job_id, sink_uid, spool_id) DO NOTHING",
                [*_key(spool), published, generation],
            )
        row = self._one(
            f"UPDATE {name} SET generation = greatest(generation, $4), updated_at = now()"  # noqa: S608 - quoted
            " WHERE job_id = $1 AND sink_uid = $2 AND spool_id = $3"
            " RETURNING checkpoint_id, generation",
            [*_key(spool), generation],
        )
        if row is None:
            return None
        _check_generation(spool, int(str(row[1])), generation)
        return CheckpointId(int(str(row[0])))

    def publish(
        self,
        table: str,
        spool: SpoolHeader,
        generation: Generation | None,
        batch: Batch,
    ) -> Publication:
        """Write a batch unless the ledger says that it was.

        Args:
            table: of the ledger.
            spool: whose.
            generation: of this attempt; None for a spool of another job.
            batch: the rows.

        Raises:
            SourceUnavailableError: a newer generation took the spool over.
        """
        name = quoted_table(table)
        with self._connection.transaction():
            row = self._one(
                f"SELECT checkpoint_id, generation FROM {name}"  # noqa: S608 - quoted
                " WHERE job_id = $1 AND sink_uid = $2 AND spool_id = $3 FOR UPDATE",
                _key(spool),
            )
            if row is None:
                return Publication.LEDGER_LOST
            if int(str(row[0])) >= batch.checkpoint_id:
                return Publication.ALREADY_PUBLISHED
            if generation is not None:
                _check_generation(spool, int(str(row[1])), generation)
            with self._connection.cursor() as cursor:
                cursor.executemany(batch.sql, batch.rows)
            self._execute(
                f"UPDATE {name} SET checkpoint_id = $4, updated_at = now()"  # noqa: S608 - quoted
                " WHERE job_id = $1 AND sink_uid = $2 AND spool_id = $3",
                [*_key(spool), batch.checkpoint_id],
            )
        return Publication.PUBLISHED

    def write(self, sql: str, rows: Iterable[list[object]]) -> None:
        """Run a statement for every row, in one transaction."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.executemany(sql, rows)

    def cancel(self) -> None:
        """End what runs, from any thread; it raises there."""
        self._connection.cancel_safe(timeout=_CANCEL_TIMEOUT_S)

    def close(self) -> None:
        """Drop the connection; an open transaction is rolled back by the server."""
        self._connection.close()

    def _execute(self, sql: str, values: Sequence[object] = ()) -> None:
        self._connection.execute(sql.encode(), values)

    def _one(self, sql: str, values: Sequence[object]) -> tuple[object, ...] | None:
        return self._connection.execute(sql.encode(), values).fetchone()


def _key(spool: SpoolHeader) -> list[object]:
    return [spool.job_id, spool.operator_uid, spool.spool_id]


def _check_generation(spool: SpoolHeader, found: int, own: Generation) -> None:
    if found > own:
        msg = (
            "another attempt took over the sink's output, this one ends; "
            f"sink={spool.operator_uid} spool={spool.spool_id} generation={own} newer={found}"
        )
        raise SourceUnavailableError(msg)
