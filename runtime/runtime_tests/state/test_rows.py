"""The layout of rows is stored: golden bytes (C5, T9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptStateError
from headrace.keygroups import KeyGroupRange
from headrace.state import rows


def test_a_row_of_state_never_changes() -> None:
    assert rows.state_row(0x1234, b"key").hex() == "1234000000036b65790000"


def test_a_row_of_a_timer_never_changes() -> None:
    row = rows.timer_row(1, 1_700_000_000_000, b"key")
    assert row.hex() == "00018000018bcfe56800000000036b65790000"


def test_a_timer_before_1970_sorts_before_later_ones() -> None:
    times = [-(2**63), -1, 0, 1, 2**63 - 1]
    encoded = [rows.timer_row(3, time, b"k") for time in times]
    assert encoded == sorted(encoded)
    assert [rows.sort_time_of(row) for row in encoded] == [rows.sort_time(time) for time in times]


def test_a_longer_key_is_never_a_continuation_of_a_shorter_one() -> None:
    short, long = rows.state_row(1, b"a"), rows.state_row(1, b"a\x00\x00")
    assert not long.startswith(short)


@pytest.mark.property
@given(st.integers(0, 32767), st.binary(max_size=50))
def test_rows_of_state_are_parsed_back(key_group: int, key: bytes) -> None:
    row = rows.state_row(key_group, key)
    assert rows.parse_state_row(row) == (key_group, key, b"", b"")
    assert rows.key_group_of(row) == key_group


@pytest.mark.property
@given(st.integers(0, 32767), st.integers(-(2**63), 2**63 - 1), st.binary(max_size=50))
def test_rows_of_timers_are_parsed_back(key_group: int, time: int, key: bytes) -> None:
    assert rows.parse_timer_row(rows.timer_row(key_group, time, key)) == (key_group, time, key)


@pytest.mark.property
@given(st.integers(0, 32767), st.integers(0, 32767), st.integers(0, 32767), st.binary(max_size=9))
def test_a_row_lies_in_the_rows_of_a_range_exactly_when_its_key_group_does(
    one: int, other: int, key_group: int, key: bytes
) -> None:
    owned = KeyGroupRange(min(one, other), max(one, other))
    start, end = rows.rows_of_range(owned)
    assert (key_group in owned) == (start <= rows.state_row(key_group, key) < end)
    assert rows.state_row(key_group, key) < rows.END_OF_ROWS


@pytest.mark.parametrize("parse", [rows.parse_state_row, rows.parse_timer_row])
@pytest.mark.parametrize("row", [b"", b"\x00\x01", b"\x00\x01\x00\x00\x00\x09abc", b"\x00" * 7])
def test_cut_rows_are_corrupt(parse, row: bytes) -> None:
    with pytest.raises(CorruptStateError, match="row="):
        parse(row)
