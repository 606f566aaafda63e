"""Garbage collection in the Python workers that Spark runs tasks in.

Spark's daemon collects all garbage after every task, and the worker takes no other one before that
is done (``pyspark/daemon.py``). Every object that lives is looked at: with pyarrow and pandas
loaded that is 50 ms in each stage of each epoch. What stays for good is therefore frozen.
"""

from __future__ import annotations

import gc

_is_settled = False


def settle_worker(*, again: bool = False) -> None:
    """Freeze what this process has loaded, once.

    Args:
        again: something large was loaded or dropped since; its cycles are collected first.
    """
    global _is_settled  # noqa: PLW0603 - one fact of this process
    if _is_settled and not again:
        return
    _is_settled = True
    gc.unfreeze()
    gc.collect()
    gc.freeze()
