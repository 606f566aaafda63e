"""Restore of one slot's state from a file system and over the S3 protocol, against replaying.

One slot's state, without Spark. It is built by writing ``--history`` records for every key; that is
the replay that a restore saves, and a kind one: no source, no exchange, no user's code. Then it is
uploaded and restored: files are fetched (every byte checked), the database is opened, every key
group is read once. What storage has in the page cache is dropped before.

Prints one JSON line last: for ``file`` and ``s3`` seconds (``download_s``, ``open_s``, ``total_s``)
and ``mb_s`` over the total; ``replay_s``, and ``ratio_file``, ``ratio_s3``: replay to restore.

``make bench NAME=restore`` restores 2 GiB, ``ARGS=--full`` 5 GiB, ``ARGS="--mib 256"`` less.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from s3_server import BUCKET, s3_server
from slot_state import SlotState, SlotUploads

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.storage import ObjectStore, open_store
from headrace.checkpoint.transfer import TransferPool
from headrace.state.contract import LocalSnapshot

MIB = 1 << 20


class Bench:
    """One run."""

    def __init__(self, args: argparse.Namespace, directory: Path) -> None:
        self.args = args
        self.directory = directory
        self.pool = TransferPool(args.transfer_threads)

    def open(self, name: str, sources=()) -> SlotState:
        """Open a slot's state in a directory of its own."""
        directory = self.directory / name
        directory.mkdir()
        return SlotState(
            directory,
            managed_bytes=self.args.managed_mib * MIB,
            value_bytes=self.args.value_bytes,
            sources=sources,
        )

    def build(self) -> tuple[SlotState, LocalSnapshot, float]:
        """Write the history; returns the state, a frozen copy, and the seconds it took."""
        state = self.open("built")
        keys = self.args.mib * MIB // state.row_bytes
        started = time.perf_counter()
        for _ in range(self.args.history):
            state.put(range(keys))
        state.backend.flush()
        replay_s = time.perf_counter() - started
        state.settle()
        return state, state.freeze(1), replay_s

    def restore(self, name: str, store: ObjectStore, stored: Path, frozen: LocalSnapshot):
        """Upload, forget, restore; returns what it took."""
        uploads = SlotUploads(store, self.pool)
        started = time.perf_counter()
        size = uploads.complete(frozen).state_size_bytes
        upload_s = time.perf_counter() - started
        drop_page_cache(stored)
        handle = uploads.handle
        assert handle is not None
        downloader = SnapshotDownloader(
            store, self.pool, open_elsewhere=lambda uri: open_store(uri, {})
        )
        started = time.perf_counter()
        source = downloader.download_keyed(handle, self.directory / f"{name}-downloads")
        downloaded_s = time.perf_counter() - started
        restored = self.open(f"{name}-restored", (source,))
        restored.read(range(1000))
        total_s = time.perf_counter() - started
        restored.backend.close()
        store.delete([file.path for file in handle.files])
        for used in (source.directory, restored.directory):
            shutil.rmtree(used)
        say(f"{name}: {size / MIB:.0f} MiB in {total_s:.1f} s")
        return {
            "upload_s": round(upload_s, 2),
            "download_s": round(downloaded_s, 2),
            "open_s": round(total_s - downloaded_s, 2),
            "total_s": round(total_s, 2),
            "mb_s": round(size / 1e6 / total_s),
        }


def drop_page_cache(directory: Path) -> None:
    """Write a directory's files out and let go of the memory that holds them."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--full", action="store_true", help="5 GiB")
    parser.add_argument("--value-bytes", type=int, default=1000)
    parser.add_argument("--history", type=int, default=3, help="records of every key")
    parser.add_argument("--managed-mib", type=int, default=512)
    parser.add_argument("--transfer-threads", type=int, default=4)
    parser.add_argument("--stores", default="file,s3")
    args = parser.parse_args()
    args.mib = 5120 if args.full else args.mib
    results: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-bench-")))
        bench = Bench(args, directory)
        say(f"writing {args.history} records for every key of {args.mib} MiB")
        built, frozen, replay_s = bench.build()
        records = args.history * (args.mib * MIB // built.row_bytes)
        say(f"replay: {replay_s:.1f} s for {records:,} records")
        if "file" in args.stores:
            stored = directory / "file"
            store = open_store(stored.as_uri(), {})
            results["file"] = bench.restore("file", store, stored, frozen)
        if "s3" in args.stores:
            stored = directory / "minio"
            stored.mkdir()
            options = stack.enter_context(s3_server(stored))
            store = open_store(f"s3://{BUCKET}/job", options)
            results["s3"] = bench.restore("s3", store, stored, frozen)
        built.backend.close()
        bench.pool.close()
        size = sum(file.size_bytes for file in frozen.files)
    print(
        json.dumps(
            {
                "bench": "restore",
                "state_bytes": size,
                **results,
                "replay_s": round(replay_s, 1),
                "replay_records": records,
                **{f"ratio_{n}": round(replay_s / r["total_s"], 1) for n, r in results.items()},
                "transfer_threads": args.transfer_threads,
                "load": [round(load, 1) for load in os.getloadavg()],
            }
        )
    )


def say(line: str) -> None:
    """Show progress."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
