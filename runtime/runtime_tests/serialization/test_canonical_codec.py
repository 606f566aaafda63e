"""The self-describing key codec: stored bytes, canonical for every value (T9, T10)."""
# ruff: noqa: DTZ001 - times without zone are a type of their own here

import contextlib
import datetime as dt
import enum
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptStateError
from headrace.serialization import canonical, canonical_values
from headrace.serialization.row import Row, RowKind

from .keys_by_type import any_key

GOLDEN = [
    (None, "00"),
    (False, "01"),
    (True, "02"),
    (0, "03 00000001 00"),
    (1, "03 00000001 01"),
    (127, "03 00000001 7f"),
    (128, "03 00000002 0080"),
    (-1, "03 00000001 ff"),
    (-128, "03 00000001 80"),
    (-129, "03 00000002 ff7f"),
    (2**64, "03 00000009 010000000000000000"),
    (0.0, "04 0000000000000000"),
    (-0.0, "04 0000000000000000"),
    (1.0, "04 3ff0000000000000"),
    (float("nan"), "04 7ff8000000000000"),
    (float("-inf"), "04 fff0000000000000"),
    ("", "05 00000000"),
    ("é€", "05 00000005 c3a9e282ac"),
    (b"", "06 00000000"),
    (b"\x00\xff", "06 00000002 00ff"),
    (Decimal(0), "07 00000003 304530"),  # 0E0
    (Decimal("-0.00"), "07 00000003 304530"),
    (Decimal("1.50"), "07 00000005 3135452d31"),  # 15E-1
    (Decimal("1E+2"), "07 00000003 314532"),  # 1E2
    (Decimal(100), "07 00000003 314532"),
    (Decimal("NaN"), "07 00000003 4e614e"),
    (Decimal("-Infinity"), "07 00000009 2d496e66696e697479"),
    (dt.date(1970, 1, 1), "08 000af93b"),
    (dt.datetime(1970, 1, 1, 0, 0, 0, 1), "09 0000000000000001"),
    (dt.datetime(1969, 12, 31, 23, 59, 59), "09 fffffffffff0bdc0"),
    (dt.datetime(1970, 1, 1, tzinfo=dt.UTC), "0a 0000000000000000"),
    ((), "0b 00000000"),
    (("a", 1), "0b 00000002 05 00000001 61 03 00000001 01"),
    ([None], "0c 00000001 00"),
    (Row(1), "0d 00000001 00 03 00000001 01"),
    (Row(a=1), "0d 00000001 01 05 00000001 61 03 00000001 01"),
    (dt.time(0, 0, 1), "0e 00000000000f4240"),
]


@pytest.mark.parametrize(("value", "expected"), GOLDEN, ids=lambda v: repr(v)[:30])
def test_stored_bytes_never_change(value: object, expected: str) -> None:
    assert bytes.fromhex(expected).hex() == canonical.encode(value).hex()


@pytest.mark.property
@given(any_key)
def test_decoding_gives_the_canonical_value_and_the_same_bytes(value: object) -> None:
    data = canonical.encode(value)
    decoded = canonical.decode(data)
    assert repr(canonical_values.canonical(value)) == repr(decoded)
    assert data == canonical.encode(decoded)


@pytest.mark.property
@given(any_key, any_key)
def test_two_keys_have_equal_bytes_only_if_they_are_the_same_value_of_the_same_type(
    one: object, other: object
) -> None:
    same = repr(canonical_values.canonical(one)) == repr(canonical_values.canonical(other))
    assert same == (canonical.encode(one) == canonical.encode(other))


def test_values_that_python_calls_equal_but_differ_in_type_are_different_keys() -> None:
    keys = [1, 1.0, True, Decimal(1), "1", b"1", (1,), [1], Row(1), None, dt.date(1, 1, 1)]
    assert len(keys) == len({canonical.encode(key) for key in keys})


def test_parts_of_tuples_do_not_run_into_each_other() -> None:
    keys = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), (("ab",), "c"), ("ab", ("c",))]
    assert len(keys) == len({canonical.encode(key) for key in keys})


def test_equal_instants_in_different_zones_are_one_key() -> None:
    india = dt.timezone(dt.timedelta(hours=5, minutes=30))
    assert canonical.encode(dt.datetime(2024, 1, 1, tzinfo=dt.UTC)) == canonical.encode(
        dt.datetime(2024, 1, 1, 5, 30, tzinfo=india)
    )


def test_decimals_are_compared_exactly_at_any_length() -> None:
    digits = "1" * 60
    assert canonical.encode(Decimal(digits)) != canonical.encode(Decimal(digits + "E1"))
    assert canonical.encode(Decimal(digits + ".000")) == canonical.encode(Decimal(digits))


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(5), 5),
        (np.float32(0.5), 0.5),
        (np.str_("x"), "x"),
        (np.bool_(True), True),
        (np.bytes_(b"x"), b"x"),
        (Colour.RED, 1),
        (bytearray(b"x"), b"x"),
        (pd.Timestamp("2024-01-01 00:00:00.000001"), dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
        ((np.int8(1), [np.int8(2)]), (1, [2])),
    ],
)
def test_relatives_of_python_types_become_python_values(value: object, expected: object) -> None:
    coerced = canonical_values.canonical(value)
    assert (type(expected), expected) == (type(coerced), coerced)
    assert canonical.encode(expected) == canonical.encode(value)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "builtins.object"),
        ({"a": 1}, "builtins.dict"),
        ({1}, "builtins.set"),
        ((1, [object()]), "builtins.object"),
        (1j, "builtins.complex"),
        (np.datetime64("2024-01-01"), "numpy.datetime64"),
        (np.array([1]), "numpy.ndarray"),
        (dt.timedelta.max, "64 bits"),
        (pd.Timedelta(1, "ns"), "whole microseconds"),
        (dt.time(1, tzinfo=dt.UTC), "datetime.time"),
        (Decimal("sNaN"), "signaling NaN"),
        ("\ud800", "surrogate"),
        (pd.Timestamp("2024-01-01 00:00:00.000000001"), "microseconds at most"),
        (dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-1))), "years 1 to 9999"),
    ],
)
def test_what_cannot_be_a_key_is_refused_by_name(value: object, named: str) -> None:
    with pytest.raises(TypeError, match=named.replace(".", "\\.")):
        canonical.encode(value)


def test_a_deleted_row_is_not_a_key() -> None:
    row = Row(1)
    row.set_row_kind(RowKind.DELETE)
    with pytest.raises(TypeError, match="kind=DELETE"):
        canonical.encode(row)


@pytest.mark.property
@given(any_key, st.data())
def test_cut_bytes_are_reported_as_corrupt(value: object, data: st.DataObject) -> None:
    encoded = canonical.encode(value)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptStateError):
        canonical.decode(encoded[:cut])


@pytest.mark.property
@given(st.binary(max_size=40))
def test_random_bytes_are_a_value_or_corrupt_but_never_another_error(data: bytes) -> None:
    with contextlib.suppress(CorruptStateError):
        canonical.decode(data)


def test_bytes_nested_beyond_any_key_are_corrupt() -> None:
    with pytest.raises(CorruptStateError):
        canonical.decode(bytes.fromhex("0b00000001") * 100_000)


def test_bytes_behind_a_value_are_corrupt() -> None:
    with pytest.raises(CorruptStateError, match="end=1"):
        canonical.decode(b"\x00\x00")
