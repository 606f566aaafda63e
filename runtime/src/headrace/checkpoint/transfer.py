"""Bounded parallelism for uploads and downloads: all succeed, or the first failure is raised.

Used in slot processes, off the record thread. After a failure no new transfer starts, and the call
returns only when those in flight have ended, so the caller may clean up behind them.
"""

from __future__ import annotations

import concurrent.futures
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

TRANSFER_THREADS_DEFAULT: Final = 4
"""Flink's ``state.backend.rocksdb.checkpoint.transfer.thread.num``."""


class TransferPool:
    """A few threads that move files; share one in a process, `close` it at the end."""

    def __init__(self, threads: int = TRANSFER_THREADS_DEFAULT) -> None:
        """Create a pool of at most ``threads`` (>= 1) concurrent transfers."""
        self._threads = threads
        self._pool = _new_pool(threads)

    def resize(self, threads: int) -> None:
        """Let at most ``threads`` (>= 1) transfers run at once from now on.

        A slot process has its pool before it has the options of its job. Transfers in flight go on
        as they are; the threads behind them end when the last one has.
        """
        if threads != self._threads:
            self._pool, self._threads = _new_pool(threads), threads

    def run(self, transfers: Sequence[Callable[[], T]]) -> list[T]:
        """Run all transfers and return their results in order; raises the first failure."""
        pool = self._pool
        futures = [pool.submit(transfer) for transfer in transfers]
        try:
            done, _ = concurrent.futures.wait(
                futures, return_when=concurrent.futures.FIRST_EXCEPTION
            )
        finally:
            for future in futures:
                future.cancel()
            concurrent.futures.wait(futures)
        failures = [f.exception() for f in futures if not f.cancelled() and f.exception()]
        for failure in failures:
            if failure is not None:
                raise failure
        return [future.result() for future in futures if future in done]

    def close(self) -> None:
        """End the threads; transfers in flight are waited for."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def _new_pool(threads: int) -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="transfer")
