"""JDBC's statements, names and URLs, as PostgreSQL takes them."""

from __future__ import annotations

import pytest

from headrace.connectors.jdbc.sql import (
    insert_statement,
    numbered_parameters,
    quoted,
    quoted_table,
    upsert_statement,
)
from headrace.connectors.jdbc.url import connection_settings, shown
from headrace.errors import InvalidConfigError


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t VALUES (?, ?)", ("INSERT INTO t VALUES ($1, $2)", 2)),
        ("SELECT '?', ?", ("SELECT '?', $1", 1)),
        ("SELECT 'it''s ?', ?", ("SELECT 'it''s ?', $1", 1)),
        (r"SELECT E'\'?', ?", (r"SELECT E'\'?', $1", 1)),
        (r"SELECT '\', ?", (r"SELECT '\', $1", 1)),
        ('SELECT "a?""b?", ?', ('SELECT "a?""b?", $1', 1)),
        ("SELECT ? -- why?\n, ?", ("SELECT $1 -- why?\n, $2", 2)),
        ("SELECT /* ? /* ? */ ? */ ?", ("SELECT /* ? /* ? */ ? */ $1", 1)),
        ("SELECT $$ ? $$, $a$ ? $$ ? $a$, ?", ("SELECT $$ ? $$, $a$ ? $$ ? $a$, $1", 1)),
        ("SELECT col$a$b?", ("SELECT col$a$b$1", 1)),
        ("SELECT data ?? ?", ("SELECT data ? $1", 1)),
        ("SELECT 10 % 3, '100%'", ("SELECT 10 % 3, '100%'", 0)),
    ],
)
def test_only_question_marks_that_are_parameters_are_numbered(sql, expected):
    assert expected == numbered_parameters(sql)


def test_a_comment_without_an_end_is_refused():
    with pytest.raises(InvalidConfigError, match="comment"):
        numbered_parameters("SELECT /* ?")


def test_reserved_words_capitals_and_quotes_are_quoted():
    assert '"order"' == quoted("order")
    assert '"Total ""net"""' == quoted('Total "net"')
    assert '"select"."user"' == quoted_table("select.user")


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 64, "ü" * 32])
def test_a_name_that_the_server_would_cut_or_refuse_is_refused(name):
    with pytest.raises(InvalidConfigError, match="not a name"):
        quoted(name)


def test_an_upsert_replaces_all_but_the_key():
    expected = (
        'INSERT INTO "s"."order" ("id", "user", "total") VALUES (?, ?, ?) '
        'ON CONFLICT ("id", "user") DO UPDATE SET "total" = EXCLUDED."total"'
    )
    assert expected == upsert_statement("s.order", ["id", "user", "total"], ["id", "user"])


def test_an_upsert_of_keys_alone_keeps_what_is_there():
    assert upsert_statement("seen", ["id"], ["id"]) == (
        insert_statement("seen", ["id"]) + ' ON CONFLICT ("id") DO NOTHING'
    )


@pytest.mark.parametrize("keys", [[], ["missing"]])
def test_an_upsert_without_a_key_is_refused(keys):
    with pytest.raises(InvalidConfigError, match="primary key"):
        upsert_statement("t", ["id"], keys)


def test_a_jdbc_url_becomes_settings_of_libpq():
    url = (
        "jdbc:postgresql://db.example:6432/pay%20ments"
        "?currentSchema=out,public&ApplicationName=fraud&sslmode=verify-full&connectTimeout=3"
    )
    assert connection_settings(url, "job", "s3cret") == {
        "host": "db.example",
        "port": "6432",
        "dbname": "pay ments",
        "options": "-csearch_path=out,public",
        "application_name": "fraud",
        "sslmode": "verify-full",
        "connect_timeout": "3",
        "user": "job",
        "password": "s3cret",
    }


def test_user_and_password_may_stand_in_the_url_and_given_ones_win():
    settings = connection_settings("postgresql://a:p%40ss@h/d?user=b", None, "given")
    assert ("b", "given") == (settings["user"], settings["password"])


def test_of_several_hosts_the_primary_is_written_to():
    settings = connection_settings("jdbc:postgresql://one,two:5433,[::1]:5434/d", None, None)
    expected = ("one,two,::1", "5432,5433,5434", "read-write")
    assert expected == (settings["host"], settings["port"], settings["target_session_attrs"])


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("jdbc:mysql://h/d", "scheme=jdbc:mysql"),
        ("h:5432/d", "writes to PostgreSQL"),
        ("jdbc:postgresql://h:5432/", "names no database"),
        ("jdbc:postgresql://h/d?reWriteBatchedInserts=true", "reWriteBatchedInserts"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(url, message):
    with pytest.raises(InvalidConfigError, match=message):
        connection_settings(url, None, None)


def test_a_password_is_not_shown():
    settings = connection_settings("jdbc:postgresql://h/d", "job", "s3cret")
    assert "host=h port=5432 database=d user=job" == shown(settings)
