"""Sinks that deliver to the driver over the control channel: ``print`` and ``execute_and_collect``.

For people and tests on one machine; values travel as text or pickles and sit in the driver's
memory. Delivery is at least once: after a failover, output of repeated epochs is delivered again.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Final

from headrace.connectors.sink import (
    DeliveryGuarantee,
    NoCommitter,
    PendingSpool,
    TwoPhaseCommittingSink,
)
from headrace.connectors.spools import spool_id_of
from headrace.errors import InternalError
from headrace.graph.endpoints import CollectSink, PrintSink

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.connectors.sink import Committer, SinkContext, SinkWriter
    from headrace.ids import CheckpointId

    Send = Callable[[str, list[bytes]], None]

PRINT_CHANNEL: Final = "print"
ITEMS_MAX: Final = 1000
"""Items that are sent in one message."""


class ChannelWriter:
    """Collects an epoch's values and sends them to the driver at its end."""

    def __init__(
        self,
        context: SinkContext,
        channel: str,
        encode: Callable[[object], bytes],
        send: Send,
    ) -> None:
        self._context = context
        self._channel = channel
        self._encode = encode
        self._send = send
        self._items: list[bytes] = []

    def write(self, value: object, timestamp_ms: int | None) -> None:  # noqa: ARG002 - the contract's
        """Take one value."""
        self._items.append(self._encode(value))
        if len(self._items) >= ITEMS_MAX:
            self.flush_epoch()

    def flush_epoch(self) -> None:
        """Send what was collected."""
        if self._items:
            self._send(self._channel, self._items)
            self._items = []

    def prepare_commit(self, checkpoint_id: CheckpointId) -> PendingSpool:
        """Nothing is spooled."""
        self.flush_epoch()
        context = self._context
        return PendingSpool(context.operator_uid, spool_id_of(context.slot), checkpoint_id, (), 0)

    def close(self) -> None:
        """Drop what was not sent: its epoch will be repeated."""
        self._items = []


def print_encoder(prefix: str | None, slot: int, parallelism: int) -> Callable[[object], bytes]:
    """Return how ``print`` shows a value, as Flink's ``PrintSinkOutputWriter`` does.

    ``<prefix>:<1-based subtask>> <value>``; the subtask is left out when there is only one.
    """
    parts = [prefix] if prefix else []
    if parallelism > 1:
        parts.append(str(slot + 1))
    start = f"{':'.join(parts)}> " if parts else ""
    return lambda value: f"{start}{value}".encode()


def pickle_encoder(value: object) -> bytes:
    """Return the value as a pickle, for the driver of the same program."""
    return pickle.dumps(value, protocol=5)


class LocalSink:
    """A ``print`` or collect sink, bound to the slot's connection to the driver."""

    delivery_guarantee = DeliveryGuarantee.AT_LEAST_ONCE

    def __init__(self, description: PrintSink | CollectSink, send: Send) -> None:
        self._description = description
        self._send = send

    def probe(self) -> None:
        """There is nothing to check."""

    def create_writer(self, context: SinkContext) -> SinkWriter:
        """Return a writer that sends to the driver."""
        description = self._description
        if isinstance(description, PrintSink):
            encode = print_encoder(description.prefix, context.slot, context.parallelism)
            return ChannelWriter(context, PRINT_CHANNEL, encode, self._send)
        return ChannelWriter(context, description.channel, pickle_encoder, self._send)

    def create_committer(self, context: SinkContext) -> Committer:  # noqa: ARG002 - the contract's
        """There is no second phase."""
        return NoCommitter()


def resolve_sink(function: object, send: Send) -> TwoPhaseCommittingSink:
    """Return the sink that a sink operator's ``function`` describes."""
    if isinstance(function, (PrintSink, CollectSink)):
        return LocalSink(function, send)
    if isinstance(function, TwoPhaseCommittingSink):
        return function
    msg = f"not a sink; type={type(function).__name__}"
    raise InternalError(msg)
