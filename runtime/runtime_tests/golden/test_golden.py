"""Every stored version is restored by this one: whole, in other numbers of slots, and by a job."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.checkpoint.download import SnapshotDownloader
from headrace.checkpoint.explicit import read_checkpoint_at
from headrace.checkpoint.protocol.types import CheckpointMetadata
from headrace.checkpoint.restore import RestoreTarget, assign_restore
from headrace.checkpoint.storage import open_store
from headrace.checkpoint.transfer import TransferPool
from headrace.common import Types
from headrace.ids import JobId, OperatorUid, SlotIndex
from headrace.keygroups import key_group_range_of_slot
from headrace.slot.job import WATERMARK_UID
from headrace.slot.runtime_context import SlotRuntimeContext
from headrace.state.contract import BackendConfig
from headrace.state.factory import backend_factory
from runtime_tests.golden.golden_program import PROGRAM_UIDS, EveryKind, described, expected
from runtime_tests.golden.make import CHECKPOINTS, GOLDEN, PROGRAM, SAVEPOINT, STORED_LINES
from runtime_tests.savepoints.counting import World, running_job

MAX_PARALLELISM = 128
VERSIONS = sorted(path.name for path in GOLDEN.glob("v*"))
STORED = [
    (version, path.name) for version in VERSIONS for path in sorted((GOLDEN / version).iterdir())
]
"""Every version with every backend that it has."""


def lines_of(version: str, backend: str) -> list[str]:
    return (GOLDEN / version / backend / STORED_LINES).read_text().splitlines()


def location_of(version: str, backend: str, kind: str) -> Path:
    directory = GOLDEN / version / backend
    if kind == SAVEPOINT:
        return directory / SAVEPOINT
    return max((directory / CHECKPOINTS).glob("chk-*"), key=lambda path: int(path.name[4:]))


def read(location: Path) -> CheckpointMetadata:
    return read_checkpoint_at(location.as_uri(), lambda uri: open_store(uri, {}))


def seen_by_slot(
    metadata: CheckpointMetadata, slot: int, parallelism: int, directory: Path
) -> list[str]:
    """Restore one slot's keyed state; returns what the program would say of each of its keys."""
    target = RestoreTarget(parallelism, MAX_PARALLELISM, {*PROGRAM_UIDS, WATERMARK_UID})
    assigned = assign_restore(metadata, target).slots[slot]
    pool = TransferPool(2)
    store = open_store(directory.as_uri(), {})
    downloader = SnapshotDownloader(store, pool, open_elsewhere=lambda uri: open_store(uri, {}))
    sources = [
        downloader.download_keyed(handle, directory / f"download-{slot}-{index}")
        for index, handle in enumerate(assigned.keyed)
    ]
    pool.close()
    keys = Types.STRING().key_serializer()
    config = BackendConfig(
        directory=directory / f"state-{slot}",
        operator_uid=OperatorUid("every kind"),
        key_serializer=keys,
        key_group_range=key_group_range_of_slot(SlotIndex(slot), parallelism, MAX_PARALLELISM),
        managed_memory_bytes=64 << 20,
    )
    backend = backend_factory(assigned.keyed[0].backend).open(config, sources)
    function = EveryKind()
    function.open(
        SlotRuntimeContext(
            operator=SimpleNamespace(name="every kind", uid="every kind"),  # type: ignore[arg-type]
            slot=SlotIndex(slot),
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            job_id=JobId("0" * 32),
            job_name="golden",
            backend=backend,
        )
    )
    timers, _ = backend.timers("_event_timers"), backend.timers("_processing_timers")
    backend.finish_registration()
    found = []
    for timer in timers.due(2**63 - 1):
        context = backend.context
        context.key, context.key_group = timer.key, timer.key_group
        context.cache_key = keys.cache_key(timer.key)
        current = SimpleNamespace(get_current_key=lambda key=timer.key: key)
        found.append(function.seen("end", current))
    backend.close()
    return found


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("kind", [CHECKPOINTS, SAVEPOINT])
@pytest.mark.parametrize(("version", "backend"), STORED)
def test_stored_state_is_restored_in_any_number_of_slots(
    tmp_path: Path, version: str, backend: str, kind: str, parallelism: int
) -> None:
    """Values, lists, maps, sums, means and timers of every key, each in the slot that owns it."""
    metadata = read(location_of(version, backend, kind))
    found = [
        line
        for slot in range(parallelism)
        for line in seen_by_slot(metadata, slot, parallelism, tmp_path)
    ]
    numbers: dict[str, list[int]] = {}
    for line in lines_of(version, backend):
        key, number = line.split()
        numbers.setdefault(key, []).append(int(number))
    assert sorted(described(key, "end", held) for key, held in numbers.items()) == sorted(found)


@pytest.mark.parametrize(("version", "backend"), STORED)
def test_a_stored_savepoint_refers_to_its_own_files_alone(version: str, backend: str) -> None:
    location = location_of(version, backend, SAVEPOINT)
    metadata = read(location)
    assert metadata.kind == "savepoint"
    held = {path.relative_to(location).as_posix() for path in location.rglob("*") if path.is_file()}
    root = f"{location.as_uri()}/"
    referred = {
        file.path.removeprefix(root)
        for slot in metadata.slots
        for keyed in slot.keyed
        for file in keyed.files
    }
    assert held == referred | {"_metadata"}


@pytest.mark.integration
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("version", "backend"), STORED)
def test_a_job_goes_on_from_a_stored_savepoint(tmp_path: Path, version: str, backend: str) -> None:
    before = lines_of(version, backend)
    world = World(tmp_path / "world")
    shutil.copytree(location_of(version, backend, SAVEPOINT), tmp_path / "savepoint")
    lines = [f"key-{n % 15} {n}" for n in range(1000, 1060)]
    world.write(lines)
    with running_job(
        world,
        "job",
        tmp_path / "output",
        program=PROGRAM,
        parallelism=3,
        restore=(tmp_path / "savepoint").as_uri(),
        options={"state.backend.type": backend},
    ) as job:
        job.wait_for_output(Counter(expected(lines, before)))
