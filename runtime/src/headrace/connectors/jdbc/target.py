"""Where the rows of a spool go; stored with the spool (golden-tested).

A spool names its own statement, type and ledger, so output of a checkpoint is published as it was
meant even when the program's statement has changed since. The database is today's: addresses and
passwords change, and no secret is written to a checkpoint.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headrace.connectors.record_spool import SpoolHeader
from headrace.errors import CorruptStateError

TARGET_VERSION: Final = 1


class JdbcTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How rows are published.

    Attributes:
        version: `TARGET_VERSION` of the writer.
        sql: statement in PostgreSQL's notation, ``$1``...
        type: snapshot of the rows' serializer.
        ledger_table: table that holds the spool's ledger, ``schema.table`` or ``table``.
    """

    version: int
    sql: str
    type: dict[str, Any]
    ledger_table: str


def encode_target(target: JdbcTarget) -> bytes:
    """Return the bytes that are stored with every file of a spool."""
    return msgspec.json.encode(target)


def read_target(header: SpoolHeader) -> JdbcTarget:
    """Return the target of a spool.

    Raises:
        CorruptStateError: it has none, or one of a version that is not known.
    """
    where = f"sink={header.operator_uid} spool={header.spool_id}"
    try:
        target = msgspec.json.decode(header.extra, type=JdbcTarget)
    except msgspec.MsgspecError as error:
        msg = f"a JDBC spool has no readable target, restore its checkpoint again; {where}"
        raise CorruptStateError(msg) from error
    if target.version != TARGET_VERSION:
        msg = f"a JDBC spool was written by another release; {where} version={target.version}"
        raise CorruptStateError(msg)
    return target
