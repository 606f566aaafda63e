"""Second phase of the exactly-once Kafka sink in one slot; runs on the slot's commit thread.

At start: abort lingering transactions of vanished slots (H6), publish what the restored checkpoint
left pending, under each spool's own identity, then take over the slot's own spool. Afterwards every
spool whose checkpoint is complete, in order. The proof of exactly-once is in
`headrace.connectors.kafka.session` and `publisher`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Final

from headrace.connectors.kafka.publisher import PublisherConfig, SpoolPublisher
from headrace.connectors.kafka.spool import SpoolHeader, read_header
from headrace.connectors.sink import CommitOutcome, LocalCommittable
from headrace.errors import InternalError, SinkCommitError
from headrace.ids import CheckpointId

logger = logging.getLogger(__name__)

LEDGER_REFRESH_S: Final = 3600.0
"""A spool without output rewrites its ledger this often: brokers forget idle groups, after 7 days
unless an operator sets less."""


@dataclass(frozen=True, slots=True)
class CommitterConfig:
    """What one slot's committer is.

    Attributes:
        own: identity of the slot's own spool.
        fence: identities of vanished slots whose lingering transactions are aborted.
        restored_checkpoint_id: everything up to it is published once `recover` is through.
        publisher: how to publish.
    """

    own: SpoolHeader
    fence: tuple[SpoolHeader, ...]
    restored_checkpoint_id: CheckpointId | None
    publisher: PublisherConfig


class KafkaCommitter:
    """`headrace.connectors.sink.Committer` of one slot."""

    def __init__(self, config: CommitterConfig) -> None:
        self._config = config
        self._clock = config.publisher.clock
        self._own = SpoolPublisher(config.own, config.publisher)
        self._recovered = False
        self._lock = Lock()  # held while a call is under way, see `close`
        self._closing = False

    def recover(self, committables: Sequence[LocalCommittable]) -> list[CommitOutcome]:
        """See `Committer.recover`."""
        with self._call():
            return self._recover(committables)

    def commit(self, committable: LocalCommittable) -> CommitOutcome:
        """See `Committer.commit`."""
        with self._call():
            return self._commit(committable)

    def close(self) -> None:
        """Drop the connection; while a call is under way, that call drops it when it ends."""
        self._closing = True
        self._close_if_idle()

    @contextmanager
    def _call(self) -> Iterator[None]:
        try:
            with self._lock:
                yield
        finally:
            if self._closing:
                self._close_if_idle()

    def _close_if_idle(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                self._own.close()
            finally:
                self._lock.release()

    def _recover(self, committables: Sequence[LocalCommittable]) -> list[CommitOutcome]:
        for identity in self._config.fence:
            with closing(self._config.publisher.open_session(identity)) as session:
                session.claim()
        outcomes = [CommitOutcome.EMPTY] * len(committables)
        for identity, indexes in _publication_order(committables):
            own = identity == self._config.own
            publisher = self._own if own else SpoolPublisher(identity, self._config.publisher)
            try:
                for index in indexes:
                    outcomes[index] = publisher.settle(committables[index])
            finally:
                if not own:
                    publisher.close()
        # Another identity may share our transactional id (a changed topic): claim it last.
        self._own.ensure_ledger(self._config.restored_checkpoint_id or CheckpointId(0))
        self._recovered = True
        logger.info(
            "kafka sink recovered spool=%s outcomes=%s", self._config.own.ledger_group, outcomes
        )
        return outcomes

    def _commit(self, committable: LocalCommittable) -> CommitOutcome:
        if not self._recovered:
            msg = f"commit before recover; spool={self._config.own.ledger_group}"
            raise InternalError(msg)
        checkpoint_id = committable.committable.checkpoint_id
        ledger = self._own.ledger
        if ledger is not None and ledger >= checkpoint_id:
            msg = (
                "a new checkpoint has a number that was already published, so a crash would lose "
                "its output: checkpoint numbers must never go back; "
                f"spool={self._config.own.ledger_group} ledger={ledger} checkpoint={checkpoint_id}"
            )
            raise SinkCommitError(msg)
        if committable.paths:
            return self._own.settle(committable)
        if self._clock.monotonic_s() - self._own.ledger_written_s >= LEDGER_REFRESH_S:
            self._own.refresh_ledger(checkpoint_id)
        return CommitOutcome.EMPTY


def _publication_order(
    committables: Sequence[LocalCommittable],
) -> list[tuple[SpoolHeader, list[int]]]:
    """Return, for each identity, the indexes of its spools with output in checkpoint order."""
    order: dict[SpoolHeader, list[int]] = {}
    by_checkpoint = sorted(
        range(len(committables)), key=lambda index: committables[index].committable.checkpoint_id
    )
    for index in by_checkpoint:
        paths = committables[index].paths
        if paths:
            order.setdefault(read_header(paths[0]), []).append(index)
    return list(order.items())
