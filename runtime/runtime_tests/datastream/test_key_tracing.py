"""Tracing of key selectors is never wrong: what is not surely one field is no field."""

from __future__ import annotations

import functools
import operator
import random

import pytest

from headrace.datastream.key_tracing import traced_field

FIELDS = ["key", "amount", "count", "as_dict"]
FACTOR = 2


def named(row):
    """Return the key."""
    return row.key


def typed(row: object) -> object:
    value = row["key"]
    return value  # noqa: RET504 - a local variable on purpose


@pytest.mark.parametrize(
    ("selector", "field"),
    [
        (lambda r: r.key, "key"),
        (lambda r: r["amount"], "amount"),
        (lambda r: r[0], "key"),
        (lambda r: r[-1], "as_dict"),
        (lambda r: r["as_dict"], "as_dict"),
        (named, "key"),
    ],
)
def test_a_selector_that_is_one_field_is_found(selector, field):
    assert traced_field(selector, FIELDS) == field


def closure(name):
    return lambda r: r[name]


class Selector:
    def __call__(self, row):
        return row.key


@pytest.mark.parametrize(
    "selector",
    [
        lambda r: r.key + 1,
        lambda r: (r.key,),
        lambda r: (r.key, r.amount),
        lambda r: (r.key, r.amount)[0],
        lambda r: r,
        lambda r: 1,
        lambda r: r.key.x,
        lambda r: r["key"]["x"],
        lambda r: r.key if r.amount else r.count,
        lambda r: r.key or r.amount,
        lambda r: r.key if isinstance(r, dict) else r.amount,
        lambda r: r["key"] if FACTOR > 1 else r["amount"],
        lambda r: r["key"] if random.random() < 0.5 else r["amount"],
        lambda r: str(r.key),
        lambda r: r.key.lower(),
        lambda r: r.get("key"),
        lambda r: not r.key,
        lambda r: -r.amount,
        lambda r: r.key == 1,
        lambda r: f"{r.key}",
        lambda r: [r.key],
        lambda r: {"k": r.key},
        lambda r: r[0:1],
        lambda r: r[True],
        lambda r: r[7],
        lambda r: r.missing,
        lambda r: r["missing"],
        lambda r: r.as_dict,
        lambda r: r._values,
        lambda r: r.reads,
        lambda r: r.__class__,
        lambda r, k="key": r[k],
        lambda *r: r[0],
        lambda r, **kw: r.key,
        closure("key"),
        functools.partial(lambda n, r: r[n], "key"),
        operator.itemgetter("key"),
        operator.attrgetter("key"),
        Selector(),
        typed,
    ],
)
def test_anything_else_is_no_field(selector):
    assert traced_field(selector, FIELDS) is None


def test_a_selector_is_called_with_nothing_that_can_have_effects():
    calls = []

    def selector(row):
        calls.append(row)
        return row.key

    assert traced_field(selector, FIELDS) is None
    assert calls == []
