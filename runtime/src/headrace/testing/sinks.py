"""The contract of sinks as a test suite: import it, say what your sink is, run pytest (H1-H3, T30).

::

    from headrace.testing.sinks import TwoPhaseSinkContract

    class TestMySink(TwoPhaseSinkContract):
        @pytest.fixture
        def sink_under_test(self, tmp_path):
            return MyTarget(tmp_path)  # see `SinkUnderTest`: make_sink, value, visible

Every test starts with an empty target. A row must be visible exactly once after its checkpoint
was committed, whatever was killed before, and never before that. `AtLeastOnceSinkContract` is for
sinks that write at once. The tests need pytest's ``tmp_path`` and nothing else of pytest.
"""

# ruff: noqa: D102 - a test's name says what it checks

from __future__ import annotations

import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import cloudpickle

from headrace.connectors.sink import CommitOutcome, DeliveryGuarantee, LocalCommittable
from headrace.errors import HeadraceError
from headrace.testing.at_least_once_sinks import AtLeastOnceSinkContract
from headrace.testing.sink_checks import expect, expect_equal, expect_visible, open_world
from headrace.testing.sink_killer import Kill, Order, commit_and_be_killed
from headrace.testing.sink_world import Attempt, Place, SinkUnderTest, SinkWorld

__all__ = [
    "AtLeastOnceSinkContract",
    "Attempt",
    "Place",
    "SinkUnderTest",
    "SinkWorld",
    "TwoPhaseSinkContract",
]

KILLED_AFTER_CALLS: Final = (1, 10, 30, 60, 100, 150, 250, 400, 700, 1000, 2000, 5000, 12000, 30000)
"""Calls of functions after which a recovering process is killed; early ones are killed before their
commit, late ones after it. The n-th process recovers n spools, of which some are published."""


class TwoPhaseSinkContract:
    """What every exactly-once sink keeps; subclass it with a fixture ``sink_under_test``."""

    killed_after_calls: Sequence[int] = KILLED_AFTER_CALLS

    def test_it_says_that_it_is_exactly_once(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            guarantee = world.description().delivery_guarantee
            expect_equal(DeliveryGuarantee.EXACTLY_ONCE, guarantee, "delivery_guarantee")

    def test_its_description_travels_by_pickle(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            description = world.description()
            copy = pickle.loads(cloudpickle.dumps(description))  # noqa: S301 - just written
            expect_equal(type(description).__name__, type(copy).__name__, "type after pickling")

    def test_rows_are_visible_once_committed_and_not_before(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            attempt = world.start()
            attempt.write(range(5))
            expect_visible(world, [], "before the barrier")
            item = attempt.seal(1)
            expect_visible(world, [], "before the commit")
            expect_equal(CommitOutcome.PUBLISHED, attempt.committer.commit(item), "commit")
            expect_visible(world, range(5), "after the commit")

    def test_checkpoints_are_committed_one_by_one(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        """The next rows are written while the ones before are on their way."""
        with open_world(sink_under_test, tmp_path) as world:
            attempt = world.start()
            attempt.write([1, 2])
            first = attempt.seal(1)
            attempt.write([3])
            second = attempt.seal(2)
            attempt.write([4])
            attempt.committer.commit(first)
            expect_visible(world, [1, 2], "after the first commit")
            attempt.committer.commit(second)
            expect_visible(world, [1, 2, 3], "after the second commit")

    def test_a_checkpoint_without_rows_seals_no_file_and_commits(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            attempt = world.start()
            item = attempt.seal(1)
            expect_equal((), item.paths, "files of an empty checkpoint")
            expect_equal(CommitOutcome.EMPTY, attempt.committer.commit(item), "commit")
            attempt.write([7])
            attempt.committer.commit(attempt.seal(2))
            expect_visible(world, [7], "after the next commit")

    def test_a_crash_before_the_barrier_leaves_nothing(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            crashed = world.start()
            crashed.write(range(5))
            world.lose(crashed)
            attempt = world.start()
            expect_visible(world, [], "after the crash")
            attempt.write(range(5))
            attempt.committer.commit(attempt.seal(1))
            expect_visible(world, range(5), "after the epochs were repeated")

    def test_a_crash_after_the_barrier_of_an_incomplete_checkpoint_leaves_nothing(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            crashed = world.start()
            crashed.write(range(5))
            world.uploaded(crashed.seal(1))
            world.lose(crashed)
            attempt = world.start()
            expect_visible(world, [], "after the crash")
            attempt.write(range(5))
            attempt.committer.commit(attempt.seal(2))
            expect_visible(world, range(5), "after the epochs were repeated")

    def test_a_crash_before_the_commit_of_a_complete_checkpoint_loses_nothing(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            crashed = world.start()
            crashed.write(range(5))
            item = world.uploaded(crashed.seal(1))
            world.lose(crashed)
            attempt = world.start(Place(restored=1, restored_parallelism=1), [item])
            expect_equal([CommitOutcome.PUBLISHED], attempt.recovered, "outcome of the recovery")
            expect_visible(world, range(5), "after the recovery")

    def test_committing_again_after_a_crash_repeats_nothing(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            crashed = world.start()
            crashed.write(range(5))
            sealed = crashed.seal(1)
            item = world.uploaded(sealed)
            crashed.committer.commit(sealed)
            world.lose(crashed)
            for _ in range(2):
                attempt = world.start(Place(restored=1, restored_parallelism=1), [item])
                _expect_settled(attempt)
                expect_visible(world, range(5), "after the recovery")
            attempt.write([5])
            attempt.committer.commit(attempt.seal(2))
            expect_visible(world, range(6), "after the next commit")

    def test_a_commit_that_another_process_made_is_not_repeated(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        """The other process dies when it has committed, before anybody is told."""
        with open_world(sink_under_test, tmp_path) as world:
            crashed = world.start()
            crashed.write(range(5))
            item = world.uploaded(crashed.seal(1))
            world.lose(crashed)
            died = _commit_elsewhere(world, sink_under_test, [[item]], [1 << 60])
            expect_equal(0, died, "processes that died before they had committed")
            expect_visible(world, range(5), "after the other process's commit")
            attempt = world.start(Place(restored=1, restored_parallelism=1), [item])
            _expect_settled(attempt)
            expect_visible(world, range(5), "after the recovery")

    def test_rows_are_visible_once_wherever_a_commit_is_killed(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        """One process after another recovers all that is pending, and is killed in the middle."""
        with open_world(sink_under_test, tmp_path) as world:
            crashed = world.start()
            kills = self.killed_after_calls
            items = []
            for number in range(len(kills)):
                crashed.write([2 * number, 2 * number + 1])
                items.append(world.uploaded(crashed.seal(number + 1)))
            world.lose(crashed)
            pending = [items[: number + 1] for number in range(len(kills))]
            died = _commit_elsewhere(world, sink_under_test, pending, kills)
            expect(died > 0, "no process was killed inside `recover`: add smaller numbers")
            world.start(Place(restored=len(kills), restored_parallelism=1), items)
            expect_visible(world, range(2 * len(kills)), f"after {died} killed commits")

    def test_an_older_generation_cannot_publish_what_a_newer_one_published(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        """T30: the old process lives on, holds the spool, and is told of the checkpoint late."""
        with open_world(sink_under_test, tmp_path) as world:
            zombie = world.start()
            zombie.write(range(5))
            sealed = zombie.seal(1)
            item = world.uploaded(sealed)
            successor = world.start(Place(restored=1, restored_parallelism=1), [item])
            with suppress(HeadraceError):  # fenced, or it found the rows there, or wrote the same
                zombie.committer.commit(sealed)
            expect_visible(world, range(5), "after both have committed")
            successor.write([5])
            successor.committer.commit(successor.seal(2))
            expect_visible(world, range(6), "after the newer generation's next commit")

    def test_pending_spools_are_reported_in_the_order_given(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        """They are published oldest first all the same; empty ones are among them."""
        with open_world(sink_under_test, tmp_path) as world:
            crashed = world.start()
            crashed.write([1])
            first = world.uploaded(crashed.seal(1))
            empty = world.uploaded(crashed.seal(2))
            crashed.write([3])
            third = world.uploaded(crashed.seal(3))
            world.lose(crashed)
            place = Place(restored=3, restored_parallelism=1)
            attempt = world.start(place, [third, empty, first])
            published = CommitOutcome.PUBLISHED
            expected = [published, CommitOutcome.EMPTY, published]
            expect_equal(expected, attempt.recovered, "outcomes of the recovery")
            expect_visible(world, [1, 3], "after the recovery")

    def test_a_spool_of_an_aborted_checkpoint_travels_with_the_next_one(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            attempt = world.start()
            attempt.write([1])
            carried = attempt.seal(1)
            attempt.write([2])
            following = attempt.seal(2)
            attempt.committer.commit(carried)
            attempt.committer.commit(following)
            expect_visible(world, [1, 2], "after both commits")

    def test_slots_of_one_checkpoint_do_not_disturb_each_other(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            attempts = [world.start(Place(slot, 3)) for slot in range(3)]
            for slot, attempt in enumerate(attempts):
                attempt.write([10 * slot, 10 * slot + 1])
            for attempt in attempts:
                attempt.committer.commit(attempt.seal(1))
            expect_visible(world, [0, 1, 10, 11, 20, 21], "after all slots have committed")

    def test_after_a_rescale_spools_of_vanished_slots_are_published_once(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        """Parallelism 3 -> 1 -> 3; slot 2 had committed, slots 0 and 1 had not."""
        with open_world(sink_under_test, tmp_path) as world:
            items: list[LocalCommittable] = []
            for slot in range(3):
                old = world.start(Place(slot, 3))
                old.write([slot])
                sealed = old.seal(1)
                items.append(world.uploaded(sealed))
                if slot == 2:
                    old.committer.commit(sealed)
                world.lose(old)
            narrow = world.start(Place(0, 1, 1, 3), items)
            expect_visible(world, [0, 1, 2], "at parallelism 1")
            narrow.write([3])
            narrow.committer.commit(narrow.seal(2))
            wide = [world.start(Place(slot, 3, 2, 1)) for slot in range(3)]
            for slot, attempt in enumerate(wide):
                attempt.write([4 + slot])
                attempt.committer.commit(attempt.seal(3))
            expect_visible(world, range(7), "at parallelism 3")

    def test_closing_leaves_sealed_spools_alone(
        self, sink_under_test: SinkUnderTest, tmp_path: Path
    ) -> None:
        with open_world(sink_under_test, tmp_path) as world:
            attempt = world.start()
            attempt.write([1])
            item = attempt.seal(1)
            attempt.write([2])
            attempt.end()
            attempt.end()
            world.start(Place(restored=1, restored_parallelism=1), [world.uploaded(item)])
            expect_visible(world, [1], "after the recovery")


def _expect_settled(attempt: Attempt) -> None:
    """Sinks that overwrite, or whose target drops what it knows, cannot tell the two apart."""
    settled = {CommitOutcome.PUBLISHED, CommitOutcome.ALREADY_PUBLISHED}
    found = attempt.recovered
    expect(len(found) == 1 and found[0] in settled, f"outcome of the recovery: found {found!r}")


def _commit_elsewhere(
    world: SinkWorld,
    sink: SinkUnderTest,
    pending: Sequence[Sequence[LocalCommittable]],
    calls: Sequence[int],
) -> int:
    kills = []
    for items, count in zip(pending, calls, strict=True):
        restored = items[-1].committable.checkpoint_id if items else None
        context = world.context(Place(restored=restored, restored_parallelism=1))
        kills.append(Kill(context, [world.restored(item) for item in items], count))
    description = world.description()
    modules = [sys.modules[type(thing).__module__] for thing in (sink, description)]
    return commit_and_be_killed(Order(description, kills), modules)
