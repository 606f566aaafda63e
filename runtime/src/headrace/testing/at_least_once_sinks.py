"""The contract of sinks that write at once; use it from `headrace.testing.sinks`."""

# ruff: noqa: D102 - a test's name says what it checks

from __future__ import annotations

from pathlib import Path

import msgspec
import xxhash

from headrace.checkpoint.protocol.types import FileHandle
from headrace.connectors.sink import CommitOutcome, DeliveryGuarantee, LocalCommittable
from headrace.errors import SinkCommitError
from headrace.testing.sink_checks import expect, expect_equal, expect_visible, open_world
from headrace.testing.sink_world import Place, SinkUnderTest


class AtLeastOnceSinkContract:
    """What every at-least-once sink keeps; subclass it with a fixture ``sink_under_test``."""

    def test_it_says_that_it_is_at_least_once(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            guarantee = world.description().delivery_guarantee
            expect_equal(DeliveryGuarantee.AT_LEAST_ONCE, guarantee, "delivery_guarantee")

    def test_rows_are_visible_at_the_barrier(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            attempt = world.start()
            attempt.write(range(5))
            item = attempt.seal(1)
            expect_visible(world, range(5), "after the barrier")
            expect_equal((), item.paths, "files of a sink without a second phase")
            expect_equal(CommitOutcome.EMPTY, attempt.committer.commit(item), "commit")
            expect_visible(world, range(5), "after the commit")

    def test_a_crash_loses_nothing_when_the_epochs_are_repeated(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            crashed = world.start()
            crashed.write(range(3))
            crashed.seal(1)
            crashed.write(range(3, 6))
            world.lose(crashed)
            attempt = world.start(Place(restored=1, restored_parallelism=1))
            attempt.write(range(3, 6))
            attempt.seal(2)
            expect_equal(set(range(6)), set(world.visible()), "rows, repeated ones counted once")

    def test_output_of_an_exactly_once_program_is_never_dropped(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        """A checkpoint holds unpublished rows, and the guarantee was lowered meanwhile."""
        with open_world(sink_under_test, tmp_path) as world:
            attempt = world.start()
            spool = attempt.context.spool_dir / "left.spool"
            spool.write_bytes(b"rows")
            item = _left_behind(attempt.seal(1), spool)
            try:
                world.start(Place(restored=1, restored_parallelism=1), [world.uploaded(item)])
            except SinkCommitError:
                return
            expect(condition=False, message="unpublished rows of the checkpoint were dropped")


def _left_behind(item: LocalCommittable, path: Path) -> LocalCommittable:
    data = path.read_bytes()
    handle = FileHandle(path.name, path.name, len(data), xxhash.xxh3_128_hexdigest(data))
    committable = msgspec.structs.replace(item.committable, files=[handle], records=1)
    return LocalCommittable(committable, (path,))
