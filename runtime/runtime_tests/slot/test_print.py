"""What ``print`` shows: as Flink's ``PrintSinkOutputWriter``."""

import pytest

from headrace.slot.local_sinks import print_encoder


@pytest.mark.parametrize(
    ("prefix", "slot", "parallelism", "line"),
    [
        (None, 0, 1, b"7"),
        ("sums", 0, 1, b"sums> 7"),
        (None, 1, 2, b"2> 7"),
        ("sums", 0, 2, b"sums:1> 7"),
    ],
)
def test_the_subtask_is_shown_when_there_are_several(prefix, slot, parallelism, line):
    assert line == print_encoder(prefix, slot, parallelism)(7)
