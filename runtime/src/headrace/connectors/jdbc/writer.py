"""First phase of the JDBC sink without a second one: rows are written as they come.

A batch is one transaction. It is written when it is full, when it is old at the end of an epoch,
and at the barrier, which waits until the database has everything. A failover writes the rows since
the checkpoint again; with an upsert nobody sees that (H8).
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psycopg

from headrace.connectors.jdbc.codec import RowCodec
from headrace.connectors.jdbc.database_errors import ErrorClass, classify, database_errors
from headrace.connectors.jdbc.session import DatabaseSession
from headrace.connectors.sink import PendingSpool, SinkContext
from headrace.connectors.spools import spool_id_of
from headrace.errors import HeadraceError, SourceUnavailableError, UserCodeError
from headrace.ids import CheckpointId

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.5
_TRACEBACK_CHARS_MAX: Final = 4000


@dataclass(frozen=True, slots=True)
class WriterConfig:
    """How rows are written.

    Attributes:
        open_session: makes a connection.
        where: where it leads, for messages.
        sql: statement in PostgreSQL's notation.
        batch_size: rows of one transaction.
        batch_interval_ms: age at which a batch is written at the end of an epoch; 0 for any.
        max_retries: how often a batch is tried again before the job fails over.
    """

    open_session: Callable[[], DatabaseSession]
    where: str
    sql: str
    batch_size: int
    batch_interval_ms: int
    max_retries: int


class DirectWriter:
    """`headrace.connectors.sink.SinkWriter` of at-least-once."""

    def __init__(self, config: WriterConfig, codec: RowCodec, context: SinkContext) -> None:
        self._config = config
        self._codec = codec
        self._context = context
        self._session: DatabaseSession | None = None
        self._rows: list[bytes] = []
        self._oldest_s = 0.0

    def write(self, value: object, timestamp_ms: int | None) -> None:  # noqa: ARG002 - the contract
        """See `SinkWriter.write`."""
        row = encode_row(self._codec, value)
        if not self._rows:
            self._oldest_s = self._context.clock.monotonic_s()
        self._rows.append(row)
        if len(self._rows) >= self._config.batch_size:
            self._flush()

    def flush_epoch(self) -> None:
        """Write a batch that is old enough."""
        if self._rows:
            age_ms = (self._context.clock.monotonic_s() - self._oldest_s) * 1000
            if age_ms >= self._config.batch_interval_ms:
                self._flush()

    def prepare_commit(self, checkpoint_id: CheckpointId) -> PendingSpool:
        """See `SinkWriter.prepare_commit`."""
        if self._rows:
            self._flush()
        context = self._context
        return PendingSpool(context.operator_uid, spool_id_of(context.slot), checkpoint_id, (), 0)

    def close(self) -> None:
        """Drop what is not written: a failover writes it again."""
        self._rows = []
        self._drop_session()

    def _flush(self) -> None:
        config = self._config
        for attempt in range(config.max_retries + 1):
            try:
                if self._session is None:
                    self._session = config.open_session()
                rows = (self._codec.parameters(row) for row in self._rows)
                self._session.write(config.sql, rows)
            except psycopg.Error as error:
                self._drop_session()
                if classify(error) is not ErrorClass.UNAVAILABLE or attempt == config.max_retries:
                    with database_errors("write rows", config.where):
                        raise
                logger.warning("jdbc sink writes again %s cause=%s", config.where, error)
            else:
                self._rows = []
                return
            if self._context.clock.wait(self._context.cancelled, _PAUSE_S):
                raise SourceUnavailableError(f"the sink's generation is over; {config.where}")

    def _drop_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def encode_row(codec: RowCodec, value: object) -> bytes:
    """Return a row's bytes.

    Raises:
        UserCodeError: the value is not a row of the declared type, or none that can be stored.
    """
    try:
        return codec.encode(value)
    except HeadraceError:
        raise
    except Exception as error:
        msg = f"a row is not of the JDBC sink's type; error={type(error).__name__}: {error}"
        text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARS_MAX:]
        raise UserCodeError(msg, traceback_text=text) from error
