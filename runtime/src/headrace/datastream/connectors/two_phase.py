"""What a sink of your own is made of (H1); the guide is docs/custom-sinks.md.

The names are Flink's. A `TwoPhaseSink` stands in the program, travels to the slots by pickle, and
makes there a `SinkWriter` (first phase: ``write``, ``prepare_commit``) and a `Committer` (second
phase: ``recover``, ``commit``). `SpoolingWriter` and `SpoolCommitter` do the parts that are the
same for every sink. `headrace.testing.sinks` tests the result.
"""

from __future__ import annotations

import abc

from headrace.connectors.sink import (
    CommitOutcome,
    Committer,
    DeliveryGuarantee,
    LocalCommittable,
    NoCommitter,
    PendingSpool,
    SinkContext,
    SinkWriter,
    SpoolFile,
)
from headrace.connectors.spooling import SealedSpool, SpoolCommitter, SpoolingWriter
from headrace.datastream.connectors.base import Sink

__all__ = [
    "CommitOutcome",
    "Committer",
    "DeliveryGuarantee",
    "LocalCommittable",
    "NoCommitter",
    "PendingSpool",
    "SealedSpool",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "SpoolCommitter",
    "SpoolFile",
    "SpoolingWriter",
    "TwoPhaseSink",
]


class TwoPhaseSink(Sink):
    """Base of a program's own sinks; a `headrace.connectors.sink.TwoPhaseCommittingSink`.

    An instance holds settings only: it is pickled, and every slot makes connections of its own.
    """

    @property
    def delivery_guarantee(self) -> DeliveryGuarantee:
        """What readers may count on; override it when it is less."""
        return DeliveryGuarantee.EXACTLY_ONCE

    def probe(self) -> None:
        """Check from the driver, before the job starts, that the target can be written.

        Raises:
            InvalidConfigError: a setting is wrong.
            SourceUnavailableError: the target did not answer.
        """

    @abc.abstractmethod
    def create_writer(self, context: SinkContext) -> SinkWriter:
        """Return the first phase of one slot, for one generation."""

    def create_committer(self, context: SinkContext) -> Committer:  # noqa: ARG002 - for overrides
        """Return the second phase of one slot, for one generation; none unless overridden."""
        return NoCommitter()

    def description(self) -> TwoPhaseSink:
        """Return itself: it is its own description."""
        return self
