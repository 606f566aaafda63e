"""Classes as values: models, arrays in classes, and reading both without the classes."""

import dataclasses
import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import pydantic
import pytest

from headrace.errors import CorruptStateError, IncompatibleStateError, InvalidProgramError
from headrace.serialization.registry import (
    described_type,
    key_serializer,
    serializer_from_snapshot,
    value_serializer,
)
from headrace.serialization.row import Row
from headrace.serialization.type_text import type_text
from headrace.serialization.types import (
    DATE,
    LONG,
    PICKLED,
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
    Address,
    CounterModel,
    CounterStruct,
    CounterV1,
    Deposited,
    Embedding,
    Ledger,
    LedgerWithNote,
    Member,
    Node,
    Profile,
    Spent,
    Tagged,
    Tier,
)


def round_trip(declared: TypeDescription, value: object) -> object:
    serializer = value_serializer(declared)
    return serializer.deserialize(serializer.serialize(value))


def plain(declared: TypeDescription, value: object) -> object:
    """What a reader without the program's classes sees."""
    serializer = value_serializer(declared)
    reader = serializer_from_snapshot(serializer.snapshot())
    data = serializer.serialize(value)
    seen = reader.deserialize(data)
    assert data == reader.serialize(seen), "what a reader sees, it can write"
    assert reader.snapshot() == serializer.snapshot()
    return seen


ACCOUNT = AccountV1(
    "é", Decimal("1.10"), datetime(2024, 1, 1, tzinfo=UTC), Address("x", ["y"]),
    Tier.GOLD, None, {"a": 1}, (1, "b"), UUID(int=7),
)  # fmt: skip
ADDRESS = {"city": "x", "lines": ["y"]}


# --- pydantic -------------------------------------------------------------------------------------


def test_a_model_with_models_arrays_and_itself_comes_back() -> None:
    profile = Profile(
        name="é",
        address=Address("x", ["y"]),
        counters=[CounterModel(count=1)],
        best=CounterModel(count=2, name="n"),
        by_name={"a": CounterModel(count=3)},
        parent=Profile(name="p", address=Address("z")),
        at=datetime(2024, 1, 1, tzinfo=UTC),
    )
    assert profile == round_trip(ClassType(Profile), profile)


def test_a_model_has_the_bytes_of_a_dataclass_with_its_fields() -> None:
    model = value_serializer(ClassType(CounterModel)).serialize(CounterModel(count=1, name="x"))
    assert model == value_serializer(ClassType(CounterV1)).serialize(CounterV1(1, "x"))


def test_validators_do_not_run_again_on_stored_models() -> None:
    spent = Spent(amount=Decimal(2))
    assert Decimal(4) == spent.amount
    assert spent == round_trip(ClassType(Spent), spent)


def test_a_model_whose_fields_are_not_of_their_types_is_refused() -> None:
    wrong = CounterModel.model_construct(count="x")
    with pytest.raises(TypeError, match="count"):
        value_serializer(ClassType(CounterModel)).serialize(wrong)
    with pytest.raises(TypeError, match="lacks a field"):
        value_serializer(ClassType(CounterModel)).serialize(CounterModel.model_construct())


class WithPrivate(pydantic.BaseModel):
    x: int
    _cache: int = pydantic.PrivateAttr(default=0)


class WithExtra(pydantic.BaseModel, extra="allow"):
    x: int


class WithUrl(pydantic.BaseModel):
    url: pydantic.HttpUrl


class OmitsDefaults(msgspec.Struct, omit_defaults=True):
    x: int = 1


class MayBeUnset(msgspec.Struct):
    x: int | msgspec.UnsetType = msgspec.UNSET


@dataclasses.dataclass
class LateDefault:
    x: int = dataclasses.field(init=False, default=1)


@dataclasses.dataclass
class UntypedArray:
    x: np.ndarray


@dataclasses.dataclass
class TwoArrayTypes:
    x: tuple[npt.NDArray[np.int8], npt.NDArray[np.int16]]


@dataclasses.dataclass
class KeyedByList:
    x: dict[frozenset[int], int]


@dataclasses.dataclass
class ArrayOfComplex:
    x: npt.NDArray[np.complex128]


@dataclasses.dataclass
class ArrayAndLateField:
    x: npt.NDArray[np.int8]
    y: int = dataclasses.field(init=False)


@pytest.mark.parametrize(
    ("python_class", "named"),
    [
        (WithPrivate, r"attributes=\['_cache'\]"),
        (WithExtra, "allows undeclared fields"),
        (WithUrl, r"field=.*WithUrl\.url type=pydantic\.networks:HttpUrl"),
        (OmitsDefaults, "set omit_defaults=False"),
        (MayBeUnset, r"use None; field=.*MayBeUnset\.x"),
        (LateDefault, r"__post_init__; field=.*LateDefault\.x"),
        (UntypedArray, r"NDArray\[numpy.float64\]; field=.*UntypedArray\.x"),
        (TwoArrayTypes, r"found=\['int16', 'int8'\]"),
        (KeyedByList, r"keys of a dict .*field=.*KeyedByList\.x"),
        (ArrayOfComplex, "dtype=complex128"),
        (ArrayAndLateField, r"fields=\['y'\]"),
        (int, "must be a dataclass, a msgspec.Struct or a pydantic model"),
    ],
)
def test_a_class_that_would_not_come_back_is_refused_by_name(
    python_class: type, named: str
) -> None:
    with pytest.raises(InvalidProgramError, match=named):
        value_serializer(ClassType(python_class))


# --- arrays in classes ----------------------------------------------------------------------------


def test_arrays_in_a_class_come_back_writable_and_with_their_shape() -> None:
    vector = np.arange(6, dtype="float32").reshape(2, 3)
    found = round_trip(ClassType(Embedding), Embedding("a", vector, [vector[0]]))
    assert isinstance(found, Embedding)
    assert (np.dtype("float32"), (2, 3)) == (found.vector.dtype, found.vector.shape)
    assert [[0, 1, 2], [3, 4, 5]] == found.vector.tolist()
    assert [[0, 1, 2]] == [part.tolist() for part in found.parts]
    found.vector[0, 0] = 9


def test_an_array_of_another_type_in_a_class_is_refused() -> None:
    with pytest.raises(TypeError, match="declared=numpy float32"):
        value_serializer(ClassType(Embedding)).serialize(Embedding("a", np.zeros(1)))


# --- without the classes --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "value", "expected"),
    [
        (ClassType(CounterV1), CounterV1(1, "x"), {"count": 1, "name": "x"}),
        (ClassType(CounterStruct), CounterStruct(1, "x"), {"count": 1, "name": "x"}),
        (ClassType(CounterModel), CounterModel(count=1), {"count": 1, "name": ""}),
        (ClassType(Tagged), Tagged(1), {"type": "t1", "count": 1}),
        (ClassType(Ledger), Ledger(Deposited(5)), {"last": {"type": "deposited", "cents": 5}}),
        (ClassType(Ledger), Ledger(), {"last": None}),
        (ClassType(LedgerWithNote), LedgerWithNote("x"), {"last": "x"}),
        (ClassType(Node), Node(1, Node(2)), {"value": 1, "next": {"value": 2, "next": None}}),
        (
            ClassType(AccountV1),
            ACCOUNT,
            {
                "owner": "é",
                "balance": Decimal("1.10"),
                "opened": datetime(2024, 1, 1, tzinfo=UTC),
                "address": ADDRESS,
                "tier": "gold",
                "note": None,
                "tags": {"a": 1},
                "pair": (1, "b"),
                "id": UUID(int=7),
                "mode": "a",
            },
        ),
        (
            ClassType(Profile),
            Profile(
                name="p",
                address=Address("x", ["y"]),
                by_name={"a": CounterModel(count=1)},
                parent=Profile(name="q", address=Address("x", ["y"])),
            ),
            {
                "name": "p",
                "address": ADDRESS,
                "counters": [],
                "best": None,
                "by_name": {"a": {"count": 1, "name": ""}},
                "parent": {
                    "name": "q",
                    "address": ADDRESS,
                    "counters": [],
                    "best": None,
                    "by_name": {},
                    "parent": None,
                    "at": None,
                    "vector": None,
                },
                "at": None,
                "vector": None,
            },
        ),
        (ListType(ClassType(CounterV1)), [CounterV1(1), None], [{"count": 1, "name": ""}, None]),
        (MapType(DATE, ClassType(CounterV1)), {date(2024, 1, 1): CounterV1(1)},
         {date(2024, 1, 1): {"count": 1, "name": ""}}),
        (TupleType((ClassType(CounterV1), LONG)), (CounterV1(1), 2), ({"count": 1, "name": ""}, 2)),
        (RowType(("a",), (ClassType(CounterV1),)), Row(a=CounterV1(1)),
         Row(a={"count": 1, "name": ""})),
        (LONG, 5, 5),
    ],
)  # fmt: skip
def test_a_snapshot_is_enough_to_read_and_write_values(
    declared: TypeDescription, value: object, expected: object
) -> None:
    assert expected == plain(declared, value)
    assert value == round_trip(declared, value)


def test_arrays_in_classes_are_read_without_the_class() -> None:
    seen = plain(ClassType(Embedding), Embedding("a", np.array([1.5], "float32")))
    assert isinstance(seen, dict)
    assert ("a", [1.5], []) == (seen["name"], seen["vector"].tolist(), seen["parts"])


def test_the_members_of_a_set_of_structs_are_read_as_a_list() -> None:
    serializer = value_serializer(ClassType(Bag))
    seen = serializer_from_snapshot(serializer.snapshot()).deserialize(
        serializer.serialize(Bag({Coin(1)}, {3}, frozenset({"x"})))
    )
    assert {"coins": [{"cents": 1}], "sizes": {3}, "names": frozenset({"x"})} == seen


class Coin(msgspec.Struct, frozen=True):
    cents: int


@dataclasses.dataclass
class Bag:
    coins: set[Coin]
    sizes: set[int]
    names: frozenset[str]


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Alarm:
    level: Level
    after: timedelta
    limit: Annotated[int, msgspec.Meta(ge=0)] = 0


def test_enums_of_numbers_durations_and_constraints_are_read_without_the_class() -> None:
    alarm = Alarm(Level.HIGH, timedelta(days=1, microseconds=1), 3)
    assert {"level": 2, "after": alarm.after, "limit": 3} == plain(ClassType(Alarm), alarm)
    assert alarm == round_trip(ClassType(Alarm), alarm)
    reader = serializer_from_snapshot(value_serializer(ClassType(Alarm)).snapshot())
    with pytest.raises(TypeError, match=">= 0"):
        reader.serialize({"level": 2, "after": alarm.after, "limit": -1})


def test_pickles_are_given_as_their_bytes_and_never_unpickled() -> None:
    serializer = value_serializer(PICKLED)
    reader = serializer_from_snapshot(serializer.snapshot())
    assert serializer.serialize({1}) == reader.deserialize(serializer.serialize({1}))


@pytest.mark.parametrize("declared", [LONG, STRING, PICKLED, TupleType((LONG, STRING))], ids=str)
def test_keys_are_read_from_their_snapshot(declared: TypeDescription) -> None:
    serializer = key_serializer(declared)
    reader = serializer_from_snapshot(serializer.snapshot())
    assert serializer == reader
    assert declared == described_type(serializer.snapshot())


def test_a_snapshot_of_a_newer_release_is_refused() -> None:
    with pytest.raises(IncompatibleStateError, match="codec is unknown"):
        serializer_from_snapshot({"codec": "msgpack/2", "type": {"type": "long"}})


@pytest.mark.parametrize(
    "value",
    [{"count": 1}, {"count": 1, "name": "", "more": 1}, {"count": "x", "name": ""}, CounterV1(1)],
)
def test_a_dict_that_is_not_of_the_stored_class_is_refused(value: object) -> None:
    reader = serializer_from_snapshot(value_serializer(ClassType(CounterV1)).snapshot())
    with pytest.raises(TypeError):
        reader.serialize(value)


def test_bytes_with_a_field_that_the_class_has_not_are_corrupt() -> None:
    data = msgspec.msgpack.encode({"count": 1, "name": "", "more": 1})
    reader = serializer_from_snapshot(value_serializer(ClassType(CounterV1)).snapshot())
    with pytest.raises(CorruptStateError, match="more"):
        reader.deserialize(data)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (ClassType(Member), "Member"),
        (RowType(("a", "b"), (ListType(LONG), ClassType(Node))), "ROW<a LIST<LONG>, b Node>"),
    ],
)
def test_a_snapshot_prints_as_the_type_it_was_made_of(
    declared: TypeDescription, expected: str
) -> None:
    assert expected == type_text(declared)
    assert expected == type_text(described_type(value_serializer(declared).snapshot()))
