"""What a changed type means for stored values: stays, is migrated, or is refused, and why (E6)."""
# ruff: noqa: DTZ001 - times without zone are a type of their own here

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from headrace.errors import IncompatibleStateError
from headrace.serialization.compatibility import Compatibility, Verdict
from headrace.serialization.registry import value_serializer
from headrace.serialization.row import Row, RowKind
from headrace.serialization.types import (
    BIG_INT,
    BYTE,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    PICKLED,
    SHORT,
    STRING,
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
    CounterModel,
    CounterOfDouble,
    CounterOfText,
    CounterOptional,
    CounterPositive,
    CounterRenamed,
    CounterReordered,
    CounterStruct,
    CounterV1,
    CounterWithDefault,
    CounterWithoutName,
    CounterWithRequired,
    Deposited,
    DepositedWithNote,
    Ledger,
    LedgerWithNote,
    Member,
    MemberLater,
    Node,
    NodeOfDouble,
    OnlyGold,
    PointAppended,
    PointSwapped,
    PointV1,
    Strict,
    Tagged,
    Tier,
    TierWithNew,
    Unrelated,
    Untagged,
    Withdrawn,
)

COUNTER = RowType(("count", "name"), (LONG, STRING))
DAY = dt.date(2024, 1, 1)
MIDNIGHT = dt.datetime(2024, 1, 1)


def stored(declared: TypeDescription) -> dict[str, object]:
    """The snapshot as it comes back from a checkpoint's JSON."""
    return json.loads(json.dumps(value_serializer(declared).snapshot()))


def compare(old: TypeDescription, new: TypeDescription) -> Compatibility:
    return value_serializer(new).compatibility(stored(old))


AS_IS = [
    (INT, LONG, 7, 7),
    (BYTE, SHORT, -7, -7),
    (LONG, BIG_INT, 2**62, 2**62),
    (FLOAT, DOUBLE, 0.5, 0.5),
    (TupleType((INT,)), TupleType((LONG,)), (7,), (7,)),
    (ListType(INT), ListType(LONG), [7], [7]),
    (MapType(INT, INT), MapType(LONG, LONG), {1: 2}, {1: 2}),
    (RowType(("a",), (INT,)), RowType(("a",), (LONG,)), Row(a=1), Row(a=1)),
    (PICKLED, PICKLED, {1}, {1}),
    (ClassType(CounterV1), ClassType(CounterOptional), CounterV1(1, "x"), CounterOptional(1, "x")),
    (
        ClassType(CounterV1),
        ClassType(CounterReordered),
        CounterV1(1, "x"),
        CounterReordered("x", 1),
    ),
    (ClassType(CounterV1), ClassType(CounterModel), CounterV1(1), CounterModel(count=1, name="")),
    (ClassType(Untagged), ClassType(Strict), Untagged(1), Strict(1)),
    (ClassType(Node), ClassType(Node), Node(1, Node(2)), Node(1, Node(2))),
]

MIGRATED = [
    (INT, DOUBLE, 7, 7.0, "float"),
    (LONG, DOUBLE, -(2**53), -(2.0**53), "float"),
    (SHORT, FLOAT, 7, 7.0, "float"),
    (BIG_INT, DECIMAL, 2**70, Decimal(2**70), "decimal"),
    (
        ListType(LONG),
        ListType(DECIMAL),
        [1, None],
        [Decimal(1), None],
        "element: becomes a decimal",
    ),
    (MapType(STRING, LONG), MapType(STRING, DOUBLE), {"a": 1}, {"a": 1.0}, "map value: "),
    (TupleType((LONG, STRING)), TupleType((DOUBLE, STRING)), (1, "x"), (1.0, "x"), "element 0: "),
    (PICKLED, LONG, 7, 7, "every value is checked"),
    (PICKLED, MapType(STRING, LONG), {"a": 1}, {"a": 1}, "every value is checked"),
    # rows
    (COUNTER, RowType(("name", "count"), (STRING, LONG)), (1, "x"), Row(name="x", count=1), ""),
    (COUNTER, RowType(("count",), (LONG,)), (1, "x"), Row(count=1), "name: dropped"),
    (
        COUNTER,
        RowType(("count", "name", "at"), (DOUBLE, STRING, DATE)),
        (1, None),
        Row(count=1.0, name=None, at=None),
        "at: new, gets its default",
    ),
    (
        COUNTER,
        RowType(("total", "name"), (LONG, STRING), (("total", ("count",)),)),
        (1, "x"),
        Row(total=1, name="x"),
        "total: renamed from count",
    ),
    # classes
    (
        ClassType(CounterV1),
        ClassType(CounterWithDefault),
        CounterV1(1),
        CounterWithDefault(1),
        "limit",
    ),
    (
        ClassType(CounterV1),
        ClassType(CounterWithoutName),
        CounterV1(1),
        CounterWithoutName(1),
        "name",
    ),
    (ClassType(CounterV1), ClassType(CounterOfDouble), CounterV1(1), CounterOfDouble(1.0), "float"),
    (ClassType(CounterV1), ClassType(CounterPositive), CounterV1(1), CounterPositive(1), "count"),
    (ClassType(CounterV1), ClassType(Strict), CounterV1(1), Strict(1), "name: dropped"),
    (
        ClassType(CounterV1),
        ClassType(CounterRenamed),
        CounterV1(1, "x"),
        CounterRenamed(1, "x"),
        "total: renamed from count",
    ),
    (ClassType(CounterV1), ClassType(CounterStruct), CounterV1(1, "x"), CounterStruct(1, "x"), ""),
    (ClassType(CounterStruct), ClassType(CounterV1), CounterStruct(1, "x"), CounterV1(1, "x"), ""),
    (ClassType(PointV1), ClassType(PointAppended), PointV1(1, 2), PointAppended(1, 2, 0), "z"),
    (ClassType(PointV1), ClassType(PointSwapped), PointV1(1, 2), PointSwapped(2, 1), ""),
    (ClassType(Untagged), ClassType(Tagged), Untagged(1), Tagged(1), ""),
    (ClassType(Tagged), ClassType(Untagged), Tagged(1), Untagged(1), ""),
    (
        ClassType(Node),
        ClassType(NodeOfDouble),
        Node(1, Node(2, Node(3))),
        NodeOfDouble(1.0, NodeOfDouble(2.0, NodeOfDouble(3.0))),
        "value: becomes a float",
    ),
    (
        ClassType(Ledger),
        ClassType(LedgerWithNote),
        Ledger(Deposited(5)),
        LedgerWithNote(DepositedWithNote(5, "")),
        "last<Deposited>.note: new",
    ),
    (
        ClassType(Ledger),
        ClassType(LedgerWithNote),
        Ledger(Withdrawn(5)),
        LedgerWithNote(Withdrawn(5)),
        "last<Deposited>.note: new",
    ),
    (
        ClassType(Member),
        ClassType(MemberLater),
        Member(Tier.GOLD, DAY, ["a"], (MIDNIGHT,), (1, "x"), {DAY: 1}),
        MemberLater(TierWithNew.GOLD, DAY, ("a",), [MIDNIGHT], (1.0, "x"), {DAY: 1}),
        "pair: element 0: becomes a float",
    ),
    (
        ListType(ClassType(CounterV1)),
        ListType(ClassType(CounterOfDouble)),
        [CounterV1(1)],
        [CounterOfDouble(1.0)],
        "[].count: becomes a float",
    ),
    # between classes and rows
    (ClassType(CounterV1), COUNTER, CounterV1(1, "x"), Row(count=1, name="x"), ""),
    (COUNTER, ClassType(CounterOptional), (1, None), CounterOptional(1, None), ""),
    (
        ClassType(Member),
        RowType(("since", "tags"), (DATE, ListType(STRING))),
        Member(Tier.BASE, DAY, ["a"]),
        Row(since=DAY, tags=["a"]),
        "since: the same value in another form",
    ),
]


@pytest.mark.parametrize(("old", "new", "value", "expected"), AS_IS)
def test_old_bytes_are_read_as_they_are(
    old: TypeDescription, new: TypeDescription, value: object, expected: object
) -> None:
    assert (Verdict.AS_IS, "") == (compare(old, new).verdict, compare(old, new).reason)
    serializer = value_serializer(new)
    assert expected == serializer.deserialize(value_serializer(old).serialize(value))


@pytest.mark.parametrize(("old", "new", "value", "expected", "reason"), MIGRATED)
def test_old_bytes_become_bytes_of_the_new_type(
    old: TypeDescription, new: TypeDescription, value: object, expected: object, reason: str
) -> None:
    found = compare(old, new)
    assert Verdict.AFTER_MIGRATION is found.verdict
    assert reason in found.reason
    serializer = value_serializer(new)
    migrated = serializer.migration(stored(old))(value_serializer(old).serialize(value))
    assert expected == serializer.deserialize(migrated)
    assert type(expected) is type(serializer.deserialize(migrated))
    assert serializer.serialize(expected) == migrated


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (LONG, INT, "value: the types differ; stored=LONG declared=INT"),
        (DOUBLE, FLOAT, "the types differ"),
        (DOUBLE, LONG, "the types differ"),
        (INT, FLOAT, "the types differ"),
        (STRING, LONG, "the types differ"),
        (LONG, STRING, "the types differ"),
        (LONG, PICKLED, "ends its evolution"),
        (TupleType((LONG,)), TupleType((LONG, LONG)), "tuples have different lengths"),
        (TupleType((LONG, LONG)), TupleType((LONG, INT)), "element 1: the types differ"),
        (ListType(LONG), ListType(STRING), "element: the types differ"),
        (ListType(LONG), LONG, "the types differ"),
        (MapType(LONG, LONG), MapType(STRING, LONG), "map key: the types differ"),
        (MapType(LONG, LONG), MapType(INT, LONG), "map key: the types differ"),
        (MapType(LONG, LONG), MapType(LONG, STRING), "map value: the types differ"),
        (COUNTER, RowType(("b",), (LONG,)), "no field in common, all values would be lost"),
        (COUNTER, RowType(("count",), (STRING,)), "count: the types differ"),
        (COUNTER, ClassType(CounterV1), "count: it may be null, declare it optional"),
        (ClassType(CounterOptional), ClassType(CounterV1), "count: it may be null"),
        (ClassType(CounterV1), ClassType(CounterWithRequired), "limit: new and without a default"),
        (ClassType(CounterV1), ClassType(CounterOfText), "count: the types differ"),
        (ClassType(CounterV1), ClassType(Unrelated), "no field in common"),
        (ClassType(PointAppended), ClassType(CounterStruct), "no field in common"),
        (ClassType(LedgerWithNote), ClassType(Ledger), "no member of the union takes STRING"),
        (ClassType(MemberLater), ClassType(Member), "tier: values are gone; values=['new']"),
        (ClassType(Member), ClassType(OnlyGold), "tier: values are gone; values=['base']"),
        (ListType(ClassType(CounterV1)), ListType(ClassType(CounterOfText)), "[].count: the types"),
        (NumpyType("float64"), NumpyType("float32"), "the types differ"),
        (NumpyType("float64", 1), NumpyType("float64", 2), "dimensions differ"),
        (NumpyType("float64"), ListType(DOUBLE), "the types differ"),
        (ArrowArrayType(LONG), ArrowArrayType(STRING), "item: the types differ"),
    ],
)
def test_other_changes_are_refused_with_the_place(
    old: TypeDescription, new: TypeDescription, reason: str
) -> None:
    found = compare(old, new)
    assert Verdict.INCOMPATIBLE is found.verdict
    assert reason in found.reason


@pytest.mark.parametrize(
    ("old", "new", "value", "reason"),
    [
        (LONG, DOUBLE, 2**53 + 1, "no exact double; value=9007199254740993"),
        (PICKLED, LONG, "text", "type=str"),
        (ClassType(CounterV1), ClassType(CounterPositive), CounterV1(0), "Expected `int` >= 1"),
        (NumpyType("int64"), NumpyType("float64"), np.array([2**53 + 1]), "no exact counterpart"),
        (NumpyType("int8", None), NumpyType("int8", 1), np.zeros((2, 2), "int8"), "stored bytes"),
    ],
)
def test_a_value_without_counterpart_stops_the_migration(
    old: TypeDescription, new: TypeDescription, value: object, reason: str
) -> None:
    assert Verdict.AFTER_MIGRATION is compare(old, new).verdict
    migrate = value_serializer(new).migration(stored(old))
    with pytest.raises(IncompatibleStateError, match=reason):
        migrate(value_serializer(old).serialize(value))


def test_a_row_that_is_no_insertion_does_not_become_a_class() -> None:
    row = Row(count=1, name="x")
    row.set_row_kind(RowKind.DELETE)
    migrate = value_serializer(ClassType(CounterOptional)).migration(stored(COUNTER))
    with pytest.raises(IncompatibleStateError, match="kind=DELETE"):
        migrate(value_serializer(COUNTER).serialize(row))


def test_a_rows_kind_is_kept() -> None:
    row = Row(count=1, name="x")
    row.set_row_kind(RowKind.UPDATE_AFTER)
    narrower = value_serializer(RowType(("count",), (LONG,)))
    migrated = narrower.migration(stored(COUNTER))(value_serializer(COUNTER).serialize(row))
    assert RowKind.UPDATE_AFTER is narrower.deserialize(migrated).get_row_kind()


def test_a_dropped_field_does_not_come_back_with_its_old_values() -> None:
    """Dropping migrates, so that adding a field of this name later finds nothing of it."""
    with_name, without = ClassType(CounterV1), ClassType(CounterWithoutName)
    data = value_serializer(with_name).serialize(CounterV1(1, "old"))
    dropped = value_serializer(without).migration(stored(with_name))(data)
    again = value_serializer(with_name).migration(stored(without))(dropped)
    assert CounterV1(1, "") == value_serializer(with_name).deserialize(again)


def test_arrays_become_wider() -> None:
    old, new = NumpyType("int32", 2), NumpyType("float64", None)
    array = np.array([[1, 2], [3, 4]], "int32")
    serializer = value_serializer(new)
    migrated = serializer.migration(stored(old))(value_serializer(old).serialize(array))
    found = serializer.deserialize(migrated)
    assert (np.dtype("float64"), array.tolist()) == (found.dtype, found.tolist())


def test_columns_of_arrow_batches_come_and_go_and_become_wider() -> None:
    old = ArrowBatchType(RowType(("a", "b", "c"), (INT, STRING, LONG)))
    new = ArrowBatchType(RowType(("d", "c", "a"), (STRING, DOUBLE, LONG)))
    batch = pa.RecordBatch.from_pydict({"a": [1, None], "b": ["x", "y"], "c": [5, 6]})
    found = compare(old, new)
    assert Verdict.AFTER_MIGRATION is found.verdict
    serializer = value_serializer(new)
    migrated = serializer.migration(stored(old))(value_serializer(old).serialize(batch))
    assert {"d": [None, None], "c": [5.0, 6.0], "a": [1, None]} == serializer.deserialize(
        migrated
    ).to_pydict()


def test_an_arrow_column_is_rewritten_although_its_numbers_only_become_wider() -> None:
    old, new = ArrowArrayType(INT), ArrowArrayType(LONG)
    assert Verdict.AFTER_MIGRATION is compare(old, new).verdict
    serializer = value_serializer(new)
    data = value_serializer(old).serialize(pa.array([1, None], pa.int32()))
    assert [1, None] == serializer.deserialize(serializer.migration(stored(old))(data)).to_pylist()


@pytest.mark.parametrize(
    "declared",
    [
        LONG,
        PICKLED,
        ClassType(AccountV1),
        ClassType(Node),
        ClassType(Ledger),
        ClassType(CounterRenamed),
        RowType(("a",), (ListType(LONG),)),
        ArrowBatchType(COUNTER),
        NumpyType("float32", None),
    ],
    ids=str,
)
def test_a_type_can_read_what_it_wrote(declared: TypeDescription) -> None:
    assert Verdict.AS_IS is compare(declared, declared).verdict


@pytest.mark.parametrize("foreign", [{}, {"codec": "msgpack/2", "type": {}}])
def test_a_codec_of_a_newer_release_is_refused(foreign: dict[str, object]) -> None:
    assert Verdict.INCOMPATIBLE is value_serializer(LONG).compatibility(foreign).verdict


@pytest.mark.parametrize("described", [None, {}, {"type": "decimal128"}, {"type": "row"}])
def test_a_type_of_a_newer_release_is_refused(described: object) -> None:
    with pytest.raises(IncompatibleStateError, match="read it with the release that wrote it"):
        value_serializer(LONG).compatibility({"codec": "msgpack/1", "type": described})


def test_both_types_are_printed_field_by_field() -> None:
    assert compare(ClassType(Member), ClassType(OnlyGold)).table().splitlines() == [
        "field   stored                declared",
        "tier    ENUM<'base', 'gold'>  LITERAL<'gold'>  values are gone; values=['base']",
        "since   DATE                  DATE",
        "tags    LIST<STRING>          LIST<STRING>",
        "seen    VAR_TUPLE<DATETIME>   -                dropped",
        "pair    TUPLE<LONG, STRING>   -                dropped",
        "by_day  MAP<DATE, LONG>       -                dropped",
    ]
