"""Bytes that incremental checkpoints upload, against the size of the state and what has changed.

One slot's state, without Spark: between two checkpoints a share of all keys, chosen at random, is
written anew. RocksDB's compaction rewrites files, and what it rewrites is uploaded again, so the
number that counts is the mean over many checkpoints: ``ratio`` of uploaded bytes to changed bytes.

Prints one JSON line last: ``ratio_to_churn`` of the greatest state at 7 %, and ``cases`` with
every size and share: bytes a checkpoint (mean, greatest), the ratio, stored bytes to live bytes
(``space``), milliseconds of the sync phase and
microseconds of processor time of reading a random key.

``make bench NAME=checkpoint_bytes``; ``--option KEY=VALUE`` tries RocksDB options by Flink's keys.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from slot_state import SlotState, SlotUploads

from headrace.checkpoint.storage import open_store
from headrace.checkpoint.transfer import TransferPool

MIB = 1 << 20
READS = 5000


def measure(
    args: argparse.Namespace, state_mib: int, churn: float, directory: Path
) -> dict[str, float]:
    """Return what one size of state at one share of changed keys costs."""
    options = dict(option.split("=", 1) for option in args.option)
    state = SlotState(
        directory,
        managed_bytes=args.managed_mib * MIB,
        value_bytes=args.value_bytes,
        options=options,
    )
    pool = TransferPool()
    uploads = SlotUploads(open_store((directory / "store").as_uri(), {}), pool)
    keys = state_mib * MIB // state.row_bytes
    choice = random.Random(args.seed)
    state.put(range(keys), read=False)
    state.settle()
    uploads.complete(state.freeze(0))
    changed = max(1, round(keys * churn))
    uploaded: list[int] = []
    sync_ms: list[float] = []
    for number in range(1, args.settle + args.checkpoints + 1):
        state.put(choice.sample(range(keys), changed), read=False)
        started = time.perf_counter()
        frozen = state.freeze(number)
        elapsed_ms = (time.perf_counter() - started) * 1000
        done = uploads.complete(frozen)
        if number > args.settle:
            uploaded.append(done.uploaded_bytes)
            sync_ms.append(elapsed_ms)
        if args.verbose:
            say(f"  {number}: {done.uploaded_bytes / MIB:.1f} MiB in {done.uploaded_files} files")
        state.settle()
    started = time.thread_time()
    state.read(choice.sample(range(keys), READS))
    read_us = (time.thread_time() - started) / READS * 1e6
    state.backend.close()
    pool.close()
    return {
        "state_mib": state_mib,
        "churn_percent": round(churn * 100, 1),
        "churn_mib": round(changed * state.row_bytes / MIB, 2),
        "uploaded_mib": round(statistics.mean(uploaded) / MIB, 2),
        "uploaded_mib_max": round(max(uploaded) / MIB, 1),
        "ratio": round(statistics.mean(uploaded) / (changed * state.row_bytes), 2),
        "space": round(done.state_size_bytes / (keys * state.row_bytes), 2),
        "sync_ms": round(statistics.median(sync_ms), 1),
        "read_us": round(read_us, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state-mib", default="128,512")
    parser.add_argument("--churn", default="0.01,0.07,0.5")
    parser.add_argument("--checkpoints", type=int, default=20)
    parser.add_argument("--settle", type=int, default=20, help="checkpoints before those")
    parser.add_argument("--value-bytes", type=int, default=200)
    parser.add_argument("--managed-mib", type=int, default=512)
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    cases = []
    for state_mib in [int(text) for text in args.state_mib.split(",")]:
        for churn in [float(text) for text in args.churn.split(",")]:
            with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
                cases.append(measure(args, state_mib, churn, Path(name)))
            say(json.dumps(cases[-1]))
    bar = [case["ratio"] for case in cases if case["churn_percent"] == 7]
    print(
        json.dumps(
            {
                "bench": "checkpoint_bytes",
                "ratio_to_churn": bar[-1] if bar else None,
                "checkpoints": args.checkpoints,
                "value_bytes": args.value_bytes,
                "options": args.option,
                "cases": cases,
            }
        )
    )


def say(line: str) -> None:
    """Show progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
