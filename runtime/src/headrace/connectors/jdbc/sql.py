"""SQL as JDBC writes it, into what PostgreSQL takes; pure functions.

JDBC marks parameters with ``?``, PostgreSQL with ``$1``. Question marks inside strings, quoted
names, comments and dollar quotes are text; ``??`` is the operator ``?``, as in the JDBC driver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from headrace.errors import InvalidConfigError

_NAME_BYTES_MAX: Final = 63  # longer names would be cut by the server

_TOKENS: Final = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*'             # string with escapes
    | '(?:[^']|'')*'                       # string
    | "(?:[^"]|"")*"                       # quoted name
    | --[^\n]*                             # comment
    | /\*                                  # comment; they nest, see below
    | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag)   # dollar quote
    | (?P<mark>\?\??)
    | [A-Za-z_][\w$]*                      # word, which may hold a dollar sign
    """,
    re.VERBOSE | re.DOTALL,
)


def numbered_parameters(sql: str) -> tuple[str, int]:
    """Return a statement with ``$1``, ``$2``... for every ``?``, and how many there are.

    Raises:
        InvalidConfigError: a comment has no end.
    """
    parts: list[str] = []
    place = count = 0
    while (match := _TOKENS.search(sql, place)) is not None:
        parts.append(sql[place : match.start()])
        text, place = match[0], match.end()
        if text == "/*":
            place = _end_of_comment(sql, match.start())
            text = sql[match.start() : place]
        elif match["mark"] == "?":
            count += 1
            text = f"${count}"
        elif match["mark"] == "??":
            text = "?"
        parts.append(text)
    return "".join(parts) + sql[place:], count


def _end_of_comment(sql: str, start: int) -> int:
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(sql, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    msg = f"a comment of the statement has no end; sql={sql[start : start + 80]!r}"
    raise InvalidConfigError(msg)


def quoted(name: str) -> str:
    """Return a name as a quoted identifier: reserved words, capitals and spaces stay what they are.

    Raises:
        InvalidConfigError: no server takes such a name.
    """
    if not name or "\0" in name or len(name.encode()) > _NAME_BYTES_MAX:
        msg = f"not a name of a table or column; name={name!r} bytes_max={_NAME_BYTES_MAX}"
        raise InvalidConfigError(msg)
    return '"' + name.replace('"', '""') + '"'


def quoted_table(name: str) -> str:
    """Return ``schema.table`` or ``table``, each part quoted; a part cannot hold a dot."""
    return ".".join(quoted(part) for part in name.split("."))


def insert_statement(table: str, fields: Sequence[str]) -> str:
    """Return an INSERT of all fields, in JDBC's notation."""
    columns = ", ".join(quoted(field) for field in fields)
    marks = ", ".join("?" for _ in fields)
    return f"INSERT INTO {quoted_table(table)} ({columns}) VALUES ({marks})"  # noqa: S608 - quoted


def upsert_statement(table: str, fields: Sequence[str], key_fields: Sequence[str]) -> str:
    """Return an INSERT that replaces the row with the same key.

    Raises:
        InvalidConfigError: no key, or a key that is not a field.
    """
    unknown = [key for key in key_fields if key not in fields]
    if unknown or not key_fields:
        msg = (
            "an upsert needs the fields of the table's primary key or of a unique index; "
            f"table={table} unknown={unknown} fields={list(fields)}"
        )
        raise InvalidConfigError(msg)
    columns = ", ".join(quoted(key) for key in key_fields)
    changes = [f"{quoted(f)} = EXCLUDED.{quoted(f)}" for f in fields if f not in key_fields]
    action = f"DO UPDATE SET {', '.join(changes)}" if changes else "DO NOTHING"
    return f"{insert_statement(table, fields)} ON CONFLICT ({columns}) {action}"
