"""Spark's streaming log: what is read from one driver's disk is what the next one's gets (T1)."""

import pytest

from headrace.engine.spark_log import has_commit, read_position, source_offsets, write_scratch
from headrace.errors import CorruptStateError
from headrace.ids import Epoch, OperatorUid

ENDS = {OperatorUid("in"): '{"in":{"0":9}}'}


@pytest.fixture
def log(tmp_path):
    directory = tmp_path / "log"
    for name, content in {
        "metadata": '{"id":"q"}',
        "sources/0/0": "v1\n{}",
        "sources/0/.0.crc": "junk",
        "offsets/6": "o6",
        "offsets/7": "o7",
        "commits/6": "c6",
        "commits/7": "c7",
    }.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return directory


def test_a_position_holds_the_last_two_epochs_and_the_sources(log):
    position = read_position(log, Epoch(7), ENDS)
    assert {"6": "o6", "7": "o7"} == position.offsets
    assert {"6": "c6", "7": "c7"} == position.commits
    assert {"0/0": b"v1\n{}"} == position.sources
    assert ENDS == position.ends


def test_a_fresh_directory_rebuilt_from_a_position_reads_back_the_same(log, tmp_path):
    position = read_position(log, Epoch(7), ENDS)
    write_scratch(tmp_path / "fresh", position)
    assert position == read_position(tmp_path / "fresh", Epoch(7), ENDS)


def test_rebuilding_forgets_what_was_there(log):
    write_scratch(log, None)
    assert [] == list(log.iterdir())


def test_an_epoch_that_spark_has_not_committed_is_told_apart(log):
    assert (True, False) == (has_commit(log, Epoch(7)), has_commit(log, Epoch(8)))
    with pytest.raises(CorruptStateError, match="epoch=8"):
        read_position(log, Epoch(8), ENDS)


def test_offsets_of_the_last_epoch_are_told_apart_by_source(log):
    (log / "offsets" / "7").write_text('v1\n{"batchWatermarkMs":0}\n{"in":{"0":5}}\n-\n17')
    assert ['{"in":{"0":5}}', None, "17"] == source_offsets(read_position(log, Epoch(7), ENDS))
