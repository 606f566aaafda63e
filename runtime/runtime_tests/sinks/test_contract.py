"""The suite notices sinks that break the contract, each by the tests that are meant for it."""

from __future__ import annotations

import dataclasses

import pytest

from headrace.datastream.connectors.two_phase import (
    CommitOutcome,
    SpoolCommitter,
    SpoolingWriter,
    TwoPhaseSink,
)
from headrace.errors import UserCodeError
from headrace.testing.sinks import SinkWorld, TwoPhaseSinkContract

SUITE = TwoPhaseSinkContract()


class AppendingSink(TwoPhaseSink):
    """Appends lines to a file; nothing tells whether it has done so before."""

    committer = None

    def __init__(self, path):
        self.path = path

    def create_writer(self, context):
        return SpoolingWriter(context, str.encode)

    def create_committer(self, context):
        return type(self).committer(self.path, context)


class AppendingCommitter(SpoolCommitter):
    def __init__(self, path, context):
        super().__init__(context)
        self.path = path

    def publish(self, spool):
        with self.path.open("ab") as file:
            for row in spool.rows():
                file.write(row + b"\n")
        return CommitOutcome.PUBLISHED


AppendingSink.committer = AppendingCommitter


class EagerSink(AppendingSink):
    """Shows rows at the barrier."""

    def create_writer(self, context):
        path = self.path

        class Writer(SpoolingWriter):
            def write(self, value, timestamp_ms):
                with path.open("a") as file:
                    file.write(f"{value}\n")

        return Writer(context, str.encode)


class ForgetfulSink(AppendingSink):
    """Leaves alone what a restored checkpoint holds."""

    class committer(AppendingCommitter):  # noqa: N801 - as a setting
        def recover(self, committables):
            return [CommitOutcome.EMPTY for _ in committables]


class FirstFileSink(AppendingSink):
    """Remembers only that the job has committed something."""

    class committer(AppendingCommitter):  # noqa: N801
        def publish(self, spool):
            if self.path.exists():
                return CommitOutcome.ALREADY_PUBLISHED
            return super().publish(spool)


class Target:
    def __init__(self, sink, path):
        self.sink, self.path = sink, path

    def make_sink(self):
        return self.sink(self.path)

    def value(self, number):
        return str(number)

    def visible(self):
        return map(int, self.path.read_text().split()) if self.path.exists() else []


CAUGHT = [
    (AppendingSink, "committing_again_after_a_crash_repeats_nothing"),
    (AppendingSink, "a_commit_that_another_process_made_is_not_repeated"),
    (AppendingSink, "rows_are_visible_once_wherever_a_commit_is_killed"),
    (AppendingSink, "an_older_generation_cannot_publish_what_a_newer_one_published"),
    (AppendingSink, "after_a_rescale_spools_of_vanished_slots_are_published_once"),
    (EagerSink, "rows_are_visible_once_committed_and_not_before"),
    (EagerSink, "a_crash_before_the_barrier_leaves_nothing"),
    (EagerSink, "a_crash_after_the_barrier_of_an_incomplete_checkpoint_leaves_nothing"),
    (ForgetfulSink, "a_crash_before_the_commit_of_a_complete_checkpoint_loses_nothing"),
    (ForgetfulSink, "pending_spools_are_reported_in_the_order_given"),
    (FirstFileSink, "checkpoints_are_committed_one_by_one"),
    (FirstFileSink, "slots_of_one_checkpoint_do_not_disturb_each_other"),
    (FirstFileSink, "a_spool_of_an_aborted_checkpoint_travels_with_the_next_one"),
]


@pytest.mark.parametrize(("sink", "test"), CAUGHT)
def test_a_broken_sink_is_caught(sink, test, tmp_path):
    with pytest.raises(AssertionError, match="expected"):
        getattr(SUITE, f"test_{test}")(Target(sink, tmp_path / "lines"), tmp_path)


def test_a_sink_without_a_method_is_named(tmp_path):
    class Nothing:
        delivery_guarantee = None

    class Broken(Target):
        def make_sink(self):
            return Nothing()

    with pytest.raises(AssertionError, match="probe"):
        SUITE.test_it_says_that_it_is_exactly_once(Broken(None, tmp_path / "lines"), tmp_path)


class MisnamedSink(AppendingSink):
    """Says that its rows belong to another checkpoint."""

    def create_writer(self, context):
        class Writer(SpoolingWriter):
            def prepare_commit(self, checkpoint_id):
                return super().prepare_commit(checkpoint_id + 1)

        return Writer(context, str.encode)


class MiscountingSink(AppendingSink):
    """Forgets to say how many rows there are."""

    def create_writer(self, context):
        class Writer(SpoolingWriter):
            def prepare_commit(self, checkpoint_id):
                return dataclasses.replace(super().prepare_commit(checkpoint_id), records=0)

        return Writer(context, str.encode)


@pytest.mark.parametrize(
    ("sink", "message"), [(MisnamedSink, "identity"), (MiscountingSink, "records of the seal")]
)
def test_a_seal_that_tells_something_wrong_is_caught(sink, message, tmp_path):
    with pytest.raises(AssertionError, match=message):
        SUITE.test_rows_are_visible_once_committed_and_not_before(
            Target(sink, tmp_path / "lines"), tmp_path
        )


def test_what_is_not_bytes_is_refused_at_once(tmp_path):
    class TextSink(AppendingSink):
        def create_writer(self, context):
            return SpoolingWriter(context, str)

    world = SinkWorld(Target(TextSink, tmp_path / "lines"), tmp_path)
    with pytest.raises(UserCodeError, match="returned=str"):
        world.start().write([1])
    world.close()
