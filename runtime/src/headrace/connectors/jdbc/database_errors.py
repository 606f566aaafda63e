"""What an error of the database means for a sink: by its SQLSTATE, never by its text."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from headrace.errors import InvalidConfigError, SinkCommitError, SourceUnavailableError


class ErrorClass(enum.Enum):
    """What to do about it."""

    UNAVAILABLE = "unavailable"
    """Try again on a new connection: whether a transaction was committed is not known."""

    CONFIGURATION = "configuration"
    """Correct the statement, the table, its permissions or the credentials."""

    ROW = "row"
    """The database will never take this row as the table is."""


_ROW_CLASSES: Final = frozenset({"21", "22", "23", "27", "44", "P0"})
_CONFIGURATION_CLASSES: Final = frozenset({"0A", "0L", "0P", "28", "2B", "3D", "3F", "42"})


def classify(error: psycopg.Error) -> ErrorClass:
    """Return what an error of a statement or a commit means."""
    state = error.sqlstate
    if state is None:
        match error:
            case psycopg.DataError():  # the client could not write a value as a parameter
                return ErrorClass.ROW
            case psycopg.ProgrammingError() | psycopg.NotSupportedError():
                return ErrorClass.CONFIGURATION
            case _:
                return ErrorClass.UNAVAILABLE
    if state[:2] in _ROW_CLASSES:
        return ErrorClass.ROW
    if state[:2] in _CONFIGURATION_CLASSES:
        return ErrorClass.CONFIGURATION
    return ErrorClass.UNAVAILABLE


@contextmanager
def database_errors(action: str, where: str) -> Iterator[None]:
    """Raise the database's errors as Headrace's; ``where`` is `headrace.connectors.jdbc.url.shown`.

    Raises:
        SourceUnavailableError, InvalidConfigError, SinkCommitError: see `ErrorClass`.
    """
    try:
        yield
    except psycopg.Error as error:
        cause = f"{where} sqlstate={error.sqlstate} cause={str(error).strip()}"
        match classify(error):
            case ErrorClass.UNAVAILABLE:
                msg = f"the database did not answer or could not serve; action={action} {cause}"
                raise SourceUnavailableError(msg) from error
            case ErrorClass.CONFIGURATION:
                msg = (
                    "the database refuses the sink's statement, correct it, the table or its "
                    f"permissions; action={action} {cause}"
                )
                raise InvalidConfigError(msg) from error
            case ErrorClass.ROW:
                msg = (
                    "the database refuses a row, change the table so that it takes it, then start "
                    f"the job again; action={action} {cause}"
                )
                raise SinkCommitError(msg) from error
