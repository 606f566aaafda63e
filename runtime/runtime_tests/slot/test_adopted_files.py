"""Which stored files count as sent already: only those that the backend works on itself (T5)."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from headrace.checkpoint.protocol.types import KeyedStateHandle
from headrace.slot.keyed_state import _adopted
from runtime_tests.checkpoint.builders import file_handle, keyed_handle

OWN = keyed_handle(files=[file_handle("shared/g1-c4-u-000012.sst")])
CONFIG = SimpleNamespace(key_group_range=OWN.key_group_range)


def adopted(handles: list[KeyedStateHandle]) -> KeyedStateHandle | None:
    return _adopted(handles, CONFIG, "rocksdb")  # type: ignore[arg-type]


def test_files_that_are_taken_over_as_they_are_need_not_be_sent_again() -> None:
    assert OWN == adopted([OWN])


@pytest.mark.parametrize("backend", ["hashmap", "canonical"])
def test_files_of_another_backend_whose_rows_were_copied_are_sent_anew(backend: str) -> None:
    assert adopted([msgspec.structs.replace(OWN, backend=backend)]) is None


def test_files_of_another_job_or_a_savepoint_are_sent_anew() -> None:
    elsewhere = file_handle("s3://bucket/savepoint-1/data-1/g1-c4-u-000012.sst")
    assert adopted([msgspec.structs.replace(OWN, files=[elsewhere])]) is None


def test_files_that_were_cut_or_merged_are_sent_anew() -> None:
    assert adopted([keyed_handle(0, 2), keyed_handle(1, 2)]) is None
    assert adopted([keyed_handle(0, 2)]) is None
