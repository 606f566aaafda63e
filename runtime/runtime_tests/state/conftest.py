"""Fixtures: every test of the contract runs on every backend."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .bench_of_state import SCRATCH, StateBench


@pytest.fixture(params=["rocksdb", "hashmap"])
def backend_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """Where backends live; not on a disk if that can be helped."""
    if SCRATCH is None:
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        yield Path(directory)


@pytest.fixture
def make_bench(backend_name: str, scratch: Path) -> Iterator[Callable[..., StateBench]]:
    """Factory of backends; closes what it opened."""
    benches: list[StateBench] = []

    def make(**settings) -> StateBench:
        bench = StateBench.open(backend_name, scratch, **settings)
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        bench.backend.close()


@pytest.fixture
def make_rocksdb(scratch: Path) -> Iterator[Callable[..., StateBench]]:
    """As `make_bench`, for tests of the RocksDB backend alone."""
    benches: list[StateBench] = []

    def make(**settings) -> StateBench:
        bench = StateBench.open("rocksdb", scratch, **settings)
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        bench.backend.close()
