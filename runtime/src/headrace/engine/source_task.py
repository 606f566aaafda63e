"""Level 0 inside Spark's tasks: decode source rows, run chained operators, partition.

Spark ships a `SourceTask`: a broadcast handle and two numbers. The unpickled operators are kept in
the worker process for the life of the generation, since Spark reuses its workers. Level 0 keeps no
state over epochs; what it sees of event time travels to the slots as `SplitProgress`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import cloudpickle
import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from headrace.engine.task_errors import reporting_errors
from headrace.engine.worker_memory import settle_worker
from headrace.graph.stream_graph import HashByKey
from headrace.ids import SlotIndex
from headrace.slot.chunk import (
    KEY_GROUP_COLUMN,
    NO_TIMESTAMP,
    SplitProgress,
    encode_columns,
    encode_progress,
)
from headrace.slot.operators import ChainBuilder, RecordScope
from headrace.slot.partitioner import ObjectPartitioner
from headrace.slot.runtime_context import SlotRuntimeContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import Broadcast

    from headrace.graph.job_graph import JobGraph, JobOperator
    from headrace.ids import EdgeTag, Generation, JobId

_SCHEMA: Final = pa.schema(
    [pa.field("slot", pa.int32(), nullable=False), pa.field("chunk", pa.binary())]
)


class SourceDecoder(Protocol):
    """How the columns of one source's Spark rows become records; picklable, no Spark inside."""

    @property
    def none_is_skipped(self) -> bool:
        """Whether a None from a deserialization schema leaves the record out."""
        ...

    def values(self, batch: pa.RecordBatch) -> list[object]:
        """Return one value a row."""
        ...

    def timestamps(self, batch: pa.RecordBatch) -> list[int] | None:
        """Return the records' own timestamps in ms, None when the source has none."""
        ...

    def split(self, batch: pa.RecordBatch) -> str:
        """Return the split that the batch comes from; a Spark task reads one split."""
        ...


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """Content of the broadcast: what every source task of one generation needs.

    Attributes:
        job_graph: sources carry a `SourceDecoder` as their function.
        representatives: slot index -> int of the exchange's slot column.
        columnar: indexes of sources whose rows go to the slots as Arrow columns, unseen by Python.
    """

    job_id: JobId
    generation: Generation
    job_graph: JobGraph
    representatives: tuple[int, ...]
    columnar: frozenset[int]


_programs: dict[tuple[str, int, int], _SourceProgram] = {}
"""Programs of this worker process, by (job, generation, source)."""


@dataclass(frozen=True, slots=True)
class SourceTask:
    """What Spark calls with the rows of one source partition in one epoch."""

    plan: Broadcast[bytes]
    key: tuple[str, int]
    source: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield (slot, chunk) rows."""
        with reporting_errors():
            program = self._program()
            yield from program.run(batches)

    def _program(self) -> _SourceProgram:
        key = (*self.key, self.source)
        program = _programs.get(key)
        if program is None:
            for stale in [k for k in _programs if k[:2] != self.key]:
                del _programs[stale]
            program = _SourceProgram(cloudpickle.loads(self.plan.value), self.source)
            _programs[key] = program
            settle_worker(again=True)
        return program


class _SourceProgram:
    """One source with its chained operators, ready to run."""

    def __init__(self, plan: SourcePlan, source: int) -> None:
        graph = plan.job_graph
        self._graph = graph
        self._source = source
        self._operator: JobOperator = graph.sources()[source]
        self._decoder: SourceDecoder = self._operator.function  # type: ignore[assignment]
        self._columnar = source in plan.columnar
        self._representatives = plan.representatives
        self._rows: list[tuple[int, bytes]] = []
        self._scope = RecordScope()
        inputs = graph.levels[1].inputs
        self._partitioners: dict[EdgeTag, ObjectPartitioner] = {
            edge.tag: ObjectPartitioner(
                edge, graph.parallelism_of(edge), graph.max_parallelism, self._emit
            )
            for edge in inputs
        }
        exits = {tag: partitioner.add for tag, partitioner in self._partitioners.items()}
        level = graph.levels[0]
        self._push = ChainBuilder(level.operators, self._scope, exits, {}).downstream(
            self._operator.id
        )
        for operator in level.operators:
            opener = getattr(operator.function, "open", None)
            if opener is not None and operator.id != self._operator.id:
                opener(
                    SlotRuntimeContext(
                        operator=operator,
                        slot=SlotIndex(0),
                        parallelism=graph.parallelism,
                        max_parallelism=graph.max_parallelism,
                        job_id=plan.job_id,
                        job_name=graph.name,
                        backend=None,
                    )
                )
        self._assigner = self._operator.watermarks.timestamp_assigner
        marks = self._operator.watermarks
        self._assigned_later = marks.assigned_by is not None
        self._event_time = marks.is_event_time and not self._assigned_later

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process one task's rows."""
        self._rows = []
        context = TaskContext.get()
        for partitioner in self._partitioners.values():
            partitioner.begin(context.partitionId() if context is not None else 0)
        seen: dict[str, _Seen] = {}
        for batch in batches:
            if batch.num_rows == 0:
                continue
            progress = seen.setdefault(self._decoder.split(batch), _Seen())
            progress.records += batch.num_rows
            if self._columnar:
                self._split_columns(batch)
            else:
                self._scope.greatest_timestamp = progress.max_timestamp_ms
                self._run_objects(batch, progress)
                if self._assigned_later:
                    progress.max_timestamp_ms = self._scope.greatest_timestamp
            yield from self._take()
        for partitioner in self._partitioners.values():
            partitioner.flush()
        self._announce(seen)
        yield from self._take()

    def _run_objects(self, batch: pa.RecordBatch, progress: _Seen) -> None:
        values = self._decoder.values(batch)
        stamps = self._decoder.timestamps(batch)
        if self._decoder.none_is_skipped and None in values:
            kept = [index for index, value in enumerate(values) if value is not None]
            values = [values[index] for index in kept]
            stamps = [stamps[index] for index in kept] if stamps is not None else None
        scope, push = self._scope, self._push
        if not self._event_time:
            if stamps is None:
                scope.timestamp = NO_TIMESTAMP
                for value in values:
                    push(value)
                return
            for value, stamp in zip(values, stamps, strict=True):
                scope.timestamp = stamp
                push(value)
            return
        assigner = self._assigner
        own = stamps or [NO_TIMESTAMP] * len(values)
        greatest = progress.max_timestamp_ms
        for value, recorded in zip(values, own, strict=True):
            stamp = recorded if assigner is None else assigner(value, recorded)
            if stamp > greatest:  # noqa: PLR1730 - max() costs a call a record
                greatest = stamp
            scope.timestamp = stamp
            push(value)
        progress.max_timestamp_ms = greatest

    def _split_columns(self, batch: pa.RecordBatch) -> None:
        graph = self._graph
        tag = int(self._operator.exits[0])
        edge = next(e for e in graph.levels[1].inputs if int(e.tag) == tag)
        parallelism = graph.parallelism_of(edge)
        groups = batch.column(KEY_GROUP_COLUMN).to_numpy(zero_copy_only=False)
        slots = groups.astype(np.int64) * parallelism // graph.max_parallelism
        if parallelism == 1:
            self._emit(0, encode_columns(tag, batch))
            return
        for slot in np.unique(slots).tolist():
            rows = batch.take(pa.array(np.flatnonzero(slots == slot)))
            self._emit(slot, encode_columns(tag, rows))

    def _announce(self, seen: dict[str, _Seen]) -> None:
        """Tell every slot what this task saw, so that all compute the same watermark."""
        if not seen:
            return
        progress = [
            SplitProgress(
                self._source,
                split,
                None if what.max_timestamp_ms == NO_TIMESTAMP else what.max_timestamp_ms,
                what.records,
            )
            for split, what in seen.items()
        ]
        chunk = encode_progress(progress)
        for slot in range(self._graph.parallelism):
            self._emit(slot, chunk)

    def _emit(self, slot: int, chunk: bytes) -> None:
        self._rows.append((self._representatives[slot], chunk))

    def _take(self) -> Iterator[pa.RecordBatch]:
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([slot for slot, _ in rows], pa.int32()),
                pa.array([chunk for _, chunk in rows], pa.binary()),
            ],
            schema=_SCHEMA,
        )


@dataclass(slots=True)
class _Seen:
    max_timestamp_ms: int = NO_TIMESTAMP
    records: int = 0


def is_columnar(graph: JobGraph, operator: JobOperator) -> bool:
    """Return whether a source's rows can reach the slots without becoming Python objects here.

    That is when nothing is chained to it, its one edge is keyed by a plain field whose hash Spark
    can compute, and no timestamps are assigned in Python.
    """
    if operator.chained or len(operator.exits) != 1:
        return False
    if operator.watermarks.is_event_time:
        return False
    edge = next(e for e in graph.levels[1].inputs if e.tag == operator.exits[0])
    partitioning = edge.partitioning
    return (
        isinstance(partitioning, HashByKey)
        and partitioning.field_name is not None
        and partitioning.serializer.spark_expression(partitioning.field_name) is not None
        and edge.relay_to is None
    )
