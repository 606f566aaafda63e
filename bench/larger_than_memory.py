"""State that is many times larger than a slot's memory: does it stay in its limit, and how fast.

One slot's state, without Spark, in a process of its own inside a control group of ``--limit-mib``
(page cache counts, as in a pod). It is filled to ``--state-mib``, then read and written a record
at a time, with two choices of keys:

- ``skewed``: ``--hot-share`` of the records go to ``--hot-keys`` of the keys, the rest anywhere;
- ``uniform``: every key is as likely as every other, so nearly every read goes to the disk.

Prints one JSON line last: ``events_per_s`` (skewed), ``uniform_events_per_s``,
``fill_events_per_s``, ``anonymous_mib_max`` (memory that cannot be reclaimed, sampled ten times a
second), ``within_limit``.

``make bench NAME=larger_than_memory`` needs 15 GB of disk; ``ARGS="--state-mib 512 --limit-mib 192
--managed-mib 64"`` is a short run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from memory_limit import MemoryGroup, memory_group, resident_bytes
from slot_state import EPOCH_RECORDS, SlotState

MIB = 1 << 20


def skewed(args: argparse.Namespace, keys: int, choice: random.Random) -> list[int]:
    """Return the keys of one epoch, most of them from the hot ones (spread over all key groups)."""
    hot = max(1, int(keys * args.hot_keys))
    return [
        int(choice.random() * (hot if choice.random() < args.hot_share else keys))
        for _ in range(EPOCH_RECORDS)
    ]


def uniform(args: argparse.Namespace, keys: int, choice: random.Random) -> list[int]:
    """Return the keys of one epoch, all alike."""
    return [int(choice.random() * keys) for _ in range(EPOCH_RECORDS)]


def run_slot(
    args: argparse.Namespace, group: MemoryGroup | None, directory: Path, told: Connection
) -> None:
    """The slot process: fill, then work; tells rates."""
    if group is not None:
        group.enter()
    options = dict(option.split("=", 1) for option in args.option)
    state = SlotState(
        directory,
        managed_bytes=args.managed_mib * MIB,
        value_bytes=args.value_bytes,
        options=options,
    )
    keys = args.state_mib * MIB // state.row_bytes
    started = time.perf_counter()
    state.put(range(keys))
    state.backend.flush()
    told.send(("fill", keys / (time.perf_counter() - started)))
    state.settle()
    choice = random.Random(args.seed)
    for name, choose in (("skewed", skewed), ("uniform", uniform)):
        for phase, seconds in ((f"{name}_warmup", args.warmup_s), (name, args.seconds)):
            told.send((phase, work(args, state, choose, choice, keys, seconds)))
    size = sum(file.size_bytes for file in state.freeze(1).files)
    told.send(("state_bytes", size))
    state.backend.close()


def work(args, state, choose, choice, keys, seconds) -> float:
    """Read and write for a while; returns events a second, choosing keys not counted."""
    spent, done = 0.0, 0
    while spent < seconds:
        chosen = choose(args, keys, choice)
        started = time.perf_counter()
        done += state.put(chosen)
        spent += time.perf_counter() - started
    return done / spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state-mib", type=int, default=4096)
    parser.add_argument("--limit-mib", type=int, default=512)
    parser.add_argument("--managed-mib", type=int, default=256)
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--hot-keys", type=float, default=0.01, help="share of the keys")
    parser.add_argument("--hot-share", type=float, default=0.95, help="share of the records")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--warmup-s", type=float, default=15)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    results: dict[str, float] = {}
    peak = 0
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory,
        memory_group(args.limit_mib * MIB) as group,
    ):
        heard, told = multiprocessing.Pipe(duplex=False)
        slot = multiprocessing.get_context("fork").Process(
            target=run_slot, args=(args, group, Path(directory), told)
        )
        slot.start()
        told.close()
        while slot.is_alive() or heard.poll():
            with contextlib.suppress(OSError):  # it may end at any moment
                peak = max(peak, resident_bytes(slot.pid or "self"))
            try:
                if heard.poll(0.1):
                    name, number = heard.recv()
                    results[name] = round(number)
                    say(f"{name}: {number:,.0f} (anonymous memory {peak / MIB:.0f} MiB)")
            except EOFError:
                break
        slot.join()
        killed = group.killed() if group else 0
        full = group.times_full() if group else None
    if slot.exitcode:
        raise SystemExit(f"the slot ended with {slot.exitcode}, killed for memory: {killed}")
    print(
        json.dumps(
            {
                "bench": "larger_than_memory",
                "events_per_s": results["skewed"],
                "uniform_events_per_s": results["uniform"],
                "fill_events_per_s": results["fill"],
                "state_bytes": results["state_bytes"],
                "limit_mib": args.limit_mib,
                "managed_mib": args.managed_mib,
                "anonymous_mib_max": round(peak / MIB),
                "within_limit": peak <= args.limit_mib * MIB and not killed,
                "limited_by": "cgroup" if group else "nothing, memory was measured only",
                "limit_reached": full,
                "hot_keys": args.hot_keys,
                "hot_share": args.hot_share,
                "value_bytes": args.value_bytes,
                "load": [round(load, 1) for load in os.getloadavg()],
            }
        )
    )


def say(line: str) -> None:
    """Show progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
