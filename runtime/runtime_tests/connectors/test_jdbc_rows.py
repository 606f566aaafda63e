"""Rows as parameters, and what the database would refuse is refused before a checkpoint."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import psycopg
import pytest
from psycopg.types.numeric import Float8, Int4, Int8, IntNumeric

from headrace.common import Row, RowKind, Types
from headrace.connectors.jdbc.codec import RowCodec
from headrace.connectors.jdbc.database_errors import ErrorClass, classify, database_errors
from headrace.connectors.jdbc.parameters import parameter_oids
from headrace.connectors.jdbc.writer import encode_row
from headrace.errors import (
    InvalidConfigError,
    InvalidProgramError,
    SinkCommitError,
    SourceUnavailableError,
    UserCodeError,
)

NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)


def codec(*field_types):
    return RowCodec.of_type(Types.ROW(list(field_types)).row)


def test_numbers_have_the_servers_type_of_their_declared_type():
    numbers = codec(Types.INT(), Types.LONG(), Types.BIG_INT(), Types.DOUBLE())
    found = numbers.parameters(numbers.encode(Row(1, 1, 1, 1.0)))
    assert [Int4, Int8, IntNumeric, Float8] == [type(value) for value in found]


def test_values_of_every_type_survive_the_spool():
    values = [
        True,
        "ü'",
        b"\0\xff",
        Decimal("1.10"),
        dt.date(2026, 1, 2),
        dt.time(1, 2, 3, 4),
        NOON.replace(tzinfo=None),
        NOON,
        dt.timedelta(days=1, microseconds=1),
        ["a", None],
        None,
    ]
    rows = codec(
        Types.BOOLEAN(),
        Types.STRING(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.DURATION(),
        Types.LIST(Types.STRING()),
        Types.STRING(),
    )
    assert values == rows.parameters(rows.encode(tuple(values)))


def test_strings_have_no_type_of_their_own():
    row = Types.ROW([Types.STRING(), Types.INT(), Types.LIST(Types.LONG())]).row
    assert [0, 23, 1016] == parameter_oids(row)


def test_a_type_without_a_counterpart_is_named():
    row = Types.ROW_NAMED(["tags"], [Types.MAP(Types.STRING(), Types.STRING())]).row
    with pytest.raises(InvalidProgramError, match="field=tags"):
        parameter_oids(row)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (Types.INT(), "one"),
        (Types.INT(), 1 << 31),
        (Types.STRING(), 1),
        (Types.STRING(), "a\0b"),
        (Types.STRING(), ("too", "many")),
    ],
)
def test_a_row_that_can_never_be_stored_is_refused_at_once(field, value):
    row = value if isinstance(value, tuple) else (value,)
    with pytest.raises(UserCodeError):
        encode_row(codec(field), row)


@pytest.mark.parametrize("kind", [RowKind.DELETE, RowKind.UPDATE_BEFORE])
def test_a_retraction_is_never_written_as_a_row(kind):
    row = Row(1)
    row.set_row_kind(kind)
    with pytest.raises(UserCodeError, match="retractions"):
        encode_row(codec(Types.INT()), row)


def error_of(sqlstate):
    return psycopg.errors.lookup(sqlstate)("text")


@pytest.mark.parametrize(
    ("sqlstate", "expected"),
    [
        ("08006", ErrorClass.UNAVAILABLE),
        ("40001", ErrorClass.UNAVAILABLE),
        ("40P01", ErrorClass.UNAVAILABLE),
        ("53300", ErrorClass.UNAVAILABLE),
        ("55P03", ErrorClass.UNAVAILABLE),
        ("57014", ErrorClass.UNAVAILABLE),
        ("57P01", ErrorClass.UNAVAILABLE),
        ("25006", ErrorClass.UNAVAILABLE),
        ("28P01", ErrorClass.CONFIGURATION),
        ("42501", ErrorClass.CONFIGURATION),
        ("42P01", ErrorClass.CONFIGURATION),
        ("42804", ErrorClass.CONFIGURATION),
        ("22001", ErrorClass.ROW),
        ("22003", ErrorClass.ROW),
        ("23502", ErrorClass.ROW),
        ("23505", ErrorClass.ROW),
        ("P0001", ErrorClass.ROW),
    ],
)
def test_errors_are_classified_by_their_sqlstate(sqlstate, expected):
    assert expected is classify(error_of(sqlstate))


def test_a_connection_that_broke_is_a_doubt():
    assert ErrorClass.UNAVAILABLE is classify(psycopg.OperationalError("lost"))
    assert ErrorClass.UNAVAILABLE is classify(psycopg.InterfaceError("closed"))


@pytest.mark.parametrize(
    ("sqlstate", "kind"),
    [
        ("57P01", SourceUnavailableError),
        ("42P01", InvalidConfigError),
        ("23505", SinkCommitError),
    ],
)
def test_messages_say_where_and_why(sqlstate, kind):
    with (
        pytest.raises(kind, match=rf"action=write host=h sqlstate={sqlstate} cause=text"),
        database_errors("write", "host=h"),
    ):
        raise error_of(sqlstate)
