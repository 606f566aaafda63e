"""The anchored exchange on a real Spark: partition i is slot i, in order (docs/adr/0001)."""

from __future__ import annotations

import re
import sys
from collections import defaultdict

import pyarrow as pa
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's documentation uses

from headrace.engine.exchange import EXCHANGE_SCHEMA, SlotExchange, hash_int
from headrace.engine.session import SessionSettings, start_session

pytestmark = pytest.mark.integration

SENDERS = 3

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Spark's workers cannot import tests


@pytest.fixture(scope="module")
def spark():
    conf = {
        "spark.sql.shuffle.partitions": "4",
        # many small spills and batches: order must survive both
        "spark.shuffle.sort.bypassMergeThreshold": "1",
        "spark.shuffle.spill.numElementsForceSpillThreshold": "100",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
        "spark.log.level": "ERROR",
    }
    session = start_session(SessionSettings("test-exchange", "local[2]", "token", conf))
    yield session
    session.stop()


def send(slots, count):
    """Return what a level does: a sending task deals ``count`` numbered chunks to the slots."""

    def run(batches):
        for _ in batches:
            pass
        sender = TaskContext.get().partitionId()
        for number in range(count):
            chunk = f"{sender}:{number}".encode()
            yield as_batch([(slots[number % len(slots)], chunk)])

    return run


def forward(batches):
    """Pass every chunk on to the slot that it came to, with the index of the task."""
    slot = TaskContext.get().partitionId()
    for batch in batches:
        rows = batch.to_pylist()
        passed = [(row["slot"], row["chunk"]) for row in rows if row["chunk"] is not None]
        yield as_batch([(value, b"%d:%s" % (slot, chunk)) for value, chunk in passed])


def as_batch(rows):
    return pa.RecordBatch.from_arrays(
        [
            pa.array([slot for slot, _ in rows], pa.int32()),
            pa.array([chunk for _, chunk in rows], pa.binary()),
        ],
        names=EXCHANGE_SCHEMA.names,
    )


def contents(frame):
    """Return for each partition the rows in it, in order."""
    found = defaultdict(list)

    def tagged(batches):
        slot = TaskContext.get().partitionId()
        for batch in batches:
            chunks = batch.column(1).to_pylist()
            yield as_batch([(slot, chunk) for chunk in chunks])

    for row in frame.mapInArrow(tagged, EXCHANGE_SCHEMA).collect():
        found[row["slot"]].append(None if row["chunk"] is None else bytes(row["chunk"]))
    return dict(found)


def test_ints_are_hashed_as_spark_hashes_them(spark):
    values = [*range(500), *(2**bits - 1 for bits in range(10, 32))]
    rows = spark.createDataFrame([(value,) for value in values], "value int")

    hashed = [row[0] for row in rows.select(F.hash("value")).collect()]

    assert hashed == [hash_int(value) for value in values]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 8])
def test_every_slot_has_one_task_with_its_anchor_row_even_without_rows(spark, parallelism):
    exchange = SlotExchange(spark, parallelism)
    nothing = spark.createDataFrame([], EXCHANGE_SCHEMA)

    routed = contents(exchange.route(nothing))

    exchange.close()
    assert {slot: [None] for slot in range(parallelism)} == routed


@pytest.mark.parametrize("parallelism", [1, 2, 3, 8])
def test_a_slot_gets_its_rows_and_no_others_each_sender_in_order(spark, parallelism):
    exchange = SlotExchange(spark, parallelism)
    senders = spark.range(0, SENDERS, numPartitions=SENDERS)
    rows = senders.mapInArrow(send(exchange.representatives, 600), EXCHANGE_SCHEMA)

    routed = contents(exchange.route(rows))

    exchange.close()
    assert set(range(parallelism)) == set(routed)
    for slot, chunks in routed.items():
        for sender in range(SENDERS):
            own = [c for c in chunks if c is not None and c.startswith(b"%d:" % sender)]
            expected = [b"%d:%d" % (sender, n) for n in range(slot, 600, parallelism)]
            assert expected == own


def test_order_and_placement_hold_over_two_exchanges(spark):
    exchange = SlotExchange(spark, 2)
    senders = spark.range(0, SENDERS, numPartitions=SENDERS)
    rows = senders.mapInArrow(send(exchange.representatives, 600), EXCHANGE_SCHEMA)
    relayed = exchange.route(rows).mapInArrow(forward, EXCHANGE_SCHEMA)

    routed = contents(exchange.route(relayed))

    exchange.close()
    for slot, chunks in routed.items():
        for sender in range(SENDERS):
            mark = b"%d:%d:" % (slot, sender)
            own = [c for c in chunks if c is not None and c.startswith(mark)]
            assert [mark + b"%d" % n for n in range(slot, 600, 2)] == own


def test_an_epoch_is_planned_without_join_and_sort_and_with_one_shuffle_a_level(spark):
    exchange = SlotExchange(spark, 2)
    senders = spark.range(0, SENDERS, numPartitions=SENDERS)
    rows = senders.mapInArrow(send(exchange.representatives, 1), EXCHANGE_SCHEMA)
    relayed = exchange.route(rows).mapInArrow(forward, EXCHANGE_SCHEMA)
    routed = exchange.route(relayed)

    plan = routed._jdf.queryExecution().executedPlan().treeString()

    exchange.close()
    shuffles = set(re.findall(r"Exchange .*plan_id=(\d+)", plan))
    assert 1 + 2 == len(shuffles), plan  # the anchor's, made once, and one for each level
    assert not re.search("Join|Sort|Aggregate", plan), plan
