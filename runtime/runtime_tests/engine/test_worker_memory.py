"""What a Spark worker keeps for good is not looked at by every collection."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from headrace.engine import worker_memory
from headrace.engine.worker_memory import settle_worker


class Node:
    """Something that is only collected as a cycle."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(worker_memory, "_is_settled", False)
    yield
    gc.unfreeze()


def test_what_is_loaded_is_frozen_once() -> None:
    settle_worker()
    frozen = gc.get_freeze_count()
    later = [Node() for _ in range(10)]
    settle_worker()
    assert frozen > 1000
    assert gc.get_freeze_count() <= frozen
    assert all(any(node is seen for seen in gc.get_objects()) for node in later)


def test_a_program_that_was_dropped_is_collected_although_it_was_frozen() -> None:
    program = Node()
    gone = weakref.ref(program)
    settle_worker()
    del program
    gc.collect()
    assert gone() is not None
    settle_worker(again=True)
    assert gone() is None
