"""Value serializers alone: what storing and reading a value costs, against pickle and raw msgspec.

Prints one JSON line last. For each type nanoseconds of one ``serialize`` and one ``deserialize``
(median of several rounds, which take turns), and the size of the bytes:

- ``headrace``: the serializer of the declared type, checks included
- ``msgspec``: an encoder and a typed decoder of the nearest msgspec type, which checks nothing when
  writing, has no rows, and no decimals or times that stay what they are as keys
- ``pickle``: protocol 5, as undeclared types are stored

``migrate`` is the time of one value through a migration (a field more, a number wider).

``python bench/serializers.py [--rounds N]``
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import pickle
import statistics
import time
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pydantic

from headrace.serialization.registry import (
    key_serializer,
    serializer_from_snapshot,
    value_serializer,
)
from headrace.serialization.row import Row
from headrace.serialization.types import (
    DECIMAL,
    DOUBLE,
    INSTANT,
    LONG,
    STRING,
    ArrowArrayType,
    ClassType,
    ListType,
    MapType,
    NumpyType,
    RowType,
    TupleType,
    TypeDescription,
)

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS = 2000
"""Calls in one round of one measurement."""


@dataclass
class Account:
    """A dataclass as state usually is one."""

    owner: str
    cents: int
    tags: list[str]
    limit: float | None = None


@dataclass
class AccountLater:
    """The same in a later version of the program."""

    owner: str
    cents: int
    tags: list[str]
    limit: float | None = None
    currency: str = "EUR"


class AccountStruct(msgspec.Struct, array_like=True):
    """The fastest form of a class."""

    owner: str
    cents: int
    tags: list[str]
    limit: float | None = None


class AccountModel(pydantic.BaseModel):
    """The same as a pydantic model."""

    owner: str
    cents: int
    tags: list[str]
    limit: float | None = None


NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
ROW = RowType(("owner", "cents", "tags", "limit"), (STRING, LONG, ListType(STRING), DOUBLE))
LATER = RowType((*ROW.field_names, "currency"), (*ROW.field_types, STRING))
FIELDS: dict[str, Any] = {"owner": "user-1234", "cents": 123456, "tags": ["a", "b"], "limit": 0.5}
NUMBERS = [float(number) for number in range(100)]

CASES: list[tuple[str, TypeDescription, object, Any]] = [
    ("long", LONG, 123456789, int),
    ("double", DOUBLE, 0.1, float),
    ("string", STRING, "user-1234", str),
    ("decimal", DECIMAL, Decimal("12.50"), Decimal),
    ("instant", INSTANT, NOW, dt.datetime),
    ("tuple", TupleType((STRING, LONG, DOUBLE)), ("user-1234", 5, 0.5), tuple[str, int, float]),
    ("row", ROW, Row(**FIELDS), tuple[int, str, int, list[str], float]),
    ("list of 100 doubles", ListType(DOUBLE), NUMBERS, list[float]),
    ("map of 10", MapType(STRING, LONG), {f"key-{n}": n for n in range(10)}, dict[str, int]),
    ("dataclass", ClassType(Account), Account(**FIELDS), Account),
    ("struct", ClassType(AccountStruct), AccountStruct(**FIELDS), AccountStruct),
    ("pydantic", ClassType(AccountModel), AccountModel(**FIELDS), None),
    ("numpy of 100 doubles", NumpyType("float64"), np.array(NUMBERS), None),
    ("arrow of 100 doubles", ArrowArrayType(DOUBLE), pa.array(NUMBERS), None),
]

KEYS: list[tuple[str, TypeDescription, object]] = [
    ("long", LONG, 123456789),
    ("string", STRING, "user-1234"),
    ("tuple", TupleType((STRING, LONG)), ("user-1234", 5)),
]

MIGRATIONS: list[tuple[str, TypeDescription, TypeDescription, object]] = [
    ("long to double", LONG, DOUBLE, 123456),
    ("row with a field more", ROW, LATER, Row(**FIELDS)),
    ("dataclass with a field more", ClassType(Account), ClassType(AccountLater), Account(**FIELDS)),
]


class Stopwatch:
    """Medians of measurements that take turns, so that the machine's moods hit all alike."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, ...], tuple[Callable[[Any], object], object]] = {}

    def add(self, name: tuple[str, ...], call: Callable[[Any], object], argument: object) -> None:
        """Enter one measurement."""
        self._calls[name] = call, argument

    def run(self, rounds: int) -> dict[tuple[str, ...], int]:
        """Return nanoseconds a call by name."""
        times: dict[tuple[str, ...], list[float]] = {name: [] for name in self._calls}
        for _ in range(rounds):
            for name, (call, argument) in self._calls.items():
                repeat = range(CALLS)
                started = time.perf_counter_ns()
                for _ in repeat:
                    call(argument)
                times[name].append((time.perf_counter_ns() - started) / CALLS)
        return {name: round(statistics.median(taken)) for name, taken in times.items()}


def pickled(value: object) -> bytes:
    """Return a pickle as undeclared types are stored."""
    return pickle.dumps(value, protocol=5)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    watch = Stopwatch()
    sizes: dict[str, dict[str, int]] = {}
    for name, declared, value, python_type in CASES:
        serializer = value_serializer(declared)
        data = serializer.serialize(value)
        sizes[name] = {"headrace": len(data), "pickle": len(pickled(value))}
        watch.add((name, "headrace", "encode"), serializer.serialize, value)
        watch.add((name, "headrace", "decode"), serializer.deserialize, data)
        watch.add((name, "pickle", "encode"), pickled, value)
        watch.add((name, "pickle", "decode"), pickle.loads, pickled(value))
        plain = serializer_from_snapshot(serializer.snapshot())
        watch.add((name, "headrace", "read_without_classes"), plain.deserialize, data)
        if python_type is not None:
            wire = [0, *value] if isinstance(value, Row) else value
            encoded = msgspec.msgpack.encode(wire)
            watch.add((name, "msgspec", "encode"), msgspec.msgpack.Encoder().encode, wire)
            watch.add(
                (name, "msgspec", "decode"), msgspec.msgpack.Decoder(python_type).decode, encoded
            )
    for name, declared, key in KEYS:
        keys = key_serializer(declared)
        watch.add((f"key {name}", "headrace", "encode"), keys.serialize, key)
        watch.add((f"key {name}", "headrace", "decode"), keys.deserialize, keys.serialize(key))
    for name, old, new, value in MIGRATIONS:
        was = value_serializer(old)
        migrate = value_serializer(new).migration(was.snapshot())
        watch.add((name, "headrace", "migrate"), migrate, was.serialize(value))
    report: dict[str, Any] = {name: {"bytes": of} for name, of in sizes.items()}
    for (name, by, what), ns in watch.run(rounds).items():
        report.setdefault(name, {}).setdefault(f"{what}_ns", {})[by] = ns
    for name, measured in report.items():
        print(name, measured)
    print(json.dumps({"bench": "serializers", "calls": CALLS, "rounds": rounds, **report}))


if __name__ == "__main__":
    main()
