"""Sinks travel from a program to a slot and publish there, with everything but Spark."""

from __future__ import annotations

import json
import queue
from pathlib import Path
from types import SimpleNamespace

import cloudpickle
import pyarrow.parquet as pq
import pytest

from headrace.clock import SystemClock
from headrace.common import JobExecutionResult, Row
from headrace.connectors.sink import SinkContext
from headrace.datastream import StreamExecutionEnvironment
from headrace.datastream.connectors.file_system import FileSink
from headrace.datastream.connectors.for_each_batch import ForEachBatchSink
from headrace.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from headrace.datastream.execution import ProgramContext, program_context
from headrace.datastream.formats.parquet import ParquetBulkWriters
from headrace.ids import JobId
from headrace.slot.local_sinks import resolve_sink
from headrace.slot.sinks import SinkPart, SlotSinks
from headrace.testing.sink_world import committable_of
from runtime_tests.sinks.targets import ROW


@pytest.fixture
def shipped(tmp_path):
    """The job as a slot gets it: sinks by uid."""
    jobs = []

    def execute(job_graph, configuration, env, /):
        jobs.append(cloudpickle.loads(cloudpickle.dumps(job_graph)))
        return JobExecutionResult(JobId("0" * 32), 1)

    def write(rows, batch_id):
        name = batch_id.replace("/", "-")
        (tmp_path / name).write_text(json.dumps([row.number for row in rows]))

    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://h/d")
    sinks = {
        "parquet": FileSink.for_bulk_format(
            str(tmp_path / "parquet"), ParquetBulkWriters.for_row_type(ROW)
        ).build(),
        "batches": ForEachBatchSink(write, ROW),
        "jdbc": JdbcSink.exactly_once_sink("INSERT INTO t VALUES (?, ?)", ROW, builder.build()),
    }
    with program_context(ProgramContext(execute_job=execute)):
        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_collection([Row(number=1, name="a")], ROW)
        for uid, sink in sinks.items():
            stream.sink_to(sink).uid(uid)
        env.execute("sinks")
    return {o.uid: o for o in jobs[0].operators() if o.uid in sinks}


def slot_of(operators, directory: Path, answers):
    parts = []
    for operator in operators:
        spool_dir = directory / f"spool-{operator.id}"
        spool_dir.mkdir()
        context = SinkContext(
            JobId("0" * 32), operator.uid, 0, 1, 1, None, None, spool_dir, SystemClock()
        )
        parts.append(SinkPart(operator.id, resolve_sink(operator.function, print), context))
    return SlotSinks(parts, lambda checkpoint, n: answers.put((checkpoint, n)), answers.put)


def test_a_slot_publishes_what_the_sinks_of_a_program_were_given(shipped, tmp_path):
    answers = queue.Queue()
    operators = [shipped["parquet"], shipped["batches"]]
    slot = slot_of(operators, tmp_path, answers)
    slot.recover([], None, tmp_path / "restored")
    for operator in operators:
        for number in range(3):
            slot.writers[operator.id].write(Row(number=number, name="x"), None)
    slot.flush_epoch()
    sealed, _ = slot.seal(1)
    slot.acked(1, SimpleNamespace(committables=[committable_of(spool) for spool in sealed]))
    assert not (tmp_path / "parquet").exists() or not list((tmp_path / "parquet").glob("part-*"))
    slot.completed(1)
    assert (1, 6) == answers.get(timeout=10)
    slot.close()
    assert [0, 1, 2] == pq.read_table(tmp_path / "parquet")["number"].to_pylist()
    assert [0, 1, 2] == json.loads(next(tmp_path.glob("*-batches-*")).read_text())


def test_a_jdbc_sink_reaches_the_slot_whole(shipped, tmp_path):
    slot = slot_of([shipped["jdbc"]], tmp_path, queue.Queue())
    slot.writers[shipped["jdbc"].id].write(Row(number=1, name="a"), None)
    sealed, _ = slot.seal(1)
    assert [(1, "jdbc")] == [(spool.records, spool.operator_uid) for spool in sealed]
    slot.close()
