"""Stored types as Arrow: types that Spark knows, values without loss (E9)."""
# ruff: noqa: DTZ001 - times without zone are a type of their own here

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import CorruptStateError, InvalidProgramError
from headrace.serialization.arrow_types import ArrowOptions, arrow_array, arrow_schema, arrow_type
from headrace.serialization.registry import (
    described_type,
    serializer_from_snapshot,
    value_serializer,
)
from headrace.serialization.row import Row
from headrace.serialization.types import (
    BIG_INT,
    DATE,
    DECIMAL,
    DOUBLE,
    DURATION,
    INSTANT,
    INT,
    LONG,
    PICKLED,
    STRING,
    TIME,
    TIMESTAMP,
    ArrowArrayType,
    ArrowBatchType,
    ClassType,
    ListType,
    MapType,
    NumpyType,
    RowType,
    TupleType,
    TypeDescription,
)

from .stored_classes import (
    AccountV1,
    CounterV1,
    Deposited,
    Embedding,
    Ledger,
    Member,
    Node,
    Tagged,
    Tier,
)

ROW = RowType(("id", "tags"), (LONG, ListType(STRING)))
BATCH = pa.RecordBatch.from_pydict({"id": [1, None], "tags": [["a", None], None]})


def shown(declared: TypeDescription, *values: object, options: ArrowOptions | None = None):
    """Values as a reader of a checkpoint shows them: from bytes and snapshot alone."""
    serializer = value_serializer(declared)
    reader = serializer_from_snapshot(serializer.snapshot())
    plain = [reader.deserialize(serializer.serialize(value)) for value in values]
    return arrow_array(described_type(serializer.snapshot()), plain, options or ArrowOptions())


@pytest.mark.parametrize(
    ("declared", "value", "expected_type", "expected"),
    [
        (INT, 5, pa.int32(), 5),
        (BIG_INT, 2**100, pa.decimal128(38, 0), Decimal(2**100)),
        (DECIMAL, Decimal("1.50"), pa.decimal128(38, 18), Decimal("1.50")),
        (DATE, dt.date(2024, 1, 1), pa.date32(), dt.date(2024, 1, 1)),
        (TIME, dt.time(1, 2), pa.time64("us"), dt.time(1, 2)),
        (TIMESTAMP, dt.datetime(2024, 1, 1), pa.timestamp("us"), dt.datetime(2024, 1, 1)),
        (
            INSTANT,
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            pa.timestamp("us", "UTC"),
            dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
        ),
        (DURATION, dt.timedelta(seconds=1), pa.duration("us"), dt.timedelta(seconds=1)),
        (
            ROW,
            Row(id=1, tags=["a"]),
            pa.struct([("id", pa.int64()), ("tags", pa.list_(pa.string()))]),
            {"id": 1, "tags": ["a"]},
        ),
        (
            TupleType((LONG, ROW)),
            (1, None),
            pa.struct([("f0", pa.int64()), ("f1", arrow_type(ROW))]),
            {"f0": 1, "f1": None},
        ),
        (
            MapType(DATE, DOUBLE),
            {dt.date(2024, 1, 1): 0.5},
            pa.map_(pa.date32(), pa.float64()),
            [(dt.date(2024, 1, 1), 0.5)],
        ),
        (
            ClassType(CounterV1),
            CounterV1(1, "x"),
            pa.struct([("count", pa.int64()), ("name", pa.string())]),
            {"count": 1, "name": "x"},
        ),
        (
            ClassType(Tagged),
            Tagged(1),
            pa.struct([("type", pa.string()), ("count", pa.int64())]),
            {"type": "t1", "count": 1},
        ),
        (
            ClassType(Ledger),
            Ledger(Deposited(5)),
            pa.struct([("last", pa.string())]),
            {"last": '{"type":"deposited","cents":5}'},
        ),
        (
            ClassType(Node),
            Node(1, Node(2)),
            pa.struct([("value", pa.int64()), ("next", pa.string())]),
            {"value": 1, "next": '{"value":2,"next":null}'},
        ),
        (
            NumpyType("float32", 2),
            np.array([[1.5]], "float32"),
            pa.list_(pa.list_(pa.float32())),
            [[1.5]],
        ),
        (NumpyType("uint32"), np.array([2**32 - 1], "uint32"), pa.list_(pa.int64()), [2**32 - 1]),
        (
            NumpyType("uint64", 1),
            np.array([2**64 - 1], "uint64"),
            pa.list_(pa.decimal128(20, 0)),
            [Decimal(2**64 - 1)],
        ),
        (
            NumpyType("int8", None),
            np.zeros((1, 2), "int8"),
            pa.struct([("shape", pa.list_(pa.int64())), ("data", pa.list_(pa.int8()))]),
            {"shape": [1, 2], "data": [0, 0]},
        ),
        (ArrowArrayType(LONG), pa.array([1, None]), pa.list_(pa.int64()), [1, None]),
        (ArrowBatchType(ROW), BATCH, pa.list_(arrow_type(ROW)), BATCH.to_pylist()),
    ],
)
def test_values_are_shown_as_their_arrow_type(
    declared: TypeDescription, value: object, expected_type: pa.DataType, expected: object
) -> None:
    array = shown(declared, value)
    assert expected_type == array.type
    assert [expected] == array.to_pylist()


def test_pickles_are_shown_as_their_bytes() -> None:
    array = shown(PICKLED, {1})
    assert pa.binary() == array.type
    assert [value_serializer(PICKLED).serialize({1})] == array.to_pylist()


def test_fields_of_classes_are_shown() -> None:
    member = Member(Tier.GOLD, dt.date(2024, 1, 1), ["a"], (dt.datetime(2024, 1, 1),))
    (row,) = shown(ClassType(Member), member).to_pylist()
    assert ("gold", dt.date(2024, 1, 1), ["a"]) == (row["tier"], row["since"], row["tags"])
    assert ["2024-01-01T00:00:00"] == row["seen"]
    assert {"f0": 0, "f1": ""} == row["pair"]
    (embedding,) = shown(ClassType(Embedding), Embedding("a", np.zeros(2, "float32"))).to_pylist()
    assert {"shape": [2], "data": [0.0, 0.0]} == embedding["vector"]


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (DECIMAL, Decimal("1e-19")),
        (DECIMAL, Decimal("1e21")),
        (DECIMAL, Decimal("NaN")),
        (BIG_INT, 10**38),
    ],
)
def test_a_number_that_does_not_fit_is_refused_or_shown_as_text(
    declared: TypeDescription, value: object
) -> None:
    with pytest.raises(ValueError, match=r"decimals as text|cannot be shown as Arrow"):
        shown(declared, value)
    assert [str(value)] == shown(declared, value, options=ArrowOptions(True)).to_pylist()


@pytest.mark.parametrize(
    "declared",
    [ClassType(AccountV1), ROW, MapType(STRING, NumpyType("uint64")), TupleType((TIME, DURATION))],
    ids=str,
)
def test_spark_knows_every_type(declared: TypeDescription) -> None:
    from pyspark.sql.pandas.types import from_arrow_type  # slow to import

    described = described_type(value_serializer(declared).snapshot())
    assert from_arrow_type(arrow_type(described)) is not None


# --- Arrow values ---------------------------------------------------------------------------------


def test_batches_and_arrays_come_back() -> None:
    batches = value_serializer(ArrowBatchType(ROW))
    assert BATCH.equals(batches.deserialize(batches.serialize(BATCH)))
    sliced = BATCH.slice(1)
    assert sliced.equals(batches.deserialize(batches.serialize(sliced)))
    arrays = value_serializer(ListType(ArrowArrayType(DECIMAL)))
    array = pa.array([Decimal("1.5"), None])
    (found,) = arrays.deserialize(arrays.serialize([array]))
    assert [Decimal("1.5"), None] == found.to_pylist()
    empty = pa.RecordBatch.from_pylist([], arrow_schema(ROW))
    assert empty.equals(batches.deserialize(batches.serialize(empty)))


def test_narrower_columns_are_taken_and_others_refused() -> None:
    serializer = value_serializer(ArrowBatchType(RowType(("id",), (LONG,))))
    narrow = pa.RecordBatch.from_arrays([pa.array([1], pa.int8())], ["id"])
    assert pa.int64() == serializer.deserialize(serializer.serialize(narrow)).column(0).type
    for wrong in (
        pa.RecordBatch.from_pydict({"id": ["x"]}),
        pa.RecordBatch.from_pydict({"key": [1]}),
        pa.array([1]),
        [1],
    ):
        with pytest.raises(TypeError, match="declared=<id: int64>"):
            serializer.serialize(wrong)


def test_bytes_of_no_batch_are_corrupt() -> None:
    serializer = value_serializer(ArrowBatchType(ROW))
    data = serializer.serialize(BATCH)
    for cut in (b"\xc4\x00", b"\xc4\x03abc", data[:2] + data[40:]):
        with pytest.raises(CorruptStateError):
            serializer.deserialize(cut)


@pytest.mark.parametrize("part", [PICKLED, ClassType(CounterV1), NumpyType("int8")], ids=str)
def test_columns_without_an_exact_arrow_type_are_refused(part: TypeDescription) -> None:
    with pytest.raises(InvalidProgramError, match="columns of Arrow values"):
        value_serializer(ArrowArrayType(part))
