"""Processes are told apart by start time, not by number."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_devcluster.processes import (
    ProcessId,
    is_defunct,
    is_running,
    kill_process,
    observe_process,
    parse_proportional_bytes,
    parse_start_ticks,
)

STAT = "42 (a) b) c) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 1 2 3"


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def identity_of(process: subprocess.Popen[bytes]) -> ProcessId:
    found = observe_process(process.pid)
    assert found is not None
    return found


def test_the_start_time_is_read_behind_a_name_that_holds_parentheses_and_spaces() -> None:
    assert parse_start_ticks(STAT) == 98765


def test_a_zombie_counts_as_gone() -> None:
    assert not is_defunct(STAT)
    assert is_defunct(STAT.replace(") S ", ") Z "))


def test_a_running_process_is_found_again_by_its_identity(
    sleeper: subprocess.Popen[bytes],
) -> None:
    assert is_running(identity_of(sleeper))


def test_killing_ends_exactly_the_process_that_was_observed(
    sleeper: subprocess.Popen[bytes],
) -> None:
    identity = identity_of(sleeper)
    kill_process(identity)
    assert sleeper.wait(5) == -9
    assert not is_running(identity)
    kill_process(identity)


@pytest.mark.parametrize(
    ("ticks_later", "boot"), [(1, ""), (0, "another boot")], ids=["started later", "another boot"]
)
def test_a_process_that_only_has_the_same_number_is_never_killed(
    sleeper: subprocess.Popen[bytes], ticks_later: int, boot: str
) -> None:
    known = identity_of(sleeper)
    stranger = ProcessId(known.pid, known.start_ticks - ticks_later, boot or known.boot_id)
    assert not is_running(stranger)
    kill_process(stranger)
    assert sleeper.poll() is None


def test_there_is_no_process_without_an_entry_in_proc(tmp_path: Path) -> None:
    assert observe_process(42, tmp_path) is None


def test_proportional_memory_is_read_in_bytes() -> None:
    rollup = (
        "55d0-7ffd ---p 00000000 00:00 0 [rollup]\nRss:   200 kB\nPss:   150 kB\nPss_Anon: 10 kB\n"
    )
    assert parse_proportional_bytes(rollup) == 150 * 1024
    assert parse_proportional_bytes("") == 0
