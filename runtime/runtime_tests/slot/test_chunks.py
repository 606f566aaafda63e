"""Chunks: what goes into an exchange comes out of it, and damage is noticed."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from headrace.slot.chunk import (
    KEY_GROUP_COLUMN,
    NO_TIMESTAMP,
    ColumnRows,
    ObjectRows,
    SplitProgress,
    decode,
    encode_columns,
    encode_objects,
    encode_progress,
    retagged,
    tag_of,
)


def test_objects_come_back_with_keys_groups_and_timestamps():
    chunk = encode_objects(3, [5, 127], ["a", "b"], [10, NO_TIMESTAMP], [{"x": 1}, None])
    rows = decode(chunk)
    assert isinstance(rows, ObjectRows)
    assert (3, [5, 127], ["a", "b"], [10, NO_TIMESTAMP], [{"x": 1}, None]) == (
        rows.tag,
        rows.key_groups.tolist(),
        rows.keys,
        rows.timestamps,
        rows.values,
    )


def test_rows_without_keys_and_timestamps_say_so():
    rows = decode(encode_objects(0, [], None, None, [1, 2]))
    assert isinstance(rows, ObjectRows)
    assert (None, None, [1, 2]) == (rows.keys, rows.timestamps, rows.values)


def test_the_greatest_key_group_fits():
    rows = decode(encode_objects(0, [32767], ["k"], None, ["v"]))
    assert isinstance(rows, ObjectRows)
    assert [32767] == rows.key_groups.tolist()


def test_columns_come_back_as_they_were():
    batch = pa.record_batch(
        {KEY_GROUP_COLUMN: pa.array([1, 2], pa.int32()), "name": pa.array(["a", None])}
    )
    rows = decode(encode_columns(7, batch))
    assert isinstance(rows, ColumnRows)
    assert (7, batch) == (rows.tag, rows.batch)
    assert [1, 2] == np.asarray(rows.key_groups).tolist()


def test_progress_comes_back():
    progress = [SplitProgress(0, "in-3", 99, 12), SplitProgress(1, "0", None, 0)]
    assert progress == decode(encode_progress(progress))


def test_a_chunk_changes_its_tag_unread():
    chunk = encode_objects(1, [], None, None, ["v"])
    moved = retagged(chunk, 9)
    assert (1, 9) == (tag_of(chunk), tag_of(moved))
    assert chunk[2:] == moved[2:]


def test_progress_belongs_to_no_edge():
    assert tag_of(encode_progress([])) == -1


def test_something_else_is_no_chunk():
    with pytest.raises(ValueError, match="not a chunk"):
        decode(b"\x09\x00\x00\x00\x00\x00")


def test_a_wrong_count_is_noticed():
    chunk = bytearray(encode_objects(0, [], None, None, [1, 2]))
    chunk[2] = 3
    with pytest.raises(ValueError, match="damaged"):
        decode(bytes(chunk))


def test_decoding_columns_does_not_load_pandas(tmp_path):
    """It would cost the first epoch of every slot process a second, and 40 MB for good."""
    batch = pa.record_batch(
        {
            KEY_GROUP_COLUMN: pa.array([1, 2], pa.int32()),
            "amount": pa.array([7, 8]),
            "merchant": pa.array(["a", None]),
        }
    )
    (tmp_path / "chunk").write_bytes(encode_columns(3, batch))
    program = f"""
import sys
from pathlib import Path
import headrace.slot.process
from headrace.slot.chunk import decode
from headrace.slot.columns import column_values
rows = decode(Path({str(tmp_path / "chunk")!r}).read_bytes())
assert rows.key_groups.tolist() == [1, 2]
assert column_values(rows.batch.column("amount")) == [7, 8]
assert column_values(rows.batch.column("merchant")) == ["a", None]
print("pandas" in sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout == "False\n"
