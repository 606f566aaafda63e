"""Ends of bounded sources, told from Spark's log (A17)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from headrace.engine.source_ends import (
    CountEnd,
    FilesEnd,
    KafkaEnd,
    SourceEnds,
    decode_file_set,
    encode_file_set,
)
from headrace.errors import CorruptStateError, SourceUnavailableError
from headrace.ids import Epoch

if TYPE_CHECKING:
    from pathlib import Path

A, B, LATE = "file:///in/a.txt", "file:///in/b%20c.txt", "file:///in/late.txt"


class Log:
    """Spark's checkpoint location as it stands when an epoch begins."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "offsets").mkdir()

    def epoch(self, number: int, *offsets: str) -> None:
        entry = "\n".join(["v1", '{"batchWatermarkMs":0}', *offsets])
        (self.directory / "offsets" / str(number)).write_text(entry)

    def files(self, source: int, name: str, *entries: tuple[str, int]) -> None:
        log = self.directory / "sources" / str(source)
        log.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"path": p, "timestamp": 1, "batchId": b}) for p, b in entries]
        (log / name).write_text("\n".join(["v1", *lines]))


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def reached(ends: SourceEnds, log: Log, *epochs: int) -> list[set[int]]:
    return [set(ends.reached_by(log.directory, Epoch(epoch))) for epoch in epochs]


def test_a_sequence_has_ended_when_its_count_was_read(log):
    log.epoch(0, '{"offset":4,"timestamp":1000}')
    log.epoch(1, '{"offset":8,"timestamp":2000}')
    assert [set(), {0}] == reached(SourceEnds((CountEnd(5),), {}), log, 0, 1)


def test_an_empty_sequence_has_ended_at_once(log):
    log.epoch(0, '{"offset":1,"timestamp":1000}')
    assert [{0}] == reached(SourceEnds((CountEnd(0),), {}), log, 0)


def test_topics_have_ended_when_every_partition_is_at_its_end_or_beyond(log):
    end = KafkaEnd({("in", 0): 10, ("in", 1): 0, ("other", 0): 3})
    log.epoch(0, '{"in":{"0":10,"1":0},"other":{"0":2}}')
    log.epoch(1, '{"in":{"0":17,"1":5,"2":1},"other":{"0":3}}')
    assert [set(), {0}] == reached(SourceEnds((end,), {}), log, 0, 1)


def test_a_partition_that_spark_does_not_know_yet_is_waited_for(log):
    log.epoch(0, '{"in":{"0":10}}')
    assert [set()] == reached(SourceEnds((KafkaEnd({("in", 0): 1, ("in", 1): 1}),), {}), log, 0)


def test_a_set_of_files_has_ended_when_every_file_was_taken_by_an_epoch(log):
    ends = SourceEnds((FilesEnd(frozenset({A, B})),), {})
    log.files(0, "0", (A, 0))
    log.epoch(0, '{"logOffset":0}')
    # Spark has looked ahead: the file of the next epoch does not count for this one
    log.files(0, "1", (LATE, 1), (B, 1))
    assert [set()] == reached(ends, log, 0)
    log.epoch(1, '{"logOffset":1}')
    assert [{0}] == reached(ends, log, 1)


def test_compacted_entries_count_and_checksum_files_do_not(log):
    log.files(0, "9.compact", (A, 3), (B, 9))
    log.files(0, ".9.compact.crc", ("not json", 0))
    log.epoch(5, '{"logOffset":9}')
    assert [{0}] == reached(SourceEnds((FilesEnd(frozenset({A, B})),), {}), log, 5)


def test_an_empty_set_of_files_has_ended_before_spark_knows_an_offset(log):
    log.epoch(0, "-")
    assert [{0}] == reached(SourceEnds((FilesEnd(frozenset()),), {}), log, 0)


def test_a_file_that_vanished_is_named_instead_of_waited_for(log):
    ends = SourceEnds((FilesEnd(frozenset({A, B})),), {})
    log.files(0, "0", (A, 0))
    log.epoch(0, '{"logOffset":0}')
    log.epoch(1, '{"logOffset":0}')
    assert [set()] == reached(ends, log, 0)
    with pytest.raises(SourceUnavailableError, match=r"missing=1 of=2 files=.*b%20c"):
        reached(ends, log, 1)


def test_a_file_source_of_which_nothing_was_ever_found_is_named_too(log):
    ends = SourceEnds((FilesEnd(frozenset({A})),), {})
    log.epoch(0, "-")
    log.epoch(1, "-")
    assert [set()] == reached(ends, log, 0)
    with pytest.raises(SourceUnavailableError, match=r"missing=1 of=1"):
        reached(ends, log, 1)


def test_a_job_is_at_its_end_when_all_sources_are_and_never_with_an_unbounded_one(log):
    log.epoch(0, '{"offset":9}', '{"in":{"0":9}}', '{"offset":1}')
    bounded = SourceEnds((CountEnd(9), KafkaEnd({("in", 0): 9})), {})
    assert bounded.all_reached(bounded.reached_by(log.directory, Epoch(0)))
    mixed = SourceEnds((CountEnd(9), None), {})
    at_end = mixed.reached_by(log.directory, Epoch(0))
    assert {0} == set(at_end)
    assert not mixed.all_reached(at_end)


def test_a_damaged_log_is_said(log):
    with pytest.raises(CorruptStateError, match="epoch=3"):
        reached(SourceEnds((CountEnd(1),), {}), log, 3)
    log.epoch(4, '{"surprise":1}')
    with pytest.raises(CorruptStateError, match="surprise"):
        reached(SourceEnds((CountEnd(1),), {}), log, 4)


def test_a_stored_set_of_files_is_read_back():
    files = frozenset({A, B})
    assert files == decode_file_set(encode_file_set(files))
    assert "file:/in/a.txt" in FilesEnd(files).spellings()
    assert A in FilesEnd(files).spellings()
