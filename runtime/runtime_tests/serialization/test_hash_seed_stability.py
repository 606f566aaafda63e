"""Key bytes and hashes are the same in every process, whatever ``PYTHONHASHSEED`` says (T10)."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import datetime as dt
from decimal import Decimal
from headrace.serialization.registry import key_serializer, value_serializer
from headrace.serialization.row import Row
from headrace.serialization.types import *

undeclared = key_serializer(PICKLED)
for key in [None, True, 1, 1.0, "é", b"x", Decimal("1.10"), dt.date(2024, 1, 1),
            ("a", ["b", Row(c=1)]), dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)]:
    print(undeclared.serialize(undeclared.coerce(key)).hex(), undeclared.hash64(key))
print(key_serializer(STRING).hash64("user-1"))
print(key_serializer(TupleType((STRING, DURATION))).hash64(("a", dt.timedelta(1))))
record = RowType(("name", "seen"), (STRING, MapType(STRING, DECIMAL)))
print(value_serializer(record).serialize(("a", {"x": Decimal("1.0"), "b": None, "a": None})).hex())
print(value_serializer(record).snapshot())
"""


@pytest.fixture(scope="module")
def outputs() -> list[str]:
    runs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        for seed in ("0", "1", "4294967295")
    ]
    return [run.stdout for run in runs]


def test_three_processes_with_different_hash_seeds_agree(outputs: list[str]) -> None:
    assert len(outputs[0].splitlines()) == 14
    assert outputs[0] == outputs[1] == outputs[2]
