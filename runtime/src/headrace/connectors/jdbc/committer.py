"""Second phase of the exactly-once JDBC sink in one slot; runs on the slot's commit thread.

At the start: take over the slot's own spool and those of vanished slots, then publish what the
restored checkpoint left pending, each under its own identity. Doubt is never resolved by looking at
an error: after anything but success the connection is dropped, and a new one looks at the ledger
under its lock. There is one way of recovery, for a lost answer as for a killed process.

A ledger that is missing although output is pending was lost (a dropped table, another database, a
backup): whether the rows are there cannot be known, and a person decides by writing the ledger.
Absence has this meaning because a spool's ledger is written before its first record is sealed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Final, TypeVar

import psycopg

from headrace.connectors.jdbc.codec import RowCodec
from headrace.connectors.jdbc.database_errors import ErrorClass, classify, database_errors
from headrace.connectors.jdbc.session import Batch, DatabaseSession, Publication
from headrace.connectors.jdbc.sql import quoted_table
from headrace.connectors.jdbc.target import read_target
from headrace.connectors.record_spool import SpoolHeader
from headrace.connectors.sink import CommitOutcome, LocalCommittable, SinkContext
from headrace.connectors.spooling import SealedSpool, SpoolCommitter
from headrace.connectors.spools import spool_id_of, spools_to_fence
from headrace.errors import InternalError, SinkCommitError, SourceUnavailableError
from headrace.ids import CheckpointId, Generation

logger = logging.getLogger(__name__)

_PAUSE_S: Final = 0.5
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CommitterConfig:
    """How to publish.

    Attributes:
        open_session: makes a connection.
        where: where it leads, for messages.
        ledger_table: of spools that are written from now on.
        commit_timeout_s: how long a publication is repeated before the job fails over.
    """

    open_session: Callable[[], DatabaseSession]
    where: str
    ledger_table: str
    commit_timeout_s: float


class JdbcCommitter(SpoolCommitter):
    """`headrace.connectors.sink.Committer` of one slot."""

    def __init__(self, config: CommitterConfig, context: SinkContext) -> None:
        super().__init__(context)
        self._config = config
        self._own = self._header(spool_id_of(context.slot))
        self._ledger: CheckpointId | None = None  # of the own spool; None before `recover`
        self._session: DatabaseSession | None = None
        self._lock = Lock()  # held while a call is under way, see `close`
        self._closing = False

    def take_over(self) -> None:
        """Fence earlier attempts at this slot's spool and at those of vanished slots (H6)."""
        context, table = self.context, self._config.ledger_table
        self._settle("create the ledger", lambda session: session.ensure_ledger_table(table))
        vanished = spools_to_fence(
            context.slot, context.parallelism, context.restored_parallelism or 0
        )
        for header in (self._own, *map(self._header, vanished)):
            claim = partial(_claim, table, header, context.generation, None)
            self._settle("take over", claim)

    def recover(self, committables: Sequence[LocalCommittable]) -> list[CommitOutcome]:
        """See `Committer.recover`."""
        with self._call():
            outcomes = super().recover(committables)
            # Only now: a missing ledger of pending output had to be noticed.
            published = self.context.restored_checkpoint_id or CheckpointId(0)
            table, generation = self._config.ledger_table, self.context.generation
            self._ledger = self._settle(
                "write the ledger", partial(_claim, table, self._own, generation, published)
            )
        logger.info("jdbc sink recovered spool=%s outcomes=%s", self._own.spool_id, outcomes)
        return outcomes

    def commit(self, committable: LocalCommittable) -> CommitOutcome:
        """See `Committer.commit`."""
        checkpoint_id = committable.committable.checkpoint_id
        if self._ledger is None:
            raise InternalError(f"commit before recover; spool={self._own.spool_id}")
        if self._ledger >= checkpoint_id:
            msg = (
                "a new checkpoint has a number that was already published, so a crash would lose "
                "its output: checkpoint numbers must never go back; "
                f"{self._of(self._own)} ledger={self._ledger} checkpoint={checkpoint_id}"
            )
            raise SinkCommitError(msg)
        with self._call():
            outcome = super().commit(committable)
        if outcome is not CommitOutcome.EMPTY:
            self._ledger = checkpoint_id
        return outcome

    def publish(self, spool: SealedSpool) -> CommitOutcome:
        """See `SpoolCommitter.publish`."""
        header = spool.header
        target = read_target(header)
        codec = RowCodec.of_snapshot(target.type)
        sql = target.sql.encode()
        # Generations of another job, whose checkpoint this one was started from, say nothing here.
        same_job = header.job_id == self.context.job_id
        generation = self.context.generation if same_job else None
        attempts = 0

        def attempt(session: DatabaseSession) -> Publication:
            nonlocal attempts
            attempts += 1
            batch = Batch(spool.checkpoint_id, sql, map(codec.parameters, spool.rows()))
            return session.publish(target.ledger_table, header, generation, batch)

        match self._settle("publish a spool", attempt):
            case Publication.LEDGER_LOST:
                raise self._ledger_lost(target.ledger_table, spool)
            case Publication.ALREADY_PUBLISHED if attempts == 1:
                return CommitOutcome.ALREADY_PUBLISHED
            case _:
                return CommitOutcome.PUBLISHED

    def close(self) -> None:
        """Drop the connection; a call that is under way is cancelled and drops it."""
        self._closing = True
        session = self._session
        if not self._close_if_idle() and session is not None:
            with suppress(psycopg.Error):  # it may have ended meanwhile, or the server is gone
                session.cancel()

    @contextmanager
    def _call(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        finally:
            if self._closing:
                self._close_if_idle()

    def _close_if_idle(self) -> bool:
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self._drop_session()
        finally:
            self._lock.release()
        return True

    def _settle(self, action: str, call: Callable[[DatabaseSession], T]) -> T:
        """Repeat a call until it returns, on a new connection after every doubt.

        Raises:
            SourceUnavailableError: not in time, or the generation is over.
            InvalidConfigError, SinkCommitError: the database's refusal.
        """
        clock = self.context.clock
        deadline = clock.monotonic_s() + self._config.commit_timeout_s
        while True:
            if self.context.cancelled.is_set():
                raise SourceUnavailableError(
                    f"the sink's generation is over; {self._of(self._own)}"
                )
            try:
                if self._session is None:
                    self._session = self._config.open_session()
                return call(self._session)
            except psycopg.Error as error:
                self._drop_session()
                doubt = classify(error) is ErrorClass.UNAVAILABLE
                if not doubt or clock.monotonic_s() >= deadline:
                    with database_errors(action, f"{self._of(self._own)} {self._config.where}"):
                        raise
                logger.warning(
                    "jdbc sink in doubt, settling it action=%s %s cause=%s",
                    action,
                    self._config.where,
                    error,
                )
            except BaseException:
                self._drop_session()
                raise
            clock.wait(self.context.cancelled, _PAUSE_S)

    def _drop_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _header(self, spool_id: str) -> SpoolHeader:
        return SpoolHeader(self.context.job_id, self.context.operator_uid, spool_id)

    def _of(self, header: SpoolHeader) -> str:
        return f"sink={header.operator_uid} spool={header.spool_id}"

    def _ledger_lost(self, table: str, spool: SealedSpool) -> SinkCommitError:
        header = spool.header
        row = f"('{header.job_id}', '{header.operator_uid}', '{header.spool_id}', N, 0)"
        msg = (
            "the database has no ledger of output that was not confirmed as published, so "
            "publishing might repeat it and leaving it out might lose it: look in the table, then "
            f"insert the ledger's row, N being 0 to publish, {spool.checkpoint_id} to leave out; "
            f"table={quoted_table(table)} row={row} "
            f"{self._of(header)} checkpoint={spool.checkpoint_id} {self._config.where}"
        )
        return SinkCommitError(msg)


def _claim(
    table: str,
    header: SpoolHeader,
    generation: Generation,
    published: CheckpointId | None,
    session: DatabaseSession,
) -> CheckpointId | None:
    return session.claim(table, header, generation, published)
