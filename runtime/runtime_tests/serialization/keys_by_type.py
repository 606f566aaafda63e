"""Hypothesis strategies of keys, by declared type."""
# ruff: noqa: DTZ001 - times without zone are a type of their own here

import datetime as dt

from hypothesis import strategies as st

from headrace.serialization.row import Row
from headrace.serialization.types import (
    BIG_INT,
    BOOLEAN,
    BYTE,
    BYTES,
    DATE,
    DECIMAL,
    DOUBLE,
    DURATION,
    FLOAT,
    INSTANT,
    INT,
    LONG,
    PICKLED,
    SHORT,
    STRING,
    TIME,
    TIMESTAMP,
    ListType,
    RowType,
    TupleType,
)


def ints(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


text = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
zones = [dt.UTC, *(dt.timezone(dt.timedelta(minutes=minutes)) for minutes in (330, -660))]
aware = st.datetimes(
    dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1), timezones=st.sampled_from(zones)
)
durations = st.integers(-(1 << 63), (1 << 63) - 1).map(lambda micros: dt.timedelta(0, 0, micros))

scalars = {
    STRING: text,
    BYTES: st.binary(max_size=20),
    BOOLEAN: st.booleans(),
    BYTE: ints(8),
    SHORT: ints(16),
    INT: ints(32),
    LONG: ints(64),
    FLOAT: st.floats(width=32),
    DOUBLE: st.floats(),
    BIG_INT: st.integers(),
    DECIMAL: st.decimals(allow_nan=False),
    DATE: st.dates(),
    TIME: st.times(),
    TIMESTAMP: st.datetimes(),
    INSTANT: aware,
    DURATION: durations,
}

any_atom = st.one_of(st.none(), *scalars.values(), st.decimals(allow_nan=False))
any_key = st.recursive(
    any_atom,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=4).map(lambda items: Row(*items)),
        st.dictionaries(
            st.from_regex(r"[a-z]{1,5}", fullmatch=True), inner, min_size=1, max_size=4
        ).map(lambda items: Row(**items)),
    ),
    max_leaves=8,
)

composites = {
    PICKLED: any_key,
    TupleType((STRING, LONG)): st.tuples(text, st.none() | ints(64)),
    ListType(STRING): st.lists(text, max_size=4),
    RowType(("a", "b"), (DOUBLE, DATE)): st.builds(
        lambda a, b: Row(a=a, b=b), st.floats(), st.dates()
    ),
}

by_type = scalars | composites
