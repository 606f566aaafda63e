"""Which offsets a source of a changed program goes on from."""

from __future__ import annotations

import pytest

from headrace.checkpoint.protocol.types import SourcePosition
from headrace.engine.source_alignment import align_position
from headrace.errors import CorruptStateError, IncompatibleStateError
from headrace.ids import Epoch, OperatorUid

HEADER = 'v1\n{"batchWatermarkMs":0}'


def uids(text: str) -> list[OperatorUid]:
    return [OperatorUid(name) for name in text.split()]


def position(names: str, streams: int | None = None) -> SourcePosition:
    """Return the position of sources whose offsets and files are named after them."""
    named = names.split()
    lines = [*named, *["more"] * ((streams or len(named)) - len(named)), "beat"]
    offsets = {str(e): "\n".join([HEADER, *(f"{line}@{e}" for line in lines)]) for e in (4, 5)}
    files = {f"{place}/0": name.encode() for place, name in enumerate([*named, "beat"])}
    return SourcePosition(
        Epoch(5),
        "{}",
        files,
        offsets,
        {"4": "v1", "5": "v1"},
        {OperatorUid(named[0]): "end"},
        uids(names),
    )


def lines(aligned: SourcePosition, epoch: int = 5) -> list[str]:
    return aligned.offsets[str(epoch)].splitlines()[2:]


def test_the_same_sources_need_nothing() -> None:
    stored = position("a b")
    assert (stored, []) == align_position(stored, uids("a b"), may_drop=False)


def test_a_checkpoint_that_does_not_name_its_sources_is_taken_as_it_is() -> None:
    stored = SourcePosition(Epoch(0), "{}", {}, {"0": HEADER}, {})
    assert (stored, []) == align_position(stored, uids("a"), may_drop=False)


def test_sources_in_another_order_find_their_own_offsets_and_files() -> None:
    aligned, dropped = align_position(position("a b"), uids("b a"), may_drop=False)
    assert ["b@5", "a@5", "beat@5"] == lines(aligned)
    assert ["b@4", "a@4", "beat@4"] == lines(aligned, 4)
    assert {"0/0": b"b", "1/0": b"a", "2/0": b"beat"} == aligned.sources
    assert (uids("b a"), []) == (aligned.uids, dropped)
    assert aligned.offsets["5"].startswith(HEADER)


def test_a_new_source_begins_at_its_beginning() -> None:
    aligned, _ = align_position(position("a"), uids("new a"), may_drop=False)
    assert ["-", "a@5", "beat@5"] == lines(aligned)
    assert {"1/0": b"a", "2/0": b"beat"} == aligned.sources


def test_offsets_of_a_missing_source_are_refused_by_name() -> None:
    with pytest.raises(IncompatibleStateError, match=r"sources=\['b'\] program=\['a'\]"):
        align_position(position("a b"), uids("a"), may_drop=False)


def test_a_renamed_source_is_a_missing_and_a_new_one() -> None:
    aligned, dropped = align_position(position("a b"), uids("c b"), may_drop=True)
    assert (["-", "b@5", "beat@5"], uids("a")) == (lines(aligned), dropped)
    assert {} == aligned.ends


def test_a_dropped_source_leaves_the_others_where_they_were() -> None:
    aligned, dropped = align_position(position("a b c"), uids("c a"), may_drop=True)
    assert (["c@5", "a@5", "beat@5"], uids("b")) == (lines(aligned), dropped)
    assert {OperatorUid("a"): "end"} == aligned.ends


def test_dataframes_of_several_streams_do_not_mix_with_other_changes() -> None:
    stored = position("a frame", streams=3)
    assert (stored, []) == align_position(stored, uids("a frame"), may_drop=True)
    with pytest.raises(IncompatibleStateError, match="several streams"):
        align_position(stored, uids("frame a"), may_drop=True)


def test_a_log_that_spark_does_not_write_is_corrupt() -> None:
    stored = position("a b")
    stored.offsets["4"] = HEADER
    with pytest.raises(CorruptStateError, match="differ"):
        align_position(stored, uids("b a"), may_drop=False)
