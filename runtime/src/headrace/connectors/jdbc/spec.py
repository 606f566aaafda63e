"""Frozen description of a JDBC sink, as `headrace.datastream.connectors.jdbc` makes it.

It travels in the job graph to the slots, so it holds no connection and imports the client library
only when one is needed. Secrets never appear in ``repr``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.connectors.jdbc.target import TARGET_VERSION, JdbcTarget, encode_target
from headrace.connectors.jdbc.url import shown
from headrace.connectors.sink import (
    Committer,
    DeliveryGuarantee,
    NoCommitter,
    SinkContext,
    SinkWriter,
)
from headrace.connectors.spooling import SpoolingWriter
from headrace.serialization.types import RowType

if TYPE_CHECKING:
    from headrace.connectors.jdbc.session import DatabaseSession

DEFAULT_LEDGER_TABLE: Final = "headrace_ledger"
DEFAULT_BATCH_SIZE: Final = 5000
DEFAULT_BATCH_INTERVAL_MS: Final = 0
DEFAULT_MAX_RETRIES: Final = 3
DEFAULT_TIMEOUT_S: Final = 120
"""Of a statement, and of the repetitions of a publication."""


@dataclass(frozen=True, slots=True)
class JdbcSinkSpec:
    """A JDBC sink; a `TwoPhaseCommittingSink`.

    Attributes:
        sql: statement with one parameter for each field, in PostgreSQL's notation.
        row: type of the rows.
        connection: settings of libpq; a password among them.
        delivery_guarantee: EXACTLY_ONCE or AT_LEAST_ONCE.
        ledger_table: of exactly-once.
        timeout_s: see `DEFAULT_TIMEOUT_S`.
        batch_size, batch_interval_ms, max_retries: of at-least-once, see `WriterConfig`.
    """

    sql: str
    row: RowType
    connection: dict[str, str] = field(repr=False)
    delivery_guarantee: DeliveryGuarantee
    ledger_table: str = DEFAULT_LEDGER_TABLE
    timeout_s: int = DEFAULT_TIMEOUT_S
    batch_size: int = DEFAULT_BATCH_SIZE
    batch_interval_ms: int = DEFAULT_BATCH_INTERVAL_MS
    max_retries: int = DEFAULT_MAX_RETRIES

    @property
    def is_exactly_once(self) -> bool:
        """Whether rows wait for their checkpoint."""
        return self.delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE

    def probe(self) -> None:
        """Check from the driver that the database takes the statement; creates the ledger's table.

        Raises:
            InvalidConfigError: credentials, table, column, type or permission.
            SourceUnavailableError: no server answered.
        """
        from headrace.connectors.jdbc.parameters import parameter_oids  # noqa: PLC0415 - an extra
        from headrace.connectors.jdbc.probe import (  # noqa: PLC0415 - an extra
            check_database,
            open_or_explain,
        )

        where = shown(self.connection)
        ledger = self.ledger_table if self.is_exactly_once else None
        with closing(open_or_explain(self._opener(), where)) as session:
            check_database(session, self.sql, parameter_oids(self.row), ledger, where)

    def create_writer(self, context: SinkContext) -> SinkWriter:
        """See `TwoPhaseCommittingSink.create_writer`."""
        from headrace.connectors.jdbc.codec import RowCodec  # noqa: PLC0415 - an extra
        from headrace.connectors.jdbc.writer import (  # noqa: PLC0415 - an extra
            DirectWriter,
            WriterConfig,
            encode_row,
        )

        codec = RowCodec.of_type(self.row)
        if self.is_exactly_once:
            target = JdbcTarget(TARGET_VERSION, self.sql, codec.snapshot(), self.ledger_table)
            return SpoolingWriter(context, partial(encode_row, codec), encode_target(target))
        config = WriterConfig(
            self._opener(),
            shown(self.connection),
            self.sql,
            self.batch_size,
            self.batch_interval_ms,
            self.max_retries,
        )
        return DirectWriter(config, codec, context)

    def create_committer(self, context: SinkContext) -> Committer:
        """See `TwoPhaseCommittingSink.create_committer`."""
        if not self.is_exactly_once:
            return NoCommitter()
        from headrace.connectors.jdbc.committer import (  # noqa: PLC0415 - an extra
            CommitterConfig,
            JdbcCommitter,
        )

        config = CommitterConfig(
            self._opener(), shown(self.connection), self.ledger_table, self.timeout_s
        )
        return JdbcCommitter(config, context)

    def _opener(self) -> Callable[[], DatabaseSession]:
        from headrace.connectors.jdbc.session import (  # noqa: PLC0415 - an extra
            DatabaseSession,
            SessionSettings,
        )

        return partial(DatabaseSession, SessionSettings(self.connection, self.timeout_s * 1000))
