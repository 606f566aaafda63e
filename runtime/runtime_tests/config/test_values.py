"""Notations of option values are Flink's."""

from __future__ import annotations

import enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config.values import (
    BOOLEAN,
    DURATION,
    INTEGER_MAX,
    MEMORY,
    STORAGE_URI,
    enumeration,
    format_duration,
    format_memory,
    integer,
    number,
    parse_duration_ms,
    parse_memory_bytes,
)


class Colour(enum.Enum):
    DARK_RED = "dark-red"
    BLUE = "BLUE"


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("30000", 30_000),
        ("30 s", 30_000),
        ("30s", 30_000),
        ("1min", 60_000),
        ("1 m", 60_000),
        ("10 minutes", 600_000),
        ("2 h", 7_200_000),
        ("1 day", 86_400_000),
        ("3 d", 259_200_000),
        ("500 ms", 500),
        ("500 millis", 500),
        ("2000 micros", 2),
        ("3000000 ns", 3),
        ("0", 0),
        ("  5 SEC ", 5_000),
    ],
)
def test_durations_are_read_as_flink_reads_them(text, millis):
    assert millis == parse_duration_ms(text)


@pytest.mark.parametrize("text", ["", "s", "-5 s", "1.5 s", "5 parsecs", "5 s 3 ms", "1 µs"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011 - the reason is for people
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1024", 1024),
        ("64mb", 64 << 20),
        ("64 MB", 64 << 20),
        ("64m", 64 << 20),
        ("1g", 1 << 30),
        ("2 gb", 2 << 30),
        ("4 kb", 4096),
        ("1t", 1 << 40),
        ("7 bytes", 7),
        ("3 mebibytes", 3 << 20),
    ],
)
def test_memory_sizes_are_powers_of_1024(text, size):
    assert size == parse_memory_bytes(text)


@pytest.mark.parametrize("text", ["", "-1", "1.5g", "5 pints", "mb"])
def test_what_is_no_memory_size_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_memory_bytes(text)


@pytest.mark.property
@given(st.integers(0, 10**15))
def test_a_written_duration_reads_back_as_itself(millis):
    assert millis == parse_duration_ms(format_duration(millis))


@pytest.mark.property
@given(st.integers(0, 1 << 60))
def test_a_written_memory_size_reads_back_as_itself(size):
    assert size == parse_memory_bytes(format_memory(size))


def test_written_values_use_the_largest_unit_without_a_rest():
    assert [format_duration(ms) for ms in (600_000, 90_000, 0)] == ["10 min", "90 s", "0 ms"]
    assert [format_memory(n) for n in (64 << 20, 1 << 30, 0)] == ["64mb", "1gb", "0b"]


@pytest.mark.parametrize("text", ["dark-red", "DARK_RED", "Dark-Red", " dark_red "])
def test_enums_ignore_case_and_kind_of_dash(text):
    assert Colour.DARK_RED is enumeration(Colour).parse(text)


def test_enums_name_their_values_when_they_refuse():
    kind = enumeration(Colour, {"azure": Colour.BLUE})
    assert Colour.BLUE is kind.parse("AZURE")
    assert kind.accepts == "one of dark-red, BLUE"
    with pytest.raises(ValueError, match="not one of the values"):
        kind.parse("green")


def test_integers_keep_their_bounds_and_know_infinite():
    assert integer(0).parse("infinite") == INTEGER_MAX
    assert integer(0).format(INTEGER_MAX) == "infinite"
    for text in ("0", "11", "x", "1.0"):
        with pytest.raises(ValueError):  # noqa: PT011
            integer(1, 10).parse(text)


def test_numbers_keep_their_bounds():
    assert number(0.0, 1.0).parse("0.25") == 0.25
    for text in ("1.1", "-0.1", "nan", "x"):
        with pytest.raises(ValueError):  # noqa: PT011
            number(0.0, 1.0).parse(text)
    with pytest.raises(ValueError):  # noqa: PT011
        number(1.0, above=True).parse("1.0")


def test_booleans_are_words_only():
    assert [BOOLEAN.parse(text) for text in ("True", " false")] == [True, False]
    with pytest.raises(ValueError):  # noqa: PT011
        BOOLEAN.parse("1")


def test_storage_is_a_uri_or_an_absolute_path():
    assert STORAGE_URI.parse("/tmp/chk") == "file:///tmp/chk"
    assert STORAGE_URI.parse("s3://flink-ckpts/upi/") == "s3://flink-ckpts/upi/"
    for text in ("chk", "hdfs://x/y", "file://host", "ftp://x"):
        with pytest.raises(ValueError):  # noqa: PT011
            STORAGE_URI.parse(text)


def test_the_types_that_options_use_have_names_for_the_reference_page():
    assert [DURATION.name, MEMORY.name] == ["Duration", "MemorySize"]
