"""Checkpoint storage alone, without Spark or RocksDB: what moving files and the protocol cost.

Prints one JSON line last:

- ``upload_mb_s``, ``download_mb_s``: big files, hashed on the way, downloads verified
- ``upload_small_ms``, ``download_small_ms``: one file of 10 kB among 200
- ``check_ms``: start-up check of the storage
- ``publish_ms``, ``subsume_ms``: medians over 20 checkpoints of about 100 files, 3 retained
- ``claim_ms``: a new generation over those checkpoints

``python bench/checkpoint_storage.py [URI] [--option s3.endpoint=http://...]...``; without a URI a
temporary directory is used. What it writes it deletes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.protocol.types import (
    FORMAT_VERSION,
    CheckpointMetadata,
    KeyedStateHandle,
    SlotSnapshot,
)
from headrace.checkpoint.storage import ObjectStore, open_store
from headrace.checkpoint.store import ObjectCheckpointStore
from headrace.checkpoint.transfer import TransferPool
from headrace.checkpoint.upload import KeyedOwner, ReusableFiles, SnapshotUploader
from headrace.clock import SystemClock
from headrace.ids import (
    CheckpointId,
    Generation,
    KeyGroup,
    OperatorUid,
    SlotIndex,
    new_job_id,
)
from headrace.keygroups import KeyGroupRange
from headrace.state.contract import LocalSnapshot, SnapshotFile

OWNER = KeyedOwner(OperatorUid("bench"), SlotIndex(0), "rocksdb")
ALL_KEY_GROUPS = KeyGroupRange(KeyGroup(0), KeyGroup(127))
CHECKPOINTS = 20
RETAINED = 3


class Bench:
    """One run over one storage."""

    def __init__(self, open_root: Callable[[str], ObjectStore], uri: str, directory: Path) -> None:
        self.open_root = open_root
        self.job_id = new_job_id()
        self.store = open_root(f"{uri}/{self.job_id}")
        self.directory = directory
        self.pool = TransferPool()
        self.results: dict[str, float] = {}

    @contextmanager
    def timed_ms(self, samples: list[float]) -> Iterator[None]:
        started = time.perf_counter()
        yield
        samples.append((time.perf_counter() - started) * 1000)

    def snapshot(self, name: str, files: dict[str, bytes]) -> LocalSnapshot:
        directory = self.directory / name
        directory.mkdir()
        described = []
        for file, content in files.items():
            (directory / file).write_bytes(content)
            described.append(SnapshotFile(file, directory / file, len(content), shareable=True))
        return LocalSnapshot(directory, tuple(described), ALL_KEY_GROUPS, {}, ())

    def transfer(self, name: str, files: int, content: bytes) -> tuple[float, float]:
        """Return the milliseconds to send and to fetch so many files."""
        uploader = SnapshotUploader(self.store, self.pool, Generation(1))
        downloader = SnapshotDownloader(self.store, self.pool, open_elsewhere=self.open_root)
        frozen = self.snapshot(name, {f"{i:06}.sst": content for i in range(files)})
        up: list[float] = []
        down: list[float] = []
        with self.timed_ms(up):
            state = uploader.upload_keyed(frozen, OWNER, CheckpointId(1), ReusableFiles())
        with self.timed_ms(down):
            downloader.download_keyed(state.handle, self.directory / f"{name}-fetched")
        self.store.delete([file.path for file in state.handle.files])
        return up[0], down[0]

    def transfers(self) -> None:
        """Measure big and small files."""
        size_mb, files = 64 * 1.048576, 8
        up, down = self.transfer("big", files, os.urandom(64 << 20))
        self.results["upload_mb_s"] = size_mb * files / up * 1000
        self.results["download_mb_s"] = size_mb * files / down * 1000
        up, down = self.transfer("small", 200, bytes(10_000))
        self.results["upload_small_ms"] = up / 200
        self.results["download_small_ms"] = down / 200

    def coordinator(self) -> ObjectCheckpointStore:
        return ObjectCheckpointStore(
            self.store, self.job_id, SystemClock(), open_elsewhere=self.open_root
        )

    def protocol(self) -> None:
        """Measure the coordinator's side."""
        check: list[float] = []
        publish: list[float] = []
        subsume: list[float] = []
        claim: list[float] = []
        first = self.coordinator()
        with self.timed_ms(check):
            first.probe_writable()
        generation = first.claim_generation().generation
        uploader = SnapshotUploader(self.store, self.pool, generation)
        reusable = ReusableFiles()
        for n in map(CheckpointId, range(1, CHECKPOINTS + 1)):
            files = {**{f"{i:06}.sst": bytes(1000) for i in range(100)}, f"new-{n}.sst": b"x"}
            frozen = self.snapshot(f"chk-{n}", files)
            state = uploader.upload_keyed(frozen, OWNER, n, reusable)
            with self.timed_ms(publish):
                first.publish(self.metadata(n, generation, state.handle))
            reusable.completed(n)
            with self.timed_ms(subsume):
                first.subsume(RETAINED)
        second = self.coordinator()
        with self.timed_ms(claim):
            second.claim_generation()
        second.discard_all()
        self.store.delete([info.path for info in self.store.list()])
        for name, samples in {
            "check_ms": check,
            "publish_ms": publish,
            "subsume_ms": subsume,
            "claim_ms": claim,
        }.items():
            self.results[name] = statistics.median(samples)

    def metadata(
        self, n: CheckpointId, generation: Generation, handle: KeyedStateHandle
    ) -> CheckpointMetadata:
        return CheckpointMetadata(
            format_version=FORMAT_VERSION,
            kind="checkpoint",
            job_id=self.job_id,
            checkpoint_id=n,
            generation=generation,
            parent=None,
            created_ms=0,
            parallelism=1,
            max_parallelism=128,
            source=None,
            watermark_ms=None,
            operators=[],
            slots=[SlotSnapshot(SlotIndex(0), [handle], [], [], 0, 0, 0, 0)],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("uri", nargs="?")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    options = dict(option.split("=", 1) for option in arguments.option)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        uri = arguments.uri or (directory / "checkpoints").as_uri()
        bench = Bench(lambda root: open_store(root, options), uri.rstrip("/"), directory)
        bench.transfers()
        bench.protocol()
        bench.pool.close()
    rounded = {key: float(f"{value:.3g}") for key, value in bench.results.items()}
    print(json.dumps({"uri": arguments.uri or "file", **rounded}))


if __name__ == "__main__":
    main()
