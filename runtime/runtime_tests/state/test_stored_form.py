"""What is stored of every kind of state is fixed: rows, schemas and whole snapshots (C5, C6, E6).

``golden/every_kind.json`` holds the rows, ``golden/<form>-1.tar.gz`` a snapshot of a backend, or
canonical files, as release 1 of the format wrote them. Later releases add files and never change
these; ``python -m runtime_tests.state.test_stored_form`` in ``runtime`` writes what is missing.
"""

import json
import tarfile
from pathlib import Path

import pytest

from headrace.state.contract import RestoreSource
from headrace.state.schemas import StateSchema

from .bench_of_state import StateBench, as_canonical
from .every_kind import EveryKind, stored_form

GOLDEN = Path(__file__).parent / "golden"
ROWS = GOLDEN / "every_kind.json"
FORMS = ("rocksdb", "hashmap", "canonical")


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


def stored_source(directory: Path, form: str) -> RestoreSource:
    """The snapshot in ``directory`` as the first release of the format wrote it."""
    stored = json.loads(ROWS.read_text())
    return RestoreSource(
        directory,
        StateBench.open("hashmap", directory / "unused").config.key_group_range,
        stored["key"],
        tuple(StateSchema(name, *rest) for name, rest in stored["schemas"].items()),
        form,
    )


@pytest.mark.parametrize("release", [1])
@pytest.mark.parametrize("form", FORMS)
def test_snapshots_of_every_release_are_restored_by_both_backends(
    make_bench, tmp_path: Path, form: str, release: int
) -> None:
    with tarfile.open(GOLDEN / f"{form}-{release}.tar.gz") as archive:
        archive.extractall(tmp_path / "snapshot", filter="data")
    bench = make_bench(sources=[stored_source(tmp_path / "snapshot", form)])
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
    """Write the files of this release that are not there; the others stay as they are."""
    for form in FORMS:
        target = GOLDEN / f"{form}-1.tar.gz"
        if target.exists():
            continue
        bench = StateBench.open("hashmap" if form == "canonical" else form, scratch)
        EveryKind(bench).fill()
        if not ROWS.exists():
            ROWS.write_text(json.dumps(stored_form(bench), indent=1) + "\n")
        source = bench.freeze()
        if form == "canonical":
            source = as_canonical(source, scratch)
        with tarfile.open(target, "x:gz") as archive:
            for path in sorted(source.directory.iterdir()):
                archive.add(path, path.name)


if __name__ == "__main__":
    import tempfile

    write_golden_files(Path(tempfile.mkdtemp()))
