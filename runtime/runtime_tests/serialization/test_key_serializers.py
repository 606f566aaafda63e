"""Key serializers: stored bytes, Spark's hash, coercion, compatibility."""

import dataclasses
import math
import pickle
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptStateError, InvalidProgramError
from headrace.serialization.compatibility import Verdict
from headrace.serialization.registry import key_serializer
from headrace.serialization.row import Row
from headrace.serialization.types import (
    BOOLEAN,
    BYTE,
    BYTES,
    DATE,
    DECIMAL,
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

from .keys_by_type import by_type, scalars

GOLDEN_BYTES = [
    (STRING, "é", "c3a9"),
    (STRING, "", ""),
    (BYTES, b"\x00\x01", "0001"),
    (BOOLEAN, True, "01"),
    (BOOLEAN, False, "00"),
    (BYTE, -128, "7fffffffffffff80"),
    (INT, 1, "8000000000000001"),
    (LONG, 1, "8000000000000001"),
    (LONG, -(2**63), "0000000000000000"),
    (LONG, 2**63 - 1, "ffffffffffffffff"),
    (DOUBLE, 0.0, "8000000000000000"),
    (DOUBLE, -0.0, "8000000000000000"),
    (DOUBLE, 1.0, "bff0000000000000"),
    (DOUBLE, -1.0, "400fffffffffffff"),
    (DOUBLE, math.nan, "fff8000000000000"),
    (FLOAT, 0.1, "bfb99999a0000000"),
    (PICKLED, ("a", 1), "0b00000002 0500000001 61 0300000001 01"),
    (TupleType((STRING, LONG)), ("a", 1), "0b00000002 0500000001 61 0300000001 01"),
    (RowType(("x",), (LONG,)), (1,), "0d00000001 01 0500000001 78 0300000001 01"),
]

# From Spark 4.3: SELECT xxhash64(...), signed. `test_spark_hash` recomputes them.
GOLDEN_HASHES = [
    (STRING, "Spark", -4294468057691064905),
    (STRING, "", -7444071767201028348),
    (LONG, 42, -6876166290308861218),
    (INT, 42, -6876166290308861218),
    (DOUBLE, 1.5, 7738255526519901366),
    (BOOLEAN, True, -6698625589789238999),
]


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


@pytest.mark.parametrize(("declared", "key", "expected"), GOLDEN_BYTES)
def test_stored_bytes_never_change(declared: TypeDescription, key: object, expected: str) -> None:
    serializer = key_serializer(declared)
    assert bytes.fromhex(expected).hex() == serializer.serialize(serializer.coerce(key)).hex()


@pytest.mark.parametrize(("declared", "key", "expected"), GOLDEN_HASHES)
def test_hashes_are_sparks(declared: TypeDescription, key: object, expected: int) -> None:
    assert expected == signed(key_serializer(declared).hash64(key))


@pytest.mark.property
@pytest.mark.parametrize("declared", by_type, ids=str)
@given(data=st.data())
def test_a_coerced_key_comes_back_as_it_was(declared: TypeDescription, data: st.DataObject) -> None:
    serializer = key_serializer(declared)
    key = serializer.coerce(data.draw(by_type[declared]))
    encoded = serializer.serialize(key)
    assert repr(key) == repr(serializer.deserialize(encoded))
    assert repr(key) == repr(serializer.coerce(key))


@pytest.mark.property
@pytest.mark.parametrize("declared", by_type, ids=str)
@given(data=st.data())
def test_cache_keys_and_hashes_agree_with_bytes(
    declared: TypeDescription, data: st.DataObject
) -> None:
    serializer = key_serializer(declared)
    one = serializer.coerce(data.draw(by_type[declared]))
    other = serializer.coerce(data.draw(by_type[declared]))
    same_bytes = serializer.serialize(one) == serializer.serialize(other)
    assert same_bytes == ({serializer.cache_key(one): 1} == {serializer.cache_key(other): 1})
    if same_bytes:
        assert serializer.hash64(one) == serializer.hash64(other)
    if serializer.cache_key_is_key:
        assert one is serializer.cache_key(one)


@pytest.mark.property
@pytest.mark.parametrize("declared", [LONG, INT, DOUBLE, FLOAT], ids=str)
@given(data=st.data())
def test_numbers_sort_by_value_as_bytes(declared: TypeDescription, data: st.DataObject) -> None:
    serializer = key_serializer(declared)
    one, other = (
        serializer.coerce(data.draw(scalars[declared].filter(lambda key: key == key)))  # noqa: PLR0124
        for _ in range(2)
    )
    assert (one < other) == (serializer.serialize(one) < serializer.serialize(other))


@pytest.mark.parametrize(
    ("declared", "given_key", "expected"),
    [
        (LONG, np.int32(5), 5),
        (STRING, np.str_("x"), "x"),
        (BYTES, bytearray(b"x"), b"x"),
        (BOOLEAN, np.True_, True),
        (DOUBLE, 1, 1.0),
        (DOUBLE, np.float32(0.5), 0.5),
        (FLOAT, 1e300, math.inf),
        (DECIMAL, Decimal("1.00"), Decimal(1)),
        (TupleType((LONG, DOUBLE)), (np.int8(1), 2), (1, 2.0)),
        (RowType(("a",), (STRING,)), Row("x"), Row(a="x")),
        (ListType(LONG), (1, 2), [1, 2]),
    ],
)
def test_relatives_become_the_declared_type(
    declared: TypeDescription, given_key: object, expected: object
) -> None:
    coerced = key_serializer(declared).coerce(given_key)
    assert (type(expected), expected) == (type(coerced), coerced)


@pytest.mark.parametrize(
    ("declared", "key", "found"),
    [
        (STRING, 1, "type=int"),
        (STRING, None, "type=NoneType"),
        (LONG, True, "type=bool"),
        (LONG, 1.0, "type=float"),
        (LONG, "1", "type=str"),
        (LONG, 2**63, "value=9223372036854775808"),
        (BYTE, 128, "value=128"),
        (SHORT, -32769, "value=-32769"),
        (DOUBLE, 2**53 + 1, "type=int"),
        (DOUBLE, 10**400, "type=int"),
        (DOUBLE, False, "type=bool"),
        (BOOLEAN, 1, "type=int"),
        (BYTES, "x", "type=str"),
        (DATE, "2024-01-01", "type=str"),
        (TupleType((LONG,)), (1, 2), "type=tuple"),
        (TupleType((LONG,)), ["1"], "type=list"),
        (RowType(("a",), (LONG,)), Row(1, 2), "type=Row"),
        (ListType(LONG), Row(1, 2), "type=Row"),
    ],
)
def test_a_key_of_another_type_is_refused(
    declared: TypeDescription, key: object, found: str
) -> None:
    with pytest.raises(TypeError, match=found):
        key_serializer(declared).coerce(key)


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    "declared",
    [MapType(STRING, LONG), ClassType(Point), TupleType((MapType(STRING, LONG),))],
    ids=str,
)
def test_types_without_canonical_bytes_cannot_be_keys(declared: TypeDescription) -> None:
    with pytest.raises(InvalidProgramError, match="cannot be keys"):
        key_serializer(declared)


@pytest.mark.parametrize(
    ("declared", "data"),
    [(LONG, b"\x00"), (DOUBLE, b""), (BOOLEAN, b"\x02"), (STRING, b"\xff"), (PICKLED, b"\xff")],
)
def test_bytes_of_no_key_are_corrupt(declared: TypeDescription, data: bytes) -> None:
    with pytest.raises(CorruptStateError):
        key_serializer(declared).deserialize(data)


@pytest.mark.parametrize(
    ("stored", "declared"), [(BYTE, SHORT), (INT, LONG), (FLOAT, DOUBLE), (STRING, STRING)]
)
def test_wider_numbers_find_the_keys_of_narrower_ones(
    stored: TypeDescription, declared: TypeDescription
) -> None:
    old, new = key_serializer(stored), key_serializer(declared)
    assert new.compatibility(old.snapshot()).verdict is Verdict.AS_IS
    key = old.coerce("x" if stored is STRING else 7)
    assert old.serialize(key) == new.serialize(new.coerce(key))
    assert old.hash64(key) == new.hash64(new.coerce(key))


@pytest.mark.parametrize(
    ("stored", "declared"),
    [
        (LONG, INT),
        (DOUBLE, FLOAT),
        (LONG, DOUBLE),
        (LONG, STRING),
        (PICKLED, STRING),
        (STRING, PICKLED),
        (TupleType((INT,)), TupleType((STRING,))),
        (TupleType((INT,)), TupleType((LONG,))),
        (RowType(("a",), (INT,)), RowType(("b",), (INT,))),
        (STRING, BYTES),
    ],
)
def test_another_key_type_is_refused_with_a_reason(
    stored: TypeDescription, declared: TypeDescription
) -> None:
    found = key_serializer(declared).compatibility(key_serializer(stored).snapshot())
    assert found.verdict is Verdict.INCOMPATIBLE
    assert "key types do not evolve; stored=" in found.reason


@pytest.mark.parametrize("declared", by_type, ids=str)
def test_serializers_travel_and_compare_by_their_type(declared: TypeDescription) -> None:
    serializer = key_serializer(declared)
    assert serializer == pickle.loads(pickle.dumps(serializer))
    assert hash(serializer) == hash(key_serializer(declared))
    assert serializer != key_serializer(LONG if declared is not LONG else STRING)
