"""Every stored version is restored by this one: whole, in other numbers of slots, and by a job."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from headrace.checkpoint.download import SnapshotDownloader
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
from runtime_tests.golden.make import (
    CANONICAL,
    CHECKPOINTS,
    GOLDEN,
    PROGRAM,
    SAVEPOINT,
    STORED_LINES,
    location_of,
    read,
    write_canonical,
)
from runtime_tests.savepoints.counting import World, running_job

MAX_PARALLELISM = 128
VERSIONS = sorted(path.name for path in GOLDEN.glob("v*"))
STORED = [
    (version, path.name) for version in VERSIONS for path in sorted((GOLDEN / version).iterdir())
]
"""Every version with every form that it has: native of a backend, or canonical."""

STORED_KINDS = [
    (version, form, kind)
    for version, form in STORED
    for kind in (CHECKPOINTS, SAVEPOINT)
    if (GOLDEN / version / form / kind).exists()
]
BACKENDS = ("rocksdb", "hashmap")
JOBS = [("rocksdb", "rocksdb"), (CANONICAL, "hashmap")]
"""Form and restoring backend of the savepoints that whole jobs start from."""


def lines_of(version: str, form: str) -> list[str]:
    return (GOLDEN / version / form / STORED_LINES).read_text().splitlines()


def seen_by_slot(
    metadata: CheckpointMetadata, backend: str, slot: int, parallelism: int, directory: Path
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
    state = backend_factory(backend).open(config, sources)
    function = EveryKind()
    function.open(
        SlotRuntimeContext(
            operator=SimpleNamespace(name="every kind", uid="every kind"),  # type: ignore[arg-type]
            slot=SlotIndex(slot),
            parallelism=parallelism,
            max_parallelism=MAX_PARALLELISM,
            job_id=JobId("0" * 32),
            job_name="golden",
            backend=state,
        )
    )
    timers, _ = state.timers("_event_timers"), state.timers("_processing_timers")
    state.finish_registration()
    found = []
    for timer in timers.due(2**63 - 1):
        context = state.context
        context.key, context.key_group = timer.key, timer.key_group
        context.cache_key = keys.cache_key(timer.key)
        current = SimpleNamespace(get_current_key=lambda key=timer.key: key)
        found.append(function.seen("end", current))
    state.close()
    return found


def described_ends(lines: list[str]) -> list[str]:
    """Return what the program says of every key at the end of time, sorted."""
    numbers: dict[str, list[int]] = {}
    for line in lines:
        key, number = line.split()
        numbers.setdefault(key, []).append(int(number))
    return sorted(described(key, "end", held) for key, held in numbers.items())


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("version", "form", "kind"), STORED_KINDS)
def test_stored_state_is_restored_by_both_backends_in_any_number_of_slots(
    tmp_path: Path, version: str, form: str, kind: str, backend: str, parallelism: int
) -> None:
    """Values, lists, maps, sums, means and timers of every key, each in the slot that owns it."""
    metadata = read(location_of(version, form, kind))
    found = [
        line
        for slot in range(parallelism)
        for line in seen_by_slot(metadata, backend, slot, parallelism, tmp_path)
    ]
    assert described_ends(lines_of(version, form)) == sorted(found)


@pytest.mark.parametrize(("version", "form", "kind"), STORED_KINDS)
def test_stored_state_of_every_version_can_be_archived_in_canonical_format(
    tmp_path: Path, version: str, form: str, kind: str
) -> None:
    write_canonical(read(location_of(version, form, kind)), tmp_path / "archive")
    metadata = read(tmp_path / "archive")
    assert {"canonical"} == {keyed.backend for slot in metadata.slots for keyed in slot.keyed}
    found = seen_by_slot(metadata, "hashmap", 0, 1, tmp_path)
    assert described_ends(lines_of(version, form)) == sorted(found)


def test_every_version_has_golden_files_of_every_form() -> None:
    expected = [(version, form) for version in VERSIONS for form in (CANONICAL, *BACKENDS)]
    assert sorted(expected) == sorted(STORED)
    assert 5 * len(VERSIONS) == len(STORED_KINDS)


@pytest.mark.parametrize(("version", "form"), STORED)
def test_a_stored_savepoint_refers_to_its_own_files_alone(version: str, form: str) -> None:
    location = location_of(version, form, SAVEPOINT)
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
@pytest.mark.parametrize(("form", "backend"), JOBS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_goes_on_from_a_stored_savepoint(
    tmp_path: Path, version: str, form: str, backend: str
) -> None:
    before = lines_of(version, form)
    world = World(tmp_path / "world")
    shutil.copytree(location_of(version, form, SAVEPOINT), tmp_path / "savepoint")
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
