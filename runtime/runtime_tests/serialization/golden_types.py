"""One value for each codec, and the file of their bytes that every later version must read.

``python -m runtime_tests.serialization.golden_types`` in ``runtime`` adds what the file lacks.
What is in it never changes.
"""
# ruff: noqa: DTZ001 - times without zone are a type of their own here

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from headrace.serialization.registry import key_serializer, value_serializer
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
    ArrowArrayType,
    ArrowBatchType,
    ClassType,
    ListType,
    MapType,
    NumpyType,
    RowType,
    TupleType,
    TypeDescription,
)

from .stored_classes import (
    AccountV1,
    Address,
    CounterModel,
    CounterRenamed,
    CounterV1,
    Deposited,
    Embedding,
    Ledger,
    Member,
    Node,
    PointV1,
    Tagged,
    Tier,
)

FILE = Path(__file__).parent / "golden" / "v1.json"

INDIA = dt.timezone(dt.timedelta(hours=5, minutes=30))
ROW = RowType(("id", "tags"), (LONG, ListType(STRING)))


@dataclass(frozen=True)
class Golden:
    """A value of a declared type.

    Attributes:
        name: in the file, never changed.
        type: as declared.
        value: as a program stores it.
        plain: as a reader without the program's classes sees it; None when that is the value.
        is_key: stored as a key.
        rewritten: whether the bytes are ours alone (Arrow's writer may change).
    """

    name: str
    type: TypeDescription
    value: Any
    plain: Any = None
    is_key: bool = False
    rewritten: bool = True

    def written(self) -> dict[str, Any]:
        """What the file keeps."""
        make = key_serializer if self.is_key else value_serializer
        serializer = make(self.type)
        data = serializer.serialize(serializer.coerce(self.value))
        return {"snapshot": serializer.snapshot(), "bytes": data.hex()}


SCALARS: list[tuple[TypeDescription, Any]] = [
    (STRING, "h\u00e9llo \U0001f30d"),
    (BYTES, b"\x00\xff"),
    (BOOLEAN, True),
    (BYTE, -128),
    (SHORT, -32768),
    (INT, -(2**31)),
    (LONG, -(2**63)),
    (BIG_INT, 2**200 + 1),
    (FLOAT, 0.5),
    (DOUBLE, -math.pi),
    (DECIMAL, Decimal("-12345678901234567890.1250")),
    (DATE, dt.date(1969, 12, 31)),
    (TIME, dt.time(23, 59, 59, 999_999)),
    (TIMESTAMP, dt.datetime(1969, 12, 31, 23, 59, 59, 1)),
    (INSTANT, dt.datetime(2024, 2, 29, 5, 30, tzinfo=dt.UTC)),
    (DURATION, dt.timedelta(days=-1, microseconds=1)),
]

COMPOSITES: list[tuple[str, TypeDescription, Any]] = [
    ("tuple", TupleType((LONG, STRING, DATE)), (1, None, dt.date(2024, 1, 1))),
    ("list", ListType(DOUBLE), [1.5, None, -0.0]),
    ("row", ROW, Row(id=7, tags=["a", None])),
]

GOLDEN = [
    *(Golden(f"value {kind.kind.value}", kind, value) for kind, value in SCALARS),
    *(Golden(f"value {name}", kind, value) for name, kind, value in COMPOSITES),
    Golden("value instant of a zone", INSTANT, dt.datetime(2024, 1, 1, tzinfo=INDIA),
           dt.datetime(2023, 12, 31, 18, 30, tzinfo=dt.UTC)),
    Golden("value small big_int", BIG_INT, -5),
    Golden("value map", MapType(STRING, LONG), {"a": 1, "b": None}),
    Golden("value map of dates", MapType(DATE, ROW), {dt.date(2024, 1, 1): Row(id=1, tags=None)}),
    Golden("value map of tuples", MapType(TupleType((LONG, STRING)), BOOLEAN), {(1, "a"): True}),
    Golden("value nested", ListType(MapType(LONG, TupleType((ROW, DECIMAL)))),
           [{1: (Row(id=1, tags=[]), Decimal("1.0"))}]),
    Golden("value pickled", PICKLED, {"a": (1, 2.5)}, b"see the test"),
    Golden("value numpy", NumpyType("float32", 2), np.array([[1.5, -2], [0, math.inf]], "float32")),
    Golden("value numpy of any shape", NumpyType("uint16", None), np.zeros((0, 3), "uint16")),
    Golden("value arrow array", ArrowArrayType(LONG), pa.array([1, None, 3]), rewritten=False),
    Golden("value arrow batch", ArrowBatchType(ROW), pa.RecordBatch.from_pydict(
        {"id": [1, None], "tags": [["a"], None]}), rewritten=False),
    Golden("class dataclass", ClassType(CounterV1), CounterV1(3, "n"), {"count": 3, "name": "n"}),
    Golden("class renamed field", ClassType(CounterRenamed), CounterRenamed(3),
           {"total": 3, "name": ""}),
    Golden("class array-like struct", ClassType(PointV1), PointV1(1, 2), {"x": 1, "y": 2}),
    Golden("class tagged struct", ClassType(Tagged), Tagged(1), {"type": "t1", "count": 1}),
    Golden("class pydantic model", ClassType(CounterModel), CounterModel(count=3),
           {"count": 3, "name": ""}),
    Golden("class recursive", ClassType(Node), Node(1, Node(2)),
           {"value": 1, "next": {"value": 2, "next": None}}),
    Golden("class union", ClassType(Ledger), Ledger(Deposited(5)),
           {"last": {"type": "deposited", "cents": 5}}),
    Golden("class array", ClassType(Embedding), Embedding("a", np.array([1], "float32")),
           {"name": "a", "vector": np.array([1], "float32"), "parts": []}),
    Golden("class every field", ClassType(AccountV1), AccountV1(
        "\u00e9", Decimal("1.10"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), Address("x", ["y"]),
        Tier.GOLD, None, {"a": 1}, (1, "b"), UUID(int=7)), {
        "owner": "\u00e9", "balance": Decimal("1.10"),
        "opened": dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "address": {"city": "x", "lines": ["y"]},
        "tier": "gold", "note": None, "tags": {"a": 1}, "pair": (1, "b"), "id": UUID(int=7),
        "mode": "a"}),
    Golden("class times", ClassType(Member), Member(
        Tier.BASE, dt.date(2024, 1, 1), ["a"], (dt.datetime(2024, 1, 1, 0, 0, 0, 5),), (0, ""),
        {dt.date(2024, 1, 2): 5}), {
        "tier": "base", "since": dt.date(2024, 1, 1), "tags": ["a"],
        "seen": (dt.datetime(2024, 1, 1, 0, 0, 0, 5),), "pair": (0, ""),
        "by_day": {dt.date(2024, 1, 2): 5}}),
    *(Golden(f"key {kind.kind.value}", kind, value, is_key=True) for kind, value in SCALARS),
    *(Golden(f"key {name}", kind, value, is_key=True) for name, kind, value in COMPOSITES),
    Golden("key undeclared", PICKLED, ("a", 1, 1.0, True, None, [b"x"]), is_key=True),
]  # fmt: skip


def main() -> None:
    """Add what the file lacks."""
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    written = {golden.name: known.get(golden.name) or golden.written() for golden in GOLDEN}
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(known | written, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
