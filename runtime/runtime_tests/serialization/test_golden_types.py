"""What was once stored is read by every later version, with the program's classes and without."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.serialization.compatibility import Verdict
from headrace.serialization.registry import (
    key_serializer,
    serializer_from_snapshot,
    value_serializer,
)

from .golden_types import FILE, GOLDEN, Golden

STORED = json.loads(FILE.read_text())


def same(one: Any, other: Any) -> bool:
    """Equal in value and type, arrays too."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, pa.Array | pa.RecordBatch):
        return one.equals(other)
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return type(one) is type(other) and repr(one) == repr(other)


def test_every_stored_value_is_tested_and_the_other_way_round() -> None:
    assert sorted(STORED) == sorted(golden.name for golden in GOLDEN)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_stored_bytes_are_read_without_the_programs_classes(golden: Golden) -> None:
    stored = STORED[golden.name]
    data = bytes.fromhex(stored["bytes"])
    reader = serializer_from_snapshot(stored["snapshot"])
    found = reader.deserialize(data)
    if golden.name == "value pickled":
        assert data == found
        return
    expected = golden.value if golden.plain is None else golden.plain
    assert same(key_serializer(golden.type).coerce(expected) if golden.is_key else expected, found)
    if golden.rewritten:
        assert data == reader.serialize(found)


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden.name)
def test_stored_bytes_are_what_the_program_stores_and_reads(golden: Golden) -> None:
    stored = STORED[golden.name]
    serializer = (key_serializer if golden.is_key else value_serializer)(golden.type)
    assert stored["snapshot"] == serializer.snapshot()
    assert Verdict.AS_IS is serializer.compatibility(stored["snapshot"]).verdict
    found = serializer.deserialize(bytes.fromhex(stored["bytes"]))
    if not isinstance(found, np.ndarray) and golden.name != "class array":
        assert serializer.coerce(golden.value) == found
    if golden.rewritten:
        assert stored["bytes"] == golden.written()["bytes"]
