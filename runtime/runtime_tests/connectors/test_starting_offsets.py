from __future__ import annotations

import pytest

from headrace.connectors.kafka.starting_offsets import (
    OffsetReset,
    complete_offsets,
    decode_offsets,
    encode_offsets,
)
from headrace.errors import CorruptStateError, InvalidConfigError

PARTITIONS = {"a": [0, 1], "b": [0]}


@pytest.mark.parametrize(
    ("reset", "default"), [(OffsetReset.EARLIEST, -2), (OffsetReset.LATEST, -1)]
)
def test_partitions_without_an_offset_follow_the_reset_strategy(reset, default):
    found = complete_offsets({("a", 1): 7}, PARTITIONS, reset)
    assert found == {("a", 0): default, ("a", 1): 7, ("b", 0): default}


def test_without_a_reset_strategy_every_partition_needs_an_offset():
    with pytest.raises(InvalidConfigError, match=r"\('a', 0\), \('b', 0\)"):
        complete_offsets({("a", 1): 7}, PARTITIONS, OffsetReset.NONE)


def test_offsets_of_partitions_that_do_not_exist_are_refused():
    with pytest.raises(InvalidConfigError, match=r"\('c', 0\)"):
        complete_offsets({("c", 0): 1}, PARTITIONS, OffsetReset.EARLIEST)


def test_spark_gets_them_as_json_by_topic():
    offsets = {("b", 0): 3, ("a", 1): -1, ("a", 0): 12}
    assert encode_offsets(offsets) == '{"a":{"0":12,"1":-1},"b":{"0":3}}'
    assert decode_offsets(encode_offsets(offsets)) == offsets


@pytest.mark.parametrize("text", ["", "12", '{"a":3}', '{"a":{"x":1}}'])
def test_other_texts_are_no_offsets(text):
    with pytest.raises(CorruptStateError):
        decode_offsets(text)
