"""``JdbcSink``, as ``pyflink.datastream.connectors.jdbc``; rows go to PostgreSQL.

What differs from Flink: the exactly-once sink keeps a ledger in the database instead of XA
transactions (docs/adr/0021), so nothing has to be resumed or times out; `JdbcSink.upsert_sink`
writes its own statement. Needs the extra ``jdbc`` (psycopg); the driver's name is only checked.
"""

from __future__ import annotations

from headrace.common.typeinfo import RowTypeInfo
from headrace.connectors.jdbc import sql as statements
from headrace.connectors.jdbc.spec import JdbcSinkSpec
from headrace.connectors.sink import DeliveryGuarantee
from headrace.datastream.connectors.base import Sink
from headrace.datastream.connectors.jdbc_options import (
    JdbcConnectionOptions,
    JdbcExactlyOnceOptions,
    JdbcExecutionOptions,
)
from headrace.errors import InvalidConfigError, InvalidProgramError

__all__ = [
    "JdbcConnectionOptions",
    "JdbcExactlyOnceOptions",
    "JdbcExecutionOptions",
    "JdbcSink",
]


class JdbcSink(Sink):
    """Runs a statement for every row; made by `sink`, `exactly_once_sink` or `upsert_sink`."""

    def __init__(self, spec: JdbcSinkSpec) -> None:
        """Use the static methods."""
        self._spec = spec

    @staticmethod
    def sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return an at-least-once sink: rows are repeated by a failover, none is lost.

        Args:
            sql: INSERT, UPDATE, DELETE or a call, with one ``?`` for each field.
            type_info: type of the rows, a ``Types.ROW`` or ``Types.ROW_NAMED``.
            jdbc_connection_options: where the database is.
            jdbc_execution_options: size of batches and number of retries.

        Raises:
            InvalidConfigError, InvalidProgramError: statement and type do not fit.
        """
        options = jdbc_execution_options or JdbcExecutionOptions.defaults()
        return JdbcSink(
            JdbcSinkSpec(
                sql=_numbered(sql, type_info),
                row=type_info.row,
                connection=jdbc_connection_options.settings(),
                delivery_guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
                batch_size=options.get_batch_size(),
                batch_interval_ms=options.get_batch_interval_ms(),
                max_retries=options.get_max_retries(),
            )
        )

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_exactly_once_options: JdbcExactlyOnceOptions | None = None,
    ) -> JdbcSink:
        """Return an exactly-once sink: rows appear with their checkpoint, one transaction a slot.

        Args: see `sink`; ``jdbc_exactly_once_options`` names the ledger's table and the time-out.

        Raises:
            InvalidConfigError, InvalidProgramError: statement and type do not fit.
        """
        options = jdbc_exactly_once_options or JdbcExactlyOnceOptions.defaults()
        return JdbcSink(
            JdbcSinkSpec(
                sql=_numbered(sql, type_info),
                row=type_info.row,
                connection=jdbc_connection_options.settings(),
                delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
                ledger_table=options.get_ledger_table(),
                timeout_s=options.get_timeout_sec(),
            )
        )

    @staticmethod
    def upsert_sink(
        table_name: str,
        key_fields: list[str],
        type_info: RowTypeInfo,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return an idempotent sink: the last row of every key stands in the table (H8).

        At least once, but a row that is written again changes nothing. An addition to PyFlink's.

        Args:
            table_name: ``table`` or ``schema.table``; quoted, as the fields' names are.
            key_fields: fields of the table's primary key or of a unique index.
            type_info: a ``Types.ROW_NAMED``; its names are the columns.
            jdbc_connection_options: where the database is.
            jdbc_execution_options: size of batches and number of retries.

        Raises:
            InvalidConfigError: a key that is no field, or a name that is none.
        """
        sql = statements.upsert_statement(table_name, type_info.get_field_names(), key_fields)
        return JdbcSink.sink(sql, type_info, jdbc_connection_options, jdbc_execution_options)

    @staticmethod
    def insert_statement(table_name: str, type_info: RowTypeInfo) -> str:
        """Return an INSERT of all fields into a table, every name quoted; beyond PyFlink's."""
        return statements.insert_statement(table_name, type_info.get_field_names())

    @staticmethod
    def upsert_statement(table_name: str, key_fields: list[str], type_info: RowTypeInfo) -> str:
        """Return the statement of `upsert_sink`, e.g. for `exactly_once_sink`; beyond PyFlink's."""
        return statements.upsert_statement(table_name, type_info.get_field_names(), key_fields)

    def description(self) -> JdbcSinkSpec:
        """Return the sink as data."""
        return self._spec


def _numbered(sql: str, type_info: RowTypeInfo) -> str:
    if not isinstance(type_info, RowTypeInfo):
        msg = f"a JDBC sink needs rows, use Types.ROW or Types.ROW_NAMED; type={type_info}"
        raise InvalidProgramError(msg)
    numbered, count = statements.numbered_parameters(sql)
    fields = type_info.get_field_names()
    if count != len(fields):
        msg = (
            "the statement needs one ? for each field, in their order; "
            f"parameters={count} fields={fields}"
        )
        raise InvalidConfigError(msg)
    return numbered
