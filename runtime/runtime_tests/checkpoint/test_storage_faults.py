"""Storage that refuses, loses replies, is slow and cuts reads off never yields a wrong restore."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.inventory import Inventory
from headrace.checkpoint.protocol.types import encode_metadata
from headrace.checkpoint.transfer import TransferPool
from headrace.errors import CorruptStateError
from headrace.ids import CheckpointId
from headrace.testing.object_store import Fault, Faults, MemoryStore, Operation
from runtime_tests.checkpoint.builders import checkpoint, file_handle
from runtime_tests.checkpoint.faulty_job import FaultyJob


def come_through(seed: int, disk: Path) -> FaultyJob:
    """Run a job over faulty storage, then over storage that is well again."""
    job = FaultyJob(seed, disk)
    try:
        job.run(60)
        job.faults = Faults()
        job.run(70)
        job.check_savepoints()
    except BaseException as error:
        error.add_note(f"seed={seed}")
        raise
    return job


@pytest.mark.property
def test_every_restore_is_what_was_checkpointed(tmp_path: Path) -> None:
    jobs = [come_through(seed, tmp_path) for seed in range(20)]
    assert sum(job.restores for job in jobs) > 30
    assert sum(job.failed_over_by_checkpoints for job in jobs) > 0
    assert sum(len(job.savepoints) for job in jobs) > 30
    assert sum(job.failed_savepoints for job in jobs) > 10
    assert all(job.coordinator.history.counts.completed for job in jobs)


@pytest.mark.property
@pytest.mark.slow
def test_every_restore_is_what_was_checkpointed_in_many_more_runs(tmp_path: Path) -> None:
    """2,000 runs have been made; how many more is for HEADRACE_FAULT_RUNS to say."""
    for seed in range(1000, 1000 + int(os.environ.get("HEADRACE_FAULT_RUNS", "100"))):
        come_through(seed, tmp_path)


class CutFirst(Faults):
    """The first ``times`` reads of every object are cut off."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.reads: dict[str, int] = {}

    def choose(self, operation: Operation, path: str) -> Fault:
        if operation is not Operation.GET:
            return Fault.NONE
        self.reads[path] = self.reads.get(path, 0) + 1
        return Fault.TRUNCATED if self.reads[path] <= self.times else Fault.NONE


@pytest.mark.parametrize(("times", "comes_through"), [(2, True), (3, False)])
def test_a_file_that_is_cut_off_on_its_way_is_fetched_again(
    tmp_path: Path, pool: TransferPool, times: int, comes_through: bool
) -> None:
    store = MemoryStore()
    handle = file_handle("shared/g1-c1-u-A.sst", b"content", "A.sst")
    store.put(handle.path, b"content")
    store.faults = CutFirst(times)
    downloader = SnapshotDownloader(store, pool, open_elsewhere=store.bucket.open)
    if comes_through:
        assert b"content" == downloader.download_files([handle], tmp_path / "a")[0].read_bytes()
        return
    with pytest.raises(CorruptStateError, match="reads=3"):
        downloader.download_files([handle], tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(("times", "comes_through"), [(2, True), (3, False)])
def test_metadata_that_is_cut_off_on_its_way_is_read_again(times: int, comes_through: bool) -> None:
    store = MemoryStore()
    store.put("chk-1/_metadata", encode_metadata(checkpoint(1)))
    store.faults = CutFirst(times)
    if comes_through:
        assert checkpoint(1) == Inventory(store).metadata(CheckpointId(1))
        return
    with pytest.raises(CorruptStateError, match="cannot be decoded"):
        Inventory(store).metadata(CheckpointId(1))
