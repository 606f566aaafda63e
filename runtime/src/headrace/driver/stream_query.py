"""Spark's streaming query of one generation, and the stopping of it.

Spark calls `foreachBatch` on its stream thread; that call runs one epoch and then waits for the job
master. A query is stopped between epochs, by raising `StopEpochs` at the start of the next one:
interrupting the callback from outside ends in a StackOverflowError of the Py4J gateway.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from headrace.driver.events import EpochFinished, FinalEpochFinished, QueryEnded
from headrace.engine.spark_log import write_scratch
from headrace.engine.task_errors import find_task_error
from headrace.errors import EpochAbortedError, HeadraceError, SourceUnavailableError
from headrace.slot.messages import ErrorInfo
from headrace.slot.wire_errors import from_error_info

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from headrace.checkpoint.protocol.types import SourcePosition
    from headrace.clock import Clock
    from headrace.driver.admission import EpochAdmission
    from headrace.driver.events import Event
    from headrace.engine.epochs import EpochRunner
    from headrace.engine.source_ends import SourceEnds
    from headrace.ids import Epoch, Generation

log = logging.getLogger(__name__)

STOP_TIMEOUT_S: Final = 60.0


class StopEpochs(Exception):  # noqa: N818 - not an error
    """Ends the query on purpose."""


class StreamQuery:
    """One generation's query. `start`, then events arrive; `stop` ends it from any thread."""

    def __init__(
        self,
        generation: Generation,
        runner: EpochRunner,
        admission: EpochAdmission,
        ends: SourceEnds,
        post: Callable[[Event], None],
        clock: Clock,
    ) -> None:
        self._generation = generation
        self._runner = runner
        self._admission = admission
        self._ends = ends
        self._post = post
        self._clock = clock
        self._stopping = threading.Event()
        self._aborted = threading.Event()
        self._ended = threading.Event()
        self._query: Future[StreamingQuery] = Future()
        self._epoch_error: BaseException | None = None
        self._epoch_started_s: float | None = None

    def start(
        self,
        rows: DataFrame,
        scratch: Path,
        position: SourcePosition | None,
        min_epoch_s: float,
    ) -> None:
        """Start the query after ``position``.

        Args:
            rows: (slot, chunk) rows of all sources.
            scratch: local directory for Spark's own log; emptied first.
            position: where to continue, None for the beginning.
            min_epoch_s: an epoch does not start earlier than this after the one before.
        """
        write_scratch(scratch, position)
        self._scratch = scratch
        query = (
            rows.writeStream.foreachBatch(self._epoch)
            .option("checkpointLocation", str(scratch))
            .trigger(processingTime=f"{int(min_epoch_s * 1000)} milliseconds")
            .start()
        )
        self._spark = rows.sparkSession
        self._query.set_result(query)
        threading.Thread(
            target=self._await, args=(query,), name=f"query-g{self._generation}", daemon=True
        ).start()

    def running_s(self) -> float:
        """Return for how long the present epoch has been running, 0 between epochs."""
        started = self._epoch_started_s
        return self._clock.monotonic_s() - started if started is not None else 0.0

    def request_stop(self) -> None:
        """Let the present epoch be the last; `QueryEnded` follows."""
        self._stopping.set()

    def stop(self) -> bool:
        """Abort whatever runs and wait for the end; returns whether it ended in time."""
        self._stopping.set()
        self._aborted.set()
        deadline = self._clock.monotonic_s() + STOP_TIMEOUT_S
        while not self._ended.wait(0.25):
            if self._clock.monotonic_s() > deadline:
                return False
            self._spark.sparkContext.cancelAllJobs()
        return True

    def _epoch(self, rows: DataFrame, batch_id: int) -> None:
        if self._stopping.is_set():
            raise StopEpochs
        epoch: Epoch = batch_id  # type: ignore[assignment]
        self._epoch_started_s = self._clock.monotonic_s()
        try:
            event = self._run(rows, epoch)
        except BaseException as error:
            self._epoch_error = error
            raise
        self._epoch_started_s = None
        self._post(event)
        # Only an abort ends the wait: Spark must commit the epoch that a last checkpoint names.
        while not event.reply.wait(0.1):
            if self._aborted.is_set():
                raise StopEpochs

    def _run(self, rows: DataFrame, epoch: Epoch) -> EpochFinished:
        """Run one epoch and decide what the next one may read."""
        self._admission.begin(self._query.result())  # Spark may be faster than `start`
        started = time.perf_counter()
        ended = self._ends.reached_by(self._scratch, epoch)
        results = tuple(self._runner.run(rows, epoch, self._clock.now_ms(), ended_sources=ended))
        duration_s = time.perf_counter() - started
        admission = self._admission.end(results[0].source_records, duration_s)
        return EpochFinished(
            self._generation,
            epoch,
            results,
            duration_s * 1000,
            admission,
            input_ended=self._ends.all_reached(ended),
        )

    def run_final(self, rows: DataFrame, epoch: Epoch) -> None:
        """Begin the epoch after the last one, outside of Spark's query, which has ended.

        Event time moves to its end. `FinalEpochFinished` follows, or `QueryEnded` with an error.

        Args:
            rows: a frame without rows.
            epoch: the one after the last.
        """
        self._ended.clear()
        self._epoch_started_s = self._clock.monotonic_s()
        threading.Thread(
            target=self._final, args=(rows, epoch), name=f"final-g{self._generation}", daemon=True
        ).start()

    def _final(self, rows: DataFrame, epoch: Epoch) -> None:
        ended = frozenset(range(len(self._ends.ends)))
        now_ms = self._clock.now_ms()
        event: Event
        try:
            results = self._runner.run(rows, epoch, now_ms, ended_sources=ended, final=True)
            event = FinalEpochFinished(self._generation, tuple(results))
        except Exception as error:  # noqa: BLE001 - handed to the job master's thread
            event = QueryEnded(self._generation, describe_failure(error))
        self._epoch_started_s = None
        self._ended.set()
        self._post(event)

    def _await(self, query: object) -> None:
        error: BaseException | None = None
        try:
            query.awaitTermination()  # type: ignore[attr-defined]
        except Exception as raised:  # noqa: BLE001 - Spark reports every failure this way
            error = raised
        finally:
            self._ended.set()
        if self._stopping.is_set() and self._epoch_error is None:
            self._post(QueryEnded(self._generation, None))
            return
        self._post(QueryEnded(self._generation, describe_failure(self._epoch_error or error)))


def describe_failure(error: BaseException | None) -> HeadraceError:
    """Return the typed error behind a failure of Spark's query or of one of its jobs."""
    if isinstance(error, HeadraceError):
        return error
    if error is None:
        return EpochAbortedError("Spark's query ended without a reason")
    text = str(error)
    info = find_task_error(text)
    if info is not None:
        return from_error_info(info)
    cause = _java_cause(error)
    if cause is not None and cause[0].startswith("org.apache.kafka."):
        return SourceUnavailableError(
            f"Kafka source failed: {cause[0].rsplit('.', 1)[1]}: {cause[1]}"
        )
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return from_error_info(ErrorInfo(EpochAbortedError.kind, first, text[-4000:]))


def _java_cause(error: BaseException) -> tuple[str, str] | None:
    """Return class and message of the innermost Java exception, if Spark kept it."""
    java = getattr(error, "_origin", None)
    if java is None:
        return None
    while java.getCause() is not None:
        java = java.getCause()
    return java.getClass().getName(), str(java.getMessage())
