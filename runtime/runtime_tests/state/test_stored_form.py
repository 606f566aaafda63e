"""What is stored of every kind of state is fixed: rows, schemas and whole snapshots (C5, C6, E6).

``golden/every_kind.json`` holds the rows, ``golden/<backend>-1.tar.gz`` a snapshot of a backend as
release 1 of the format wrote it. Later releases add files and never change these; to write the
first ones: ``python -m runtime_tests.state.test_stored_form`` in ``runtime``.
"""

import json
import tarfile
from pathlib import Path

import pytest

from headrace.state.contract import RestoreSource
from headrace.state.schemas import StateSchema

from .bench_of_state import StateBench
from .every_kind import EveryKind, stored_form

GOLDEN = Path(__file__).parent / "golden"
ROWS = GOLDEN / "every_kind.json"


def test_rows_and_schemas_never_change(make_bench) -> None:
    bench = make_bench()
    EveryKind(bench).fill()
    assert stored_form(bench) == json.loads(ROWS.read_text())


def test_the_program_reads_what_it_has_written(make_bench) -> None:
    bench = make_bench()
    states = EveryKind(bench)
    states.fill()
    states.check()
    restored = make_bench(sources=[bench.freeze()])
    EveryKind(restored)
    restored.backend.finish_registration()


def stored_source(directory: Path) -> RestoreSource:
    """The snapshot of this backend as the first release of the format wrote it."""
    form = json.loads(ROWS.read_text())
    return RestoreSource(
        directory,
        StateBench.open("hashmap", directory / "unused").config.key_group_range,
        form["key"],
        tuple(StateSchema(name, *rest) for name, rest in form["schemas"].items()),
    )


@pytest.mark.parametrize("release", [1])
def test_snapshots_of_every_release_are_restored(
    make_bench, backend_name: str, tmp_path: Path, release: int
) -> None:
    with tarfile.open(GOLDEN / f"{backend_name}-{release}.tar.gz") as archive:
        archive.extractall(tmp_path / "snapshot", filter="data")
    bench = make_bench(sources=[stored_source(tmp_path / "snapshot")])
    states = EveryKind(bench)
    bench.backend.finish_registration()
    assert stored_form(bench)["rows"] == json.loads(ROWS.read_text())["rows"]
    states.check()


def test_a_snapshot_of_one_backend_holds_the_rows_of_the_other(tmp_path: Path) -> None:
    """Same results to the byte."""
    forms = []
    for name in ("rocksdb", "hashmap"):
        bench = StateBench.open(name, tmp_path)
        EveryKind(bench).fill()
        restored = StateBench.open(name, tmp_path, sources=[bench.freeze()])
        EveryKind(restored)
        forms.append(stored_form(restored))
        restored.backend.close()
    assert forms[0] == forms[1]


def write_golden_files(scratch: Path) -> None:
    for name in ("rocksdb", "hashmap"):
        bench = StateBench.open(name, scratch)
        EveryKind(bench).fill()
        ROWS.write_text(json.dumps(stored_form(bench), indent=1) + "\n")
        source = bench.freeze()
        with tarfile.open(GOLDEN / f"{name}-1.tar.gz", "w:gz") as archive:
            for path in sorted(source.directory.iterdir()):
                archive.add(path, path.name)


if __name__ == "__main__":
    import tempfile

    write_golden_files(Path(tempfile.mkdtemp()))
