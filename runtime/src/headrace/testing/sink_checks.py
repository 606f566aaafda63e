"""How the suites of `headrace.testing.sinks` open a world and compare.

Plain ``assert`` would say nothing: pytest rewrites the asserts of test modules alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.testing.sink_world import SinkUnderTest, SinkWorld


@contextmanager
def open_world(sink: SinkUnderTest, directory: Path) -> Iterator[SinkWorld]:
    """Open a job in a directory of its own, and close it."""
    job = directory / "job"
    job.mkdir()
    world = SinkWorld(sink, job)
    try:
        yield world
    finally:
        world.close()


def expect_visible(world: SinkWorld, expected: Iterable[int], when: str) -> None:
    """Compare what readers of the target see.

    Raises:
        AssertionError: they see something else.
    """
    expect_equal(sorted(expected), world.visible(), f"rows that readers see {when}")


def expect_equal(expected: object, found: object, what: str) -> None:
    """Compare two values.

    Raises:
        AssertionError: they differ.
    """
    expect(expected == found, f"{what}: expected {expected!r}, found {found!r}")


def expect(condition: bool, message: str) -> None:
    """Check a condition.

    Raises:
        AssertionError: it does not hold.
    """
    if not condition:
        raise AssertionError(message)
