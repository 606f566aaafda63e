"""Which later type can read which stored bytes, and why not (E6)."""

import json

import pytest

from headrace.serialization.registry import value_serializer
from headrace.serialization.types import (
    BIG_INT,
    BYTE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    PICKLED,
    SHORT,
    STRING,
    ClassType,
    ListType,
    MapType,
    RowType,
    TupleType,
    TypeDescription,
)

from .stored_classes import (
    AccountV1,
    CounterOfText,
    CounterV1,
    CounterWithDefault,
    CounterWithoutName,
    CounterWithRequired,
    Node,
    PointAppended,
    PointSwapped,
    PointV1,
    Strict,
    Tagged,
    Untagged,
)


def stored(declared: TypeDescription) -> dict[str, object]:
    """The snapshot as it comes back from a checkpoint's JSON."""
    return json.loads(json.dumps(value_serializer(declared).snapshot()))


@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        (INT, LONG, 7, 7),
        (BYTE, SHORT, -7, -7),
        (LONG, BIG_INT, 2**62, 2**62),
        (FLOAT, DOUBLE, 0.5, 0.5),
        (TupleType((INT,)), TupleType((LONG,)), (7,), (7,)),
        (ListType(INT), ListType(LONG), [7], [7]),
        (MapType(INT, INT), MapType(LONG, LONG), {1: 2}, {1: 2}),
        (
            ClassType(CounterV1),
            ClassType(CounterWithDefault),
            CounterV1(1, "x"),
            CounterWithDefault(1, "x", 10),
        ),
        (ClassType(CounterV1), ClassType(CounterWithoutName), CounterV1(1), CounterWithoutName(1)),
        (ClassType(PointV1), ClassType(PointAppended), PointV1(1, 2), PointAppended(1, 2, 0)),
    ],
)
def test_compatible_changes_are_accepted_and_old_values_are_read(
    old: TypeDescription, new: TypeDescription, value: object, expected: object
) -> None:
    serializer = value_serializer(new)
    assert serializer.incompatibility(stored(old)) is None
    assert expected == serializer.deserialize(value_serializer(old).serialize(value))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (LONG, INT, "the types differ; stored=long declared=int"),
        (DOUBLE, FLOAT, "the types differ"),
        (LONG, DOUBLE, "the types differ"),
        (STRING, LONG, "the types differ"),
        (LONG, PICKLED, "the codecs differ"),
        (PICKLED, LONG, "the codecs differ"),
        (TupleType((LONG,)), TupleType((LONG, LONG)), "different lengths"),
        (TupleType((LONG, LONG)), TupleType((LONG, INT)), "element 1: the types differ"),
        (ListType(LONG), ListType(STRING), "element: "),
        (MapType(LONG, LONG), MapType(STRING, LONG), "map key: "),
        (MapType(LONG, LONG), MapType(LONG, STRING), "map value: "),
        (RowType(("a",), (LONG,)), RowType(("b",), (LONG,)), "different fields"),
        (RowType(("a",), (LONG,)), RowType(("a",), (STRING,)), "field a: "),
        (ClassType(CounterV1), ClassType(CounterWithRequired), "no default; field=limit"),
        (ClassType(CounterV1), ClassType(CounterOfText), "field count: "),
        (ClassType(CounterV1), ClassType(Strict), "forbids unknown fields; fields=['name']"),
        (ClassType(PointV1), ClassType(PointSwapped), "fields stored by position moved"),
        (ClassType(PointV1), ClassType(Untagged), "layout: "),
        (ClassType(Untagged), ClassType(Tagged), "tag: "),
        (ListType(ClassType(CounterV1)), ListType(ClassType(CounterOfText)), "element: field"),
    ],
)
def test_other_changes_are_refused_with_the_place(
    old: TypeDescription, new: TypeDescription, reason: str
) -> None:
    told = value_serializer(new).incompatibility(stored(old))
    assert told is not None
    assert reason in told


@pytest.mark.parametrize(
    "declared",
    [LONG, PICKLED, ClassType(AccountV1), ClassType(Node), RowType(("a",), (ListType(LONG),))],
    ids=str,
)
def test_a_type_can_read_what_it_wrote(declared: TypeDescription) -> None:
    assert value_serializer(declared).incompatibility(stored(declared)) is None


@pytest.mark.parametrize(
    "foreign", [{}, {"codec": "msgpack/1"}, {"codec": "msgpack/2", "type": {}}]
)
def test_a_snapshot_of_a_newer_release_is_refused(foreign: dict[str, object]) -> None:
    assert value_serializer(LONG).incompatibility(foreign) is not None


def test_the_json_form_of_a_class_never_changes() -> None:
    expected = {
        "type": "class",
        "name": f"{CounterV1.__module__}:CounterV1",
        "layout": "map",
        "strict": False,
        "tag": None,
        "fields": [
            {"name": "count", "type": {"type": "long"}, "required": True},
            {"name": "name", "type": {"type": "string"}, "required": False},
        ],
    }
    assert expected == value_serializer(ClassType(CounterV1)).snapshot()["type"]
