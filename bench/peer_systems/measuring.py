"""How a peer's program is measured: counters that its workers keep, a warm-up, a window.

Python workers of another system are processes that it starts, with no way back to the benchmark;
each writes how many records it has counted into a file of its own, eight bytes that are mapped
into its memory. The window is announced on standard error ("measuring", "measured"), so that
whoever started the program can note what processor time it took.

Imported by programs that run in other systems' environments: standard library alone.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

NUMBER = struct.Struct("<Q")


class WorkerCounter:
    """The number of records that one object in one process has seen."""

    def __init__(self, directory: str) -> None:
        path = Path(directory) / f"{os.getpid()}-{id(self)}"
        path.write_bytes(bytes(NUMBER.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), NUMBER.size)

    def publish(self, records: int) -> None:
        """Let the number be seen."""
        NUMBER.pack_into(self._memory, 0, records)


def count_all(directory: str) -> int:
    """Return the records that all workers have seen so far."""
    return sum(NUMBER.unpack(path.read_bytes())[0] for path in Path(directory).iterdir())


def measure_rate(
    read: Callable[[], int], warmup_s: float, seconds: float, running: Callable[[], bool]
) -> tuple[float, float]:
    """Wait for the first record, warm up, then return events a second and the seconds it took."""
    while read() == 0:
        if not running():
            raise SystemExit("the job ended before its first record")
        time.sleep(0.1)
    time.sleep(warmup_s)
    announce("measuring")
    started, before = time.perf_counter(), read()
    time.sleep(seconds)
    elapsed, after = time.perf_counter() - started, read()
    announce("measured")
    return (after - before) / elapsed, elapsed


def announce(what: str) -> None:
    """Tell whoever started this program."""
    print(what, file=sys.stderr, flush=True)


def report(events_per_s: float, seconds: float, **more: object) -> None:
    """Print the result as the last line."""
    line = {"events_per_s": round(events_per_s), "seconds": round(seconds, 1), **more}
    print(json.dumps(line), flush=True)
