"""Value serializers: stored bytes, round trips, refusal of wrong parts at the time of writing."""
# ruff: noqa: DTZ001 - times without zone are a type of their own here

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptStateError, InvalidProgramError
from headrace.serialization.registry import serializer_from_snapshot, value_serializer
from headrace.serialization.row import Row, RowKind
from headrace.serialization.types import (
    BIG_INT,
    BOOLEAN,
    BYTE,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    FLOAT,
    INSTANT,
    INT,
    LONG,
    PICKLED,
    STRING,
    TIME,
    TIMESTAMP,
    ClassType,
    ListType,
    MapType,
    RowType,
    TupleType,
    TypeDescription,
)

from .keys_by_type import aware, ints, scalars, text
from .stored_classes import (
    AccountV1,
    Address,
    CounterV1,
    Node,
    Opaque,
    PointV1,
    Tier,
    WithAny,
    WithOpaque,
)

ROW = RowType(("a", "b"), (LONG, ListType(DOUBLE)))
INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))

GOLDEN = [
    (STRING, "é", "a2c3a9"),
    (BYTES, b"\x01", "c40101"),
    (BOOLEAN, True, "c3"),
    (BYTE, -1, "ff"),
    (INT, 1, "01"),
    (LONG, 2**40, "cf0000010000000000"),
    (LONG, -(2**63), "d38000000000000000"),
    (BIG_INT, 5, "05"),
    (BIG_INT, 2**64, "c409010000000000000000"),
    (BIG_INT, -(2**64), "c409ff0000000000000000"),
    (FLOAT, 0.1, "cb3fb999999999999a"),
    (DOUBLE, 1, "cb3ff0000000000000"),
    (DECIMAL, Decimal("1.50"), "a4312e3530"),
    (DATE, dt.date(1970, 1, 2), "01"),
    (TIME, dt.time(0, 0, 1), "ce000f4240"),
    (TIMESTAMP, dt.datetime(1970, 1, 1, 0, 0, 0, 7), "07"),
    (INSTANT, dt.datetime(1970, 1, 1, 5, 30, tzinfo=INDIA), "00"),
    (TupleType((LONG, STRING)), (1, None), "9201c0"),
    (ROW, Row(a=1, b=[1.0, None]), "93000192cb3ff0000000000000c0"),
    (ListType(INT), [1, 2], "920102"),
    (MapType(STRING, LONG), {"a": 1}, "81a16101"),
    (MapType(DATE, BOOLEAN), {dt.date(1970, 1, 2): None}, "8101c0"),
    (ClassType(CounterV1), CounterV1(3, "n"), "82a5636f756e7403a46e616d65a16e"),
    (ClassType(PointV1), PointV1(1, 2), "920102"),
    (PICKLED, 1, "80054b012e"),
]

values = scalars | {
    DECIMAL: st.decimals(allow_nan=False),
    INSTANT: aware,
    TupleType((LONG, STRING, DATE)): st.tuples(st.none() | ints(64), text, st.dates()),
    ROW: st.builds(
        lambda a, b: Row(a=a, b=b),
        st.none() | ints(64),
        st.none() | st.lists(st.floats(allow_nan=False)),
    ),
    MapType(TIMESTAMP, BIG_INT): st.dictionaries(st.datetimes(), st.integers(), max_size=4),
    MapType(STRING, ListType(LONG)): st.dictionaries(text, st.lists(ints(64)), max_size=4),
    ClassType(CounterV1): st.builds(CounterV1, ints(64), text),
}


@pytest.mark.parametrize(("declared", "value", "expected"), GOLDEN)
def test_stored_bytes_never_change(declared: TypeDescription, value: object, expected: str) -> None:
    assert expected == value_serializer(declared).serialize(value).hex()


@pytest.mark.property
@pytest.mark.parametrize("declared", values, ids=str)
@given(data=st.data())
def test_values_come_back_as_they_went_in(declared: TypeDescription, data: st.DataObject) -> None:
    serializer = value_serializer(declared)
    value = data.draw(values[declared])
    restored = serializer.deserialize(serializer.serialize(value))
    coerced = serializer.coerce(value)
    # NaN does not equal itself; a time's fold is no part of its value.
    assert repr(coerced) == repr(restored) or coerced == restored
    assert type(value) is type(restored)


def test_a_dataclass_with_every_kind_of_field_comes_back() -> None:
    account = AccountV1(
        "é", Decimal("1.10"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), Address("x", ["y"]),
        Tier.GOLD, None, {"a": 1}, (1, "b"),
    )  # fmt: skip
    serializer = value_serializer(ClassType(AccountV1))
    assert account == serializer.deserialize(serializer.serialize(account))


def test_a_class_that_holds_itself_comes_back() -> None:
    serializer = value_serializer(ClassType(Node))
    nodes = Node(1, Node(2))
    assert nodes == serializer.deserialize(serializer.serialize(nodes))


def test_a_rows_kind_and_names_come_back_and_tuples_are_rows_too() -> None:
    serializer = value_serializer(ROW)
    row = Row(a=1, b=[])
    row.set_row_kind(RowKind.DELETE)
    assert row == serializer.deserialize(serializer.serialize(row))
    assert Row(a=1, b=None) == serializer.deserialize(serializer.serialize((1, None)))
    assert Row(a=1, b=None) == serializer.coerce(Row(1, None))


@pytest.mark.parametrize(
    ("declared", "given_value", "expected"),
    [
        (LONG, np.int8(5), 5),
        (DOUBLE, np.float32(0.5), 0.5),
        (DOUBLE, 3, 3.0),
        (BOOLEAN, np.False_, False),
        (STRING, np.str_("x"), "x"),
        (BYTES, bytearray(b"x"), b"x"),
        (TupleType((LONG, DOUBLE)), (np.int8(1), 2), (1, 2.0)),
        (INSTANT, dt.datetime(2024, 1, 1, 5, 30, tzinfo=INDIA),
         dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    ],
)  # fmt: skip
def test_coerced_immutable_values_are_what_would_be_read_back(
    declared: TypeDescription, given_value: object, expected: object
) -> None:
    serializer = value_serializer(declared)
    assert serializer.immutable
    coerced = serializer.coerce(given_value)
    assert repr(expected) == repr(coerced)
    assert repr(coerced) == repr(serializer.deserialize(serializer.serialize(given_value)))


@pytest.mark.parametrize(
    ("declared", "value", "named"),
    [
        (LONG, None, "NoneType"),
        (LONG, "1", "str"),
        (LONG, True, "bool"),
        (LONG, 2**63, "out of its type's range"),
        (INT, 2**31, "out of its type's range"),
        (STRING, b"x", "bytes"),
        (STRING, "\ud800", "surrogates"),
        (DATE, dt.datetime(2024, 1, 1), "datetime"),
        (TIMESTAMP, dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "datetime"),
        (INSTANT, dt.datetime(2024, 1, 1), "datetime"),
        (TupleType((LONG,)), (1, 2), "tuple"),
        (TupleType((LONG, STRING)), (1, 2), "STRING"),
        (ROW, Row(1), "Row"),
        (ROW, Row(a=1, b=["x"]), "DOUBLE"),
        (ListType(LONG), [1, "x"], "LONG"),
        (ListType(LONG), {1}, "set"),
        (ListType(LONG), Row(1), "Row"),
        (MapType(STRING, LONG), {1: 1}, "STRING"),
        (MapType(STRING, LONG), [("a", 1)], "list"),
        (ClassType(CounterV1), CounterV1("x"), r"\$\.count"),
        (ClassType(CounterV1), CounterV1(2**70), "CounterV1"),
        (ClassType(CounterV1), PointV1(1), "PointV1"),
        (PICKLED, (item for item in ()), "generator"),
    ],
)
def test_a_value_of_another_type_is_refused_when_it_is_written(
    declared: TypeDescription, value: object, named: str
) -> None:
    with pytest.raises(TypeError, match=named):
        value_serializer(declared).serialize(value)


@pytest.mark.parametrize(
    ("declared", "data"),
    [
        (LONG, b""),
        (LONG, b"\xa1x"),
        (STRING, b"\x01"),
        (TIME, b"\xff"),
        (DATE, b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
        (DECIMAL, b"\xa1x"),
        (ROW, b"\x91\x00"),
        (ROW, b"\x93\x09\x01\xc0"),
        (ClassType(CounterV1), b"\x80"),
        (PICKLED, b"\x80\x05"),
        (PICKLED, b"cno_such_module\nno_such_class\n."),
    ],
)
def test_bytes_of_no_value_are_corrupt(declared: TypeDescription, data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        value_serializer(declared).deserialize(data)


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        (ClassType(Opaque), "Opaque"),
        (ClassType(WithAny), "anything"),
        (ClassType(WithOpaque), "part"),
        (MapType(ListType(LONG), LONG), "keys of a map"),
        (MapType(TupleType((LONG, DOUBLE)), LONG), "keys of a map"),
    ],
)
def test_types_that_would_not_come_back_are_refused_by_name(
    declared: TypeDescription, named: str
) -> None:
    with pytest.raises(InvalidProgramError, match=named):
        value_serializer(declared)


def test_objects_of_a_programs_own_classes_pickle_by_value() -> None:
    namespace: dict[str, type] = {"__name__": "__main__"}
    exec("class Local:\n    x = 1", namespace)
    serializer = value_serializer(PICKLED)
    restored = serializer.deserialize(serializer.serialize(namespace["Local"]()))
    assert restored.x == 1


def test_parts_may_be_pickled() -> None:
    serializer = value_serializer(TupleType((STRING, ListType(PICKLED))))
    value = ("a", [{1, 2}, None, "x"])
    data = serializer.serialize(value)
    assert value == serializer.deserialize(data)
    assert not serializer.immutable
    seen = serializer_from_snapshot(serializer.snapshot()).deserialize(data)
    assert ("a", [pickle.dumps({1, 2}, 5), None, pickle.dumps("x", 5)]) == seen
    with pytest.raises(TypeError, match="cannot be pickled"):
        serializer.serialize(("a", [(item for item in ())]))


def test_only_pickled_types_are_flagged_as_not_evolvable() -> None:
    assert (value_serializer(PICKLED).snapshot()) == {
        "codec": "pickle/1",
        "type": {"type": "pickled", "evolvable": False},
    }
    assert value_serializer(LONG).snapshot() == {"codec": "msgpack/1", "type": {"type": "long"}}


@pytest.mark.parametrize("declared", [*values, PICKLED], ids=str)
def test_serializers_travel_and_compare_by_their_type(declared: TypeDescription) -> None:
    serializer = value_serializer(declared)
    assert serializer == pickle.loads(pickle.dumps(serializer))
    assert hash(serializer) == hash(value_serializer(declared))
    assert serializer != value_serializer(LONG if declared is not LONG else STRING)
