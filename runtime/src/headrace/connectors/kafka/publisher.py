"""Publishes the spools of one identity, in checkpoint order, whatever happens in between.

What happens to a spool is decided by `decide` from two facts: its checkpoint id and the ledger as
read after a claim. While a session is held nobody else can move its ledger, so the value read once
and moved by our own publications stays true; any doubt drops the session, and with it the value.

The rule that gives an absent ledger a meaning: a slot writes its ledger before it seals its first
spool (`ensure_ledger`). An unconfirmed spool whose ledger is absent has therefore lost it
(``offsets.retention.minutes``, a deleted group or topic), and whether its rows are visible cannot
be known any more (T4).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final, Protocol

from confluent_kafka import KafkaError

from headrace.clock import Clock
from headrace.connectors.kafka.client_errors import ErrorClass, classify, to_headrace_error
from headrace.connectors.kafka.lost_ledger import Decision, LostLedgerPolicy, decide
from headrace.connectors.kafka.spool import SpoolHeader, SpoolRecord, read_blocks
from headrace.connectors.sink import CommitOutcome, LocalCommittable
from headrace.errors import SinkCommitError
from headrace.ids import CheckpointId

logger = logging.getLogger(__name__)

_DOUBT_PAUSE_S: Final = 0.2


class PublicationInDoubtError(Exception):
    """A publication failed and may or may not have happened: settle it with a new session."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error


class LedgerSession(Protocol):
    """One claim on a transactional id; see `headrace.connectors.kafka.session`."""

    def claim(self) -> None:
        """Settle the id's last transaction and fence every earlier session of it."""
        ...

    def read_ledger(self) -> CheckpointId | None:
        """Return the last published checkpoint id, None when there is none; only after `claim`."""
        ...

    def publish(
        self, blocks: Iterable[list[SpoolRecord]], records: int, checkpoint_id: CheckpointId
    ) -> None:
        """Write rows and ledger in one transaction.

        Raises:
            PublicationInDoubtError: it may have happened; the session is of no more use.
        """
        ...

    def close(self) -> None:
        """Drop the connection."""
        ...


@dataclass(frozen=True, slots=True)
class PublisherConfig:
    """How to publish.

    Attributes:
        open_session: makes a session of an identity.
        servers: the brokers, for messages.
        transaction_timeout_ms: after this long the broker aborts an open transaction.
        commit_timeout_s: how long failing publications of one spool are repeated.
        lost_ledger: see `LostLedgerPolicy`.
        clock: measures waits and ages.
        cancelled: ends waits.
    """

    open_session: Callable[[SpoolHeader], LedgerSession]
    servers: str
    transaction_timeout_ms: int
    commit_timeout_s: float
    lost_ledger: LostLedgerPolicy
    clock: Clock
    cancelled: Event


class SpoolPublisher:
    """Owner of one identity; used by one thread, `close` at the end."""

    def __init__(self, identity: SpoolHeader, config: PublisherConfig) -> None:
        self._identity = identity
        self._config = config
        self._clock = config.clock
        self._session: LedgerSession | None = None
        self.ledger: CheckpointId | None = None
        self.ledger_written_s = self._clock.monotonic_s()

    def claim(self) -> None:
        """Fence earlier attempts and read the ledger; does nothing while the id is held.

        Raises:
            SourceUnavailableError, InvalidConfigError: see `kafka_errors`.
        """
        if self._session is None:
            session = self._config.open_session(self._identity)
            try:
                session.claim()
                self.ledger = session.read_ledger()
            except BaseException:
                session.close()
                raise
            self._session = session

    def ensure_ledger(self, published_up_to: CheckpointId) -> None:
        """Write the ledger if there is none, so that its later absence means loss.

        Only right when nothing of this spool is unconfirmed.
        """
        self.claim()
        if self.ledger is None:
            self._publish([], 0, published_up_to)

    def refresh_ledger(self, published_up_to: CheckpointId) -> None:
        """Write the ledger again, so that the broker does not forget an idle group."""
        self.claim()
        self._publish([], 0, published_up_to)

    def settle(self, item: LocalCommittable) -> CommitOutcome:
        """Publish a spool with output unless the ledger says that it was.

        Raises:
            SinkCommitError: the ledger is lost, or the broker will never take the rows.
            SourceUnavailableError: no success in time, or another attempt took over.
        """
        committable = item.committable
        return self._publish(item.paths, committable.records, committable.checkpoint_id)

    def close(self) -> None:
        """Drop the connection."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _publish(
        self, paths: Sequence[Path], records: int, checkpoint_id: CheckpointId
    ) -> CommitOutcome:
        """Publish until it is done; every doubt is settled by a new claim and the ledger."""
        deadline = self._clock.monotonic_s() + self._config.commit_timeout_s
        tried = False
        while True:
            self.claim()
            if self._is_published(checkpoint_id, with_output=bool(paths)):
                return CommitOutcome.PUBLISHED if tried else CommitOutcome.ALREADY_PUBLISHED
            assert self._session is not None  # noqa: S101 - `claim` has set it
            tried = True
            began_s = self._clock.monotonic_s()
            try:
                self._session.publish(_blocks(paths), records, checkpoint_id)
            except PublicationInDoubtError as doubt:
                self.close()
                self._raise_if_final(doubt, checkpoint_id, began_s, deadline)
                self._clock.wait(self._config.cancelled, _DOUBT_PAUSE_S)
            except BaseException:
                self.close()
                raise
            else:
                self.ledger = checkpoint_id
                self.ledger_written_s = self._clock.monotonic_s()
                return CommitOutcome.PUBLISHED

    def _is_published(self, checkpoint_id: CheckpointId, *, with_output: bool) -> bool:
        """Whether the ledger, as read by the claim that is held, covers a checkpoint.

        Without output there is nothing to lose: an absent ledger is simply written.
        """
        if self.ledger is None and not with_output:
            return False
        match decide(self.ledger, checkpoint_id, self._config.lost_ledger):
            case Decision.PUBLISH:
                return False
            case Decision.ALREADY_PUBLISHED:
                return True
            case Decision.STOP:
                raise self._ledger_lost(checkpoint_id)

    def _raise_if_final(
        self,
        doubt: PublicationInDoubtError,
        checkpoint_id: CheckpointId,
        began_s: float,
        deadline: float,
    ) -> None:
        """Raise when another attempt cannot help or may not be made; else log the doubt."""
        now_s = self._clock.monotonic_s()
        kind = classify(doubt.error)
        timed_out = now_s - began_s >= self._config.transaction_timeout_ms / 1000
        # Taking the id back from whoever fenced us would be safe, but two attempts would fence each
        # other for ever. Only our own time-out is no take-over.
        fenced = kind is ErrorClass.FENCED and not timed_out
        if kind in {ErrorClass.CONFIGURATION, ErrorClass.REFUSED} or fenced or now_s >= deadline:
            where = self._where(checkpoint_id)
            raise to_headrace_error(doubt.error, "publish a spool", where) from doubt
        logger.warning(
            "publication in doubt, settling it spool=%s checkpoint=%s cause=%s",
            self._identity.ledger_group,
            checkpoint_id,
            doubt,
        )

    def _where(self, checkpoint_id: CheckpointId) -> dict[str, object]:
        return {
            "servers": self._config.servers,
            "topic": self._identity.topic,
            "transactional_id": self._identity.transactional_id,
            "checkpoint": checkpoint_id,
        }

    def _ledger_lost(self, checkpoint_id: CheckpointId) -> SinkCommitError:
        where = " ".join(f"{name}={value}" for name, value in self._where(checkpoint_id).items())
        msg = (
            "the broker forgot the ledger of output that was not confirmed as published, so "
            "publishing might repeat it and leaving it out might lose it: look in the topic, then "
            f"set headrace.lost.ledger to publish or discard; group={self._identity.ledger_group} "
            f"{where}"
        )
        return SinkCommitError(msg)


def _blocks(paths: Iterable[Path]) -> Iterator[list[SpoolRecord]]:
    for path in paths:
        yield from read_blocks(path)
