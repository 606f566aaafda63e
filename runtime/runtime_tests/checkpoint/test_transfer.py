"""Files move side by side, and a failure leaves nothing moving."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator

import pytest

from headrace.checkpoint.transfer import TransferPool
from headrace.errors import StorageUnavailableError


@pytest.fixture
def pool() -> Iterator[TransferPool]:
    pool = TransferPool(2)
    yield pool
    pool.close()


def side_by_side(pool: TransferPool, threads: int) -> bool:
    """Return whether ``threads`` transfers run at once: each waits for all the others."""
    barrier = threading.Barrier(threads, timeout=0.5)
    try:
        pool.run([barrier.wait] * threads)
    except threading.BrokenBarrierError:
        return False
    return True


def test_as_many_files_move_at_once_as_there_are_threads(pool: TransferPool) -> None:
    assert side_by_side(pool, 2)
    assert not side_by_side(pool, 3)


def test_the_number_of_threads_follows_the_option_of_the_job(pool: TransferPool) -> None:
    pool.resize(4)
    assert side_by_side(pool, 4)
    pool.resize(1)
    assert not side_by_side(pool, 2)


def test_results_keep_the_order_of_the_transfers(pool: TransferPool) -> None:
    first_may_end = threading.Event()

    def first() -> int:
        assert first_may_end.wait(5)
        return 1

    def second() -> int:
        first_may_end.set()
        return 2

    assert [1, 2] == pool.run([first, second])


def test_after_a_failure_nothing_is_begun_and_what_runs_is_waited_for(pool: TransferPool) -> None:
    begun, ended = [], []
    failed = threading.Event()

    def slow() -> None:
        failed.wait(5)
        ended.append("slow")

    def fail() -> None:
        failed.set()
        raise StorageUnavailableError("x")

    with pytest.raises(StorageUnavailableError):
        pool.run([slow, fail, *[functools.partial(begun.append, n) for n in range(100)]])
    assert ["slow"] == ended
    assert len(begun) < 100
