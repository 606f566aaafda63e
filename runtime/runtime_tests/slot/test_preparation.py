"""Prepared rows catch up in rounds; rows that cannot are given up and never used."""

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.checkpoint.protocol.types import FileHandle
from headrace.errors import CorruptStateError
from headrace.ids import CheckpointId
from headrace.slot.messages import CatchUp, HandOver
from headrace.slot.preparation import PreparedState
from headrace.state.factory import backend_factory
from runtime_tests.state.bench_of_state import StateBench, as_source

LIMIT = 1 << 20


class LocalFiles:
    """Downloads files that are here already."""

    def download_files(self, files, _directory):
        missing = [file.path for file in files if not Path(file.path).exists()]
        if missing:
            raise CorruptStateError(f"no such file; files={missing}")
        return [Path(file.path) for file in files]


class Rescaled:
    """One former owner of all key groups and rows that are prepared to follow it."""

    def __init__(self, backend: str, directory: Path) -> None:
        self.directory = directory
        self.factory = backend_factory(backend)
        self.owner = StateBench.open(backend, directory)
        self.owner.put({"a": 1, "b": 1})
        base = as_source(self.owner.snapshot())
        self.owner.backend.track_changes(LIMIT)
        self.config = replace(self.owner.config, directory=directory / "new")
        self.uid = self.config.operator_uid
        self.prepared = PreparedState(CheckpointId(1), directory, LocalFiles())
        self.prepared.operators[self.uid] = self.config, self.factory.prepare(self.config, [base])

    def round(self, checkpoint: int, changed: dict[str, int]) -> FileHandle:
        """Change state and take a checkpoint with its changes."""
        self.owner.put(changed)
        self.final = as_source(self.owner.snapshot())
        path = self.directory / f"changes-{checkpoint}"
        size = self.owner.backend.write_changes(path)
        self.owner.backend.track_changes(LIMIT)
        return FileHandle(path.name, str(path), size, "0" * 32)

    def catch_up(self, checkpoint: int, base: int, changes: dict[str, list[FileHandle]]) -> int:
        order = CatchUp(CheckpointId(checkpoint), HandOver(CheckpointId(base), changes))
        return self.prepared.catch_up(order)


@pytest.fixture(params=["hashmap", "rocksdb"])
def rescaled(request, tmp_path):
    made = Rescaled(request.param, tmp_path)
    yield made
    made.prepared.close()
    made.owner.backend.close()


def test_rows_follow_their_owner_over_rounds(rescaled):
    first = rescaled.round(2, {"a": 2, "c": 2})
    assert rescaled.catch_up(2, 1, {rescaled.uid: [first]}) == first.size_bytes
    second = rescaled.round(3, {"c": 3})
    assert rescaled.catch_up(3, 2, {rescaled.uid: [second]}) == second.size_bytes
    assert rescaled.prepared.base == 3
    last = rescaled.round(4, {"d": 4})
    config, storage = rescaled.prepared.operators.pop(rescaled.uid)
    backend = rescaled.factory.open_prepared(config, storage, [rescaled.final], [Path(last.path)])
    after = StateBench(backend, config, rescaled.directory, "after")
    assert after.read(["a", "b", "c", "d"]) == {"a": 2, "b": 1, "c": 3, "d": 4}
    backend.close()


@pytest.mark.parametrize("fault", ["owner lost track", "another base", "file is gone"])
def test_rows_that_cannot_follow_are_given_up(rescaled, fault):
    file = rescaled.round(2, {"a": 2})
    if fault == "file is gone":
        Path(file.path).unlink()
    changes = {} if fault == "owner lost track" else {rescaled.uid: [file]}
    assert rescaled.catch_up(2, 7 if fault == "another base" else 1, changes) == 0
    assert rescaled.prepared.operators == {}
