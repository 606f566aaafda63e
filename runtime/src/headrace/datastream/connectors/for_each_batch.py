"""A function as a sink: the rows of a checkpoint and a name for them (H8), like ``foreachBatch``.

The function is called when the checkpoint is complete, and again with the same rows under the same
name when nobody knows whether it has returned: after a crash, by another process, long after. It
is exactly-once when the function drops names that it has seen, or overwrites what is there
under them.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from headrace.common.typeinfo import TypeInformation, Types
from headrace.connectors.sink import CommitOutcome, Committer, SinkContext, SinkWriter
from headrace.connectors.spooling import SealedSpool, SpoolCommitter, SpoolingWriter
from headrace.datastream.connectors.two_phase import TwoPhaseSink
from headrace.errors import HeadraceError, UserCodeError
from headrace.serialization.registry import serializer_from_snapshot
from headrace.serialization.serializer import TypeSerializer

BatchFunction = Callable[[Iterator[Any], str], None]
"""``function(rows, batch_id)``: rows in order, read from disk as they are taken."""

_TRACEBACK_CHARS_MAX: Final = 4000


class ForEachBatchSink(TwoPhaseSink):
    """Calls a function with the rows of every slot and checkpoint; see the module."""

    def __init__(self, function: BatchFunction, type_info: TypeInformation | None = None) -> None:
        """Create the sink.

        Args:
            function: takes rows and the batch's name, ``<job>/<sink>/<slot>/<checkpoint>``, which
                is the same for the same rows at every call; called once at a time in a slot.
            type_info: type of the rows; undeclared ones are pickled while they wait.
        """
        self._function = function
        self._type_info = type_info or Types.PICKLED_BYTE_ARRAY()

    def create_writer(self, context: SinkContext) -> SinkWriter:
        """See `TwoPhaseSink.create_writer`."""
        serializer = self._type_info.value_serializer()

        def encode(value: object) -> bytes:
            return serializer.serialize(serializer.coerce(value))

        return SpoolingWriter(context, encode, msgspec.json.encode(serializer.snapshot()))

    def create_committer(self, context: SinkContext) -> Committer:
        """See `TwoPhaseSink.create_committer`."""
        return _FunctionCommitter(self._function, self._type_info.value_serializer(), context)


class _FunctionCommitter(SpoolCommitter):
    def __init__(
        self,
        function: BatchFunction,
        serializer: TypeSerializer[object],
        context: SinkContext,
    ) -> None:
        super().__init__(context)
        self._function = function
        self._serializer = serializer

    def publish(self, spool: SealedSpool) -> CommitOutcome:
        serializer = self._serializer
        stored = msgspec.json.decode(spool.header.extra, type=dict[str, object])
        if stored != serializer.snapshot():  # the program has changed since
            serializer = serializer_from_snapshot(stored)
        try:
            self._function(map(serializer.deserialize, spool.rows()), spool.batch_id)
        except HeadraceError:
            raise
        except Exception as error:
            msg = (
                "the function of a batch sink failed, it is called again after a failover; "
                f"batch={spool.batch_id} error={type(error).__name__}: {error}"
            )
            text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARS_MAX:]
            raise UserCodeError(msg, traceback_text=text) from error
        return CommitOutcome.PUBLISHED
