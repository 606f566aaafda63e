"""Directory names are Flink's (C8, T22)."""

import re

import pytest

from headrace.ids import JobId, OperatorUid
from headrace.state.directories import murmur3_128, operator_id, working_directory


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        ("stateful_map_test", "11f49afc24b1cce91c7169b1e5140284"),
        ("stateful_process", "0d49016af99997646695a030f69aa7ee"),
        ("", "00000000000000000000000000000000"),
    ],
)
def test_operator_ids_are_flinks(uid: str, expected: str) -> None:
    assert operator_id(uid) == expected


def test_every_length_of_tail_is_hashed() -> None:
    hashes = {murmur3_128(b"x" * length) for length in range(40)}
    assert len(hashes) == 40


def test_the_first_slot_of_one_is_called_1_1_and_names_are_never_used_twice() -> None:
    job = JobId("a" * 32)
    names = {
        working_directory(job, "StreamMap", OperatorUid("stateful_map_test"), 0, 1)
        for _ in range(2)
    }
    assert len(names) == 2
    pattern = (
        f"job_{'a' * 32}_op_StreamMap_11f49afc24b1cce91c7169b1e5140284__1_1__uuid_[0-9a-f-]{{36}}"
    )
    assert all(re.fullmatch(pattern, name) for name in names)
