"""Start of a slot process: logging, its directory, and what ends it."""

from __future__ import annotations

import gc
import logging
import os
import select
import sys
import tempfile
import threading
from pathlib import Path

import msgspec

from headrace.slot.process import SlotProcess
from headrace.slot.startup import ENV_LOG_LEVEL, SlotArguments, slot_token


def _end_with(pid: int) -> None:
    """End this process, at once, when process ``pid`` ends (the executor's JVM)."""
    descriptor = os.pidfd_open(pid)
    select.select([descriptor], [], [])
    os._exit(0)


def tune_collector() -> None:
    """Make the cycle collector rare: records come and go by reference count.

    With Python's defaults a chunk of decoded rows triggers hundreds of young collections and now
    and then a full one over the whole state cache; measured, decoding is 1.6 to 2 times as fast.
    """
    gc.freeze()
    gc.set_threshold(200_000, 20, 50)


def main() -> None:
    """Run a slot process; the first argument is a `SlotArguments` as JSON."""
    logging.basicConfig(
        level=os.environ.get(ENV_LOG_LEVEL, "WARNING"),
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    arguments = msgspec.json.decode(sys.argv[1], type=SlotArguments)
    threading.Thread(target=_end_with, args=(arguments.executor_pid,), daemon=True).start()
    parent = arguments.local_dir or _executor_local_dir()
    Path(parent).mkdir(parents=True, exist_ok=True)
    work_dir = Path(tempfile.mkdtemp(prefix=f"headrace-slot-{arguments.slot}-", dir=parent))
    process = SlotProcess(arguments, slot_token(), work_dir)
    tune_collector()
    try:
        process.run()
    finally:
        process.close()
    # Threads of gRPC and of a commit in flight must not keep the process alive.
    logging.shutdown()
    os._exit(0)


def _executor_local_dir() -> str:
    """Return the first local directory that Spark gave the executor, else the system's."""
    given = os.environ.get("SPARK_LOCAL_DIRS", "")
    return given.split(",")[0] or tempfile.gettempdir()
