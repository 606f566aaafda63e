"""The data source ``headrace-state``: columns, partitions and rows, without a session (E9)."""

import datetime as dt
import io
import json
import pickle
from decimal import Decimal

import msgspec
import pyarrow as pa
import pytest
from pyspark.serializers import CPickleSerializer, read_int
from pyspark.sql import types as spark
from pyspark.sql.worker import plan_data_source_read

from headrace.errors import InvalidConfigError
from headrace.serialization.row import Row
from headrace.serialization.types import (
    BIG_INT,
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    DURATION,
    INSTANT,
    LONG,
    PICKLED,
    SHORT,
    STRING,
    TIME,
    TIMESTAMP,
    ClassType,
    ListType,
    MapType,
    RowType,
    TupleType,
)
from headrace.state_processor.columns import PICKLED_FIELD
from headrace.state_processor.spark.source import SourceOptions, StateDataSource
from runtime_tests.state.every_kind import NAMES

from .stored_job import UID, store_checkpoint


def open_source(path, state, **options):
    return StateDataSource({"path": path, "operator": UID, "state": state, **options})


def read_rows(path, state, **options):
    """All rows as executors read them: the reader travels by pickle, to one task a partition."""
    source = open_source(path, state, **options)
    reader = source.reader(source.schema())
    rows = []
    for partition in reader.partitions():
        there, part = pickle.loads(pickle.dumps((reader, partition)))
        for batch in there.read(part):
            rows += batch.to_pylist()
    return rows


@pytest.fixture(scope="module", params=["rocksdb", "hashmap"])
def path(request, tmp_path_factory):
    return store_checkpoint(tmp_path_factory.mktemp("job"), request.param, parallelism=2)


def test_columns_follow_from_the_kind_and_the_declared_types(path):
    def columns(state):
        fields = open_source(path, state).schema().fields
        assert [field.name for field in fields[:2]] == ["key_group", "key"]
        return {field.name: field.dataType.simpleString() for field in fields[2:]}

    assert columns("count") == {"value": "bigint"}
    assert columns("pair") == {"value": "struct<f0:string,f1:double>"}
    assert columns("items") == {"index": "bigint", "value": "string"}
    assert columns("by_number") == {"map_key": "int", "value": "bigint"}
    assert columns("mean") == {"value": "struct<f0:bigint,f1:bigint>"}
    assert columns("flags") == {
        "map_key": "string",
        "value": "bigint",
        "last_access_ms": "bigint",
    }
    assert columns("_window_timers") == {
        "window_start_ms": "bigint",
        "window_end_ms": "bigint",
        "timestamp_ms": "bigint",
    }


def test_pickles_are_flagged_in_the_schema(path):
    assert open_source(path, "blobs").schema()["value"].metadata == {PICKLED_FIELD: "true"}
    assert open_source(path, "count").schema()["value"].metadata == {}
    rows = [row["value"] for row in read_rows(path, "blobs") if row["key"] == NAMES[1]]
    assert [pickle.loads(value) for value in rows] == [{"n": 1}] * 2


def test_a_slot_is_a_partition(path):
    source = open_source(path, "count")
    partitions = source.reader(source.schema()).partitions()
    assert [partition.value for partition in partitions] == [0, 8]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("count", [{"value": 1}]),
        ("items", [{"index": 0, "value": NAMES[2]}, {"index": 1, "value": NAMES[2]}]),
        (
            "by_pair",
            [
                {"map_key": {"f0": "a", "f1": 2}, "value": [b"\x00", b""]},
                {"map_key": {"f0": "b", "f1": 2}, "value": None},
            ],
        ),
        ("_event_timers", [{"timestamp_ms": -2}]),
    ],
)
def test_rows_are_the_stored_entries(path, state, expected):
    rows = [row for row in read_rows(path, state) if row["key"] == NAMES[2]]
    (group,) = {row.pop("key_group") for row in rows}
    assert 0 <= group < 16
    assert [{"key": NAMES[2], **entry} for entry in expected] == rows


def test_state_without_keys_is_one_partition_of_typed_rows(path):
    source = StateDataSource({"path": path, "operator": "rules", "state": "rules"})
    reader = source.reader(source.schema())
    (partition,) = pickle.loads(pickle.dumps(reader)).partitions()
    (batch,) = reader.read(partition)
    assert batch.to_pylist() == [{"slot": 0, "map_key": "rule", "value": {"f0": "x", "f1": 1}}]


class Colour(msgspec.Struct):
    name: str
    tags: list[str]


ZONE = dt.UTC
LOCAL = dt.datetime(2020, 1, 1)  # noqa: DTZ001  without a zone on purpose
VALUES = {
    "BOOLEAN": (BOOLEAN, True, spark.BooleanType(), True),
    "SHORT": (SHORT, -3, spark.ShortType(), -3),
    "BIG_INT": (BIG_INT, 10**30, spark.DecimalType(38, 0), Decimal(10**30)),
    "DECIMAL": (DECIMAL, Decimal("1.50"), spark.DecimalType(38, 18), Decimal("1.5")),
    "BYTES": (BYTES, b"\xff", spark.BinaryType(), b"\xff"),
    "DATE": (DATE, dt.date(1969, 1, 1), spark.DateType(), dt.date(1969, 1, 1)),
    "TIME": (TIME, dt.time(1, 2, 3), spark.TimeType(), dt.time(1, 2, 3)),
    "TIMESTAMP": (
        TIMESTAMP,
        LOCAL,
        spark.TimestampNTZType(),
        LOCAL,
    ),
    "INSTANT": (
        INSTANT,
        dt.datetime(2020, 1, 1, tzinfo=ZONE),
        spark.TimestampType(),
        dt.datetime(2020, 1, 1, tzinfo=ZONE),
    ),
    "DURATION": (
        DURATION,
        dt.timedelta(days=2),
        spark.DayTimeIntervalType(),
        dt.timedelta(days=2),
    ),
    "MAP": (
        MapType(STRING, ListType(LONG)),
        {"a": [1, None]},
        spark.MapType(spark.StringType(), spark.ArrayType(spark.LongType())),
        [("a", [1, None])],
    ),
    "ROW": (
        RowType(("a", "b"), (LONG, STRING)),
        Row(a=1, b=None),
        spark.StructType([]).add("a", "long").add("b", "string"),
        {"a": 1, "b": None},
    ),
    "POJO": (
        ClassType(Colour),
        Colour("red", ["x"]),
        spark.StructType([]).add("name", "string").add("tags", spark.ArrayType(spark.StringType())),
        {"name": "red", "tags": ["x"]},
    ),
    "PICKLED": (PICKLED, {1}, spark.BinaryType(), pickle.dumps({1}, protocol=5)),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_every_type_have_a_column_of_a_type(tmp_path, name):
    declared, value, column_type, expected = VALUES[name]

    def fill(bench):
        bench.select("a")
        bench.values("v", declared).update(value)

    path = store_checkpoint(tmp_path, "hashmap", fill=fill)
    assert open_source(path, "v").schema()["value"].dataType == column_type
    assert [row["value"] for row in read_rows(path, "v")] == [expected]


def test_numbers_without_bound_can_be_read_as_text(tmp_path):
    def fill(bench):
        bench.select("a")
        bench.values("v", DECIMAL).update(Decimal("1e-40"))

    path = store_checkpoint(tmp_path, "hashmap", fill=fill)
    with pytest.raises(ValueError, match="cannot be shown as Arrow"):
        read_rows(path, "v")
    assert [row["value"] for row in read_rows(path, "v", **{"decimals-as-text": "true"})] == [
        "1E-40"
    ]


@pytest.mark.parametrize(
    ("keys", "key", "shown"),
    [
        (PICKLED, 7, "7"),
        (PICKLED, "7", '"7"'),
        (PICKLED, ("a", 1.5), '["a",1.5]'),
        (TupleType((STRING, DOUBLE)), ("a", 1.5), {"f0": "a", "f1": 1.5}),
    ],
)
def test_keys_without_a_declared_type_are_json(tmp_path, keys, key, shown):
    path = store_checkpoint(tmp_path, "hashmap", fill=lambda b: b.put({key: 1}), keys=keys)
    assert [row["key"] for row in read_rows(path, "count")] == [shown]


def test_a_state_that_a_slot_does_not_have_is_read_from_the_others(tmp_path):
    def fill(bench):
        for name in NAMES:
            if bench.owns(name) and bench.config.key_group_range.start == 0:
                bench.put({name: 1})

    path = store_checkpoint(tmp_path, "rocksdb", parallelism=2, fill=fill)
    rows = read_rows(path, "count")
    assert rows
    assert all(row["key_group"] < 8 for row in rows)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/x", "operator": "o"}, r"missing=\['state'\]"),
        ({"path": "/x", "operator": "o", "state": "s", "uid": "o"}, r"unknown=\['uid'\]"),
        (
            {"path": "/x", "operator": "o", "state": "s", "decimals-as-text": "yes"},
            "option is true or false",
        ),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InvalidConfigError, match=message):
        SourceOptions.parse(options)


def test_names_that_are_not_there_are_refused_with_those_that_are(path):
    with pytest.raises(InvalidConfigError, match=r"state='x' states=.*'count'"):
        open_source(path, "x").schema()


def read_as_spark_does(path, state):
    """Rows by way of what Spark's Python processes do with a source, the JVM left out.

    One plans the read and pickles function and partitions; each task's runs the function on the
    bytes of one partition, and checks the batches against the schema that travelled as JSON.
    """
    source = pickle_serializer.loads(pickle_serializer.dumps(open_source(path, state)))
    schema = spark.StructType.fromJson(json.loads(source.schema().json()))
    planned = io.BytesIO()
    plan_data_source_read.write_read_func_and_partitions(
        planned,
        reader=source.reader(schema),
        data_source=source,
        schema=schema,
        max_arrow_batch_size=100,
        binary_as_bytes=True,
    )
    planned.seek(0)
    function, _ = pickle_serializer.loads(read_framed(planned))
    partitions = [read_framed(planned) for _ in range(read_int(planned))]
    batches = [
        batch
        for part in partitions
        for batch in function(iter([pa.RecordBatch.from_pydict({"partition": [part]})]))
    ]
    return [row for batch in batches for row in batch.to_pylist()], len(partitions)


def read_framed(stream):
    return stream.read(read_int(stream))


pickle_serializer = CPickleSerializer()


@pytest.mark.parametrize(
    "state", ["pair", "blobs", "by_pair", "mean", "flags", "window_items", "_window_timers"]
)
def test_spark_s_workers_accept_the_source_its_partitions_and_its_batches(path, state):
    rows, partitions = read_as_spark_does(path, state)
    assert partitions == 2
    assert sorted(rows, key=str) == sorted(read_rows(path, state), key=str)


@pytest.mark.parametrize("name", VALUES)
def test_spark_s_workers_accept_columns_of_every_type(tmp_path, name):
    declared, value, _, expected = VALUES[name]

    def fill(bench):
        bench.select("a")
        bench.values("v", declared).update(value)

    path = store_checkpoint(tmp_path, "hashmap", fill=fill)
    rows, _ = read_as_spark_does(path, "v")
    assert [row["value"] for row in rows] == [expected]
