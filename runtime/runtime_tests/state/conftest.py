"""Fixtures: every test of the contract runs on every backend."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .bench_of_state import StateBench


@pytest.fixture(params=["rocksdb", "hashmap"])
def backend_name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make_bench(backend_name: str, tmp_path: Path) -> Iterator[Callable[..., StateBench]]:
    """Factory of backends; closes what it opened."""
    benches: list[StateBench] = []

    def make(**settings) -> StateBench:
        bench = StateBench.open(backend_name, tmp_path, **settings)
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        bench.backend.close()


@pytest.fixture
def make_rocksdb(tmp_path: Path) -> Iterator[Callable[..., StateBench]]:
    """As `make_bench`, for tests of the RocksDB backend alone."""
    benches: list[StateBench] = []

    def make(**settings) -> StateBench:
        bench = StateBench.open("rocksdb", tmp_path, **settings)
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        bench.backend.close()
