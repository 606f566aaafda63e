"""Looks at the database from the driver, before a job starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import psycopg

from headrace.connectors.jdbc.database_errors import database_errors
from headrace.connectors.jdbc.session import DatabaseSession
from headrace.errors import InvalidConfigError, SourceUnavailableError

PROBE_ATTEMPTS: Final = 3
PAUSE_S: Final = 1.0


def open_or_explain(open_session: Callable[[], DatabaseSession], where: str) -> DatabaseSession:
    """Connect, and tell what must be corrected from what may pass.

    libpq keeps no SQLSTATE of a refused connection, only text. What it does keep is whether the
    server asked for a password: one that asks and then refuses, several times in a row, is taken
    for one that refuses user, password or database.

    Raises:
        InvalidConfigError: the server refuses user, password or database.
        SourceUnavailableError: no server answered.
    """
    attempt = 1
    while True:
        try:
            return open_session()
        except psycopg.OperationalError as error:
            if attempt == PROBE_ATTEMPTS:
                raise _explained(error, where) from error
        attempt += 1
        time.sleep(PAUSE_S)  # noqa: TID251 - in the driver, before there is a job


def _explained(
    error: psycopg.OperationalError, where: str
) -> InvalidConfigError | SourceUnavailableError:
    cause = f"{where} cause={str(error).strip()}"
    refused = error.pgconn
    if refused is not None and refused.needs_password:
        return InvalidConfigError(
            f"the database asks for a password and the sink has none; missing=with_password {cause}"
        )
    if refused is not None and refused.used_password:
        return InvalidConfigError(
            f"the database refused the connection, correct user, password or database; {cause}"
        )
    return SourceUnavailableError(f"the database did not answer; {cause}")


def check_database(
    session: DatabaseSession, sql: str, oids: Sequence[int], ledger_table: str | None, where: str
) -> None:
    """Check the statement against the tables, and create the ledger's.

    Raises:
        InvalidConfigError: unknown table or column, wrong type, no permission.
        SourceUnavailableError: the server did not answer.
    """
    with database_errors("prepare the statement", where):
        session.check_statement(sql, oids)
    if ledger_table is not None:
        with database_errors(f"create the ledger table {ledger_table}", where):
            session.ensure_ledger_table(ledger_table)
