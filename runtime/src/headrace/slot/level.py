"""One level of a job in one slot: takes chunks, runs operators, hands out chunks.

Lives for one generation and is used by the slot's main thread alone.

Broadcast records of an epoch come first (T28). Chunks arrive in any order, so a level with a
broadcast input holds all chunks until the epoch's last one is there; then it processes the
broadcast ones, in the order (sender, number) that is the same in every slot, and then the others.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import InternalError, UserCodeError
from headrace.graph.stream_graph import Broadcast
from headrace.ids import SlotIndex
from headrace.keygroups import key_group_range_of_slot
from headrace.slot.chunk import (
    NO_TIMESTAMP,
    ColumnRows,
    ObjectRows,
    SplitProgress,
    decode,
    order_of,
    retagged,
    tag_of,
)
from headrace.slot.columns import ColumnDecoder
from headrace.slot.keyed import KeyedOperator
from headrace.slot.operators import ChainBuilder, RecordScope
from headrace.slot.partitioner import ObjectPartitioner
from headrace.slot.user_code import user_traceback

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.graph.job_graph import ExchangeEdge, InputPort, JobGraph, JobLevel
    from headrace.keygroups import KeyGroupRange
    from headrace.slot.broadcast import BroadcastStates
    from headrace.slot.operators import SinkTarget
    from headrace.state.contract import KeyedStateBackend


@dataclass(slots=True)
class LevelCounters:
    """What one level did in one epoch."""

    records_in: int = 0
    records_out: int = 0
    chunks_in: int = 0
    decode_ns: int = 0
    user_ns: int = 0
    timers_ns: int = 0


@dataclass(frozen=True, slots=True)
class LevelParts:
    """What a level is made of, built by `headrace.slot.job`.

    Attributes:
        backends: keyed state, by operator id.
        sinks: sink targets, by operator id.
        broadcasts: broadcast state, by operator id.
        time_domains: the API's constants for event and processing time.
    """

    graph: JobGraph
    level: JobLevel
    slot: SlotIndex
    backends: Mapping[int, KeyedStateBackend]
    sinks: Mapping[int, SinkTarget]
    broadcasts: Mapping[int, BroadcastStates]
    time_domains: tuple[object, object]


class SlotLevel:
    """Operators of one level in one slot."""

    def __init__(self, parts: LevelParts) -> None:
        graph, level = parts.graph, parts.level
        self.level = level
        self._slot = int(parts.slot)
        self._graph = graph
        here = [o for o in level.operators if self._slot < graph.parallelism_of(o)]
        self.scope = RecordScope()
        self.counters = LevelCounters()
        self._emit: Callable[[int, bytes], None] = _refuse
        next_inputs = self._next_inputs(graph, level)
        self._partitioners = {
            edge.tag: ObjectPartitioner(
                edge,
                graph.parallelism_of(edge),
                graph.max_parallelism,
                self._forward,
            )
            for edge in next_inputs
        }
        exits = {tag: partitioner.add for tag, partitioner in self._partitioners.items()}
        self._chain = ChainBuilder(here, self.scope, exits, parts.sinks, parts.broadcasts)
        self._keyed = {
            operator.id: KeyedOperator(
                operator,
                parts.backends[operator.id],
                self.scope,
                self._chain.downstream(operator.id),
                parts.time_domains,
                parts.broadcasts.get(operator.id),
            )
            for operator in here
            if operator.kind.is_keyed
        }
        self._inputs = {int(edge.tag): edge for edge in level.inputs}
        self._ranges = {int(edge.tag): self._range(edge) for edge in level.inputs}
        self._columns = {int(edge.tag): ColumnDecoder(edge) for edge in level.inputs}
        self._holds = any(
            isinstance(edge.partitioning, Broadcast) and edge.targets for edge in level.inputs
        )
        self._broadcast_chunks: list[bytes] = []
        self._held_chunks: list[bytes] = []

    @staticmethod
    def _next_inputs(graph: JobGraph, level: JobLevel) -> tuple[ExchangeEdge, ...]:
        following = int(level.level) + 1
        return graph.levels[following].inputs if following < len(graph.levels) else ()

    def _range(self, edge: ExchangeEdge) -> KeyGroupRange | None:
        """Return the key groups whose rows may come over an edge, None for none."""
        parallelism = self._graph.parallelism_of(edge)
        if self._slot >= parallelism:
            return None
        return key_group_range_of_slot(
            SlotIndex(self._slot), parallelism, self._graph.max_parallelism
        )

    def bind(self) -> None:
        """Bind the keyed user functions; called once, after every function's ``open``."""
        for keyed in self._keyed.values():
            keyed.bind()

    def begin_epoch(self, processing_time_ms: int, emit: Callable[[int, bytes], None]) -> None:
        """Start an epoch whose output chunks go to ``emit`` (slot, chunk)."""
        self.counters = LevelCounters()
        self._broadcast_chunks, self._held_chunks = [], []
        self.scope.processing_time_ms = processing_time_ms
        self._emit = emit
        for partitioner in self._partitioners.values():
            partitioner.begin(self._slot)

    def take(self, chunk: bytes) -> list[SplitProgress]:
        """Run the operators over one chunk; returns progress of sources, if that is what it holds.

        Raises:
            UserCodeError: a user function raised.
            InternalError: a row does not belong to this slot.
        """
        edge = self._inputs.get(tag_of(chunk))
        if edge is None:
            return self._progress_of(chunk)
        self.counters.chunks_in += 1
        if edge.relay_to is not None:
            # Already in the slot where its rows belong: pass on, key groups and all, unread.
            self._forward(self._slot, retagged(chunk, int(edge.relay_to)))
        if not self._holds:
            self._run_chunk(edge, chunk)
        elif order_of(chunk) is not None:
            self._broadcast_chunks.append(chunk)
        else:
            self._held_chunks.append(chunk)
        return []

    def _run_chunk(self, edge: ExchangeEdge, chunk: bytes) -> None:
        for port in edge.targets:
            # Decoded for each: operators that run side by side must not share mutable values.
            self._process(port, self._rows_of(edge, chunk))

    def _run_held(self) -> None:
        """Process the chunks of an epoch whose order had to be settled first."""
        broadcast = sorted(
            self._broadcast_chunks, key=lambda chunk: (order_of(chunk), tag_of(chunk))
        )
        for chunk in (*broadcast, *self._held_chunks):
            self._run_chunk(self._inputs[tag_of(chunk)], chunk)
        self._broadcast_chunks, self._held_chunks = [], []

    def _progress_of(self, chunk: bytes) -> list[SplitProgress]:
        progress = decode(chunk)
        if not isinstance(progress, list):
            msg = f"a chunk has an unknown edge; level={self.level.level} tag={progress.tag}"
            raise InternalError(msg)
        return progress

    def _rows_of(self, edge: ExchangeEdge, chunk: bytes) -> ObjectRows:
        started = time.perf_counter_ns()
        rows = decode(chunk)
        if isinstance(rows, list):
            msg = f"progress has the tag of an edge; level={self.level.level} tag={edge.tag}"
            raise InternalError(msg)
        if isinstance(rows, ColumnRows):
            rows = self._columns[rows.tag].decode(rows)
        self.counters.records_in += len(rows.values)
        if rows.keys is not None:
            self._check_range(edge, rows)
        self.counters.decode_ns += time.perf_counter_ns() - started
        return rows

    def _process(self, port: InputPort, rows: ObjectRows) -> None:
        started = time.perf_counter_ns()
        try:
            self._run(port, rows)
        except Exception as error:
            raise self._user_error(error) from error
        self.counters.user_ns += time.perf_counter_ns() - started

    def _run(self, port: InputPort, rows: ObjectRows) -> None:
        keyed = self._keyed.get(port.operator)
        if keyed is not None:
            if keyed.operator.kind.takes_broadcast and port.input == 1:
                keyed.process_broadcast(rows.timestamps, rows.values)
                return
            if rows.keys is None:
                msg = f"a keyed chunk has no keys; level={self.level.level} tag={rows.tag}"
                raise InternalError(msg)
            keyed.process(_KeyedView(rows), port.input)
            return
        push, scope = self._chain.push(port), self.scope
        stamps = rows.timestamps or [NO_TIMESTAMP] * len(rows.values)
        for value, stamp in zip(rows.values, stamps, strict=True):
            scope.timestamp = stamp
            push(value)

    def end_epoch(self, watermark_ms: int) -> None:
        """Move event time, fire timers, emit what is buffered for the next level."""
        self._run_held()
        started = time.perf_counter_ns()
        self.scope.watermark_ms = watermark_ms
        try:
            for keyed in self._keyed.values():
                keyed.fire_timers()
        except Exception as error:
            raise self._user_error(error) from error
        for partitioner in self._partitioners.values():
            partitioner.flush()
        self.counters.timers_ns += time.perf_counter_ns() - started
        self._emit = _refuse

    def _forward(self, slot: int, chunk: bytes) -> None:
        self.counters.records_out += 1
        self._emit(slot, chunk)

    def _check_range(self, edge: ExchangeEdge, rows: ObjectRows) -> None:
        owned = self._ranges[int(edge.tag)]
        groups = rows.key_groups
        if len(groups) != len(rows.values):
            msg = f"a keyed chunk lacks key groups; level={self.level.level} tag={rows.tag}"
            raise InternalError(msg)
        low, high = int(groups.min()), int(groups.max())
        if owned is None or low < owned.start or high > owned.end:
            msg = (
                f"a row reached a slot that does not own its key group; level={self.level.level} "
                f"low={low} high={high} owned={owned}"
            )
            raise InternalError(msg)

    def _user_error(self, error: Exception) -> Exception:
        if isinstance(error, (InternalError, UserCodeError)):
            return error
        names = ", ".join(operator.name for operator in self.level.operators)
        text = user_traceback(error)
        msg = f"{type(error).__name__}: {error}; operators={names!r}"
        return UserCodeError(msg, traceback_text=text)


class _KeyedView:
    """Rows as `KeyedOperator.process` wants them: plain lists."""

    __slots__ = ("key_groups", "keys", "timestamps", "values")

    def __init__(self, rows: ObjectRows) -> None:
        self.keys: list[object] = rows.keys or []
        self.key_groups: list[int] = rows.key_groups.tolist()
        self.timestamps = rows.timestamps
        self.values = rows.values


def _refuse(slot: int, chunk: bytes) -> None:
    msg = f"output outside an epoch; slot={slot} bytes={len(chunk)}"
    raise InternalError(msg)
