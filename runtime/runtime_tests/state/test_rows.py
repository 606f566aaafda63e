"""The layout of rows is stored: golden bytes (C5, T9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import CorruptStateError
from headrace.keygroups import KeyGroupRange
from headrace.state import rows


def test_a_row_of_state_never_changes() -> None:
    assert rows.state_row(0x1234, b"key").hex() == "1234000000036b65790000"


def test_a_row_of_a_window_never_changes() -> None:
    window = rows.window_namespace(-1, 1_700_000_000_000)
    assert window.hex() == "7fffffffffffffff8000018bcfe56800"
    assert rows.state_row(1, b"key", window).hex() == f"0001000000036b65790010{window.hex()}"
    timer = rows.timer_row(1, 2, b"key", window)
    assert timer.hex() == f"00018000000000000002000000036b65790010{window.hex()}"


def test_another_namespace_is_no_window() -> None:
    with pytest.raises(CorruptStateError, match="namespace="):
        rows.parse_window_namespace(b"123")


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
@given(
    st.integers(0, 32767), st.binary(max_size=50), st.binary(max_size=20), st.binary(max_size=20)
)
def test_rows_of_state_are_parsed_back(
    key_group: int, key: bytes, namespace: bytes, user_key: bytes
) -> None:
    row = rows.state_row(key_group, key, namespace) + user_key
    assert rows.parse_state_row(row) == (key_group, key, namespace, user_key)
    assert rows.key_group_of(row) == key_group


@pytest.mark.property
@given(
    st.integers(0, 32767),
    st.integers(-(2**63), 2**63 - 1),
    st.binary(max_size=50),
    st.binary(max_size=20),
)
def test_rows_of_timers_are_parsed_back(
    key_group: int, time: int, key: bytes, namespace: bytes
) -> None:
    row = rows.timer_row(key_group, time, key, namespace)
    assert rows.parse_timer_row(row) == (key_group, time, key, namespace)


@pytest.mark.property
@given(
    st.tuples(st.binary(max_size=4), st.binary(max_size=4)),
    st.tuples(st.binary(max_size=4), st.binary(max_size=4)),
    st.binary(max_size=6),
)
def test_a_key_and_namespace_own_a_range_of_rows_alone(one, other, user_key: bytes) -> None:
    """No entry of one key, or of one of its windows, lies among another's (B13, T9)."""
    prefix = rows.state_row(255, *one)
    row = rows.state_row(255, *other) + user_key
    assert (one == other) == (prefix <= row < rows.end_of_prefix(prefix))


@pytest.mark.property
@given(
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
)
def test_windows_sort_as_their_times_do(one, other) -> None:
    encoded = [rows.window_namespace(*one), rows.window_namespace(*other)]
    assert (one < other) == (encoded[0] < encoded[1])
    assert [rows.parse_window_namespace(namespace) for namespace in encoded] == [one, other]


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
