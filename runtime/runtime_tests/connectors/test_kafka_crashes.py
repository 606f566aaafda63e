"""Exactly-once over SIGKILL at every step of a publication, with a real broker (H2, H3, T3, T32).

A child process is killed at one call into the client. What consumers may see at that moment is
asserted, then a new attempt recovers from the checkpoint and every record is there once.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from headrace.checkpoint.protocol.types import SinkCommittable
from headrace.connectors.sink import CommitOutcome, LocalCommittable

pytestmark = [pytest.mark.integration, pytest.mark.kill]

COUNT = 100
NOTHING, EVERYTHING = [], list(range(COUNT))


def kill_slot_at(world, call, moment):
    """Run a slot process until it is killed; return what its completed checkpoint holds."""
    directory = world.directory / "killed"
    directory.mkdir()
    child = subprocess.run(
        [sys.executable, "-m", "runtime_tests.connectors.dying_committer", world.servers,
         str(directory), world.job_id, world.topic, call, moment, "0", str(COUNT)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert child.returncode == -signal.SIGKILL, child.stderr
    stored = (directory / "committable.json").read_bytes()
    committable, paths = msgspec.json.decode(stored, type=tuple[SinkCommittable, list[str]])
    return LocalCommittable(committable, tuple(Path(path) for path in paths))


@pytest.mark.parametrize(
    ("call", "moment", "visible_at_kill", "outcome"),
    [
        ("begin_transaction", "before", NOTHING, CommitOutcome.PUBLISHED),
        ("produce", "after", NOTHING, CommitOutcome.PUBLISHED),
        ("send_offsets_to_transaction", "before", NOTHING, CommitOutcome.PUBLISHED),
        ("send_offsets_to_transaction", "after", NOTHING, CommitOutcome.PUBLISHED),
        ("commit_transaction", "before", NOTHING, CommitOutcome.PUBLISHED),
        ("commit_transaction", "after", EVERYTHING, CommitOutcome.ALREADY_PUBLISHED),
    ],
)
def test_records_are_visible_once_wherever_the_slot_is_killed(
    world, call, moment, visible_at_kill, outcome
):
    pending = kill_slot_at(world, call, moment)
    world.assert_visible(visible_at_kill)

    context = world.context(restored=1, restored_parallelism=1)
    committer = world.committer(context)
    assert [outcome] == committer.recover([pending])
    world.assert_visible(EVERYTHING)
    assert world.ledger() == 1

    following = world.sealed(world.writer(context), 2, [COUNT])
    assert CommitOutcome.PUBLISHED is committer.commit(following)
    world.assert_visible([*EVERYTHING, COUNT])


def test_a_second_recovery_of_the_same_checkpoint_publishes_nothing(world):
    pending = kill_slot_at(world, "commit_transaction", "before")
    for expected in (CommitOutcome.PUBLISHED, CommitOutcome.ALREADY_PUBLISHED):
        committer = world.committer(world.context(restored=1, restored_parallelism=1))
        assert [expected] == committer.recover([pending])
        committer.close()
    world.assert_visible(EVERYTHING)


def test_a_kill_before_the_checkpoint_completes_shows_nothing_and_blocks_no_reader(world):
    """The restored checkpoint does not hold the spool: its open transaction is aborted (H6)."""
    kill_slot_at(world, "commit_transaction", "before")
    world.assert_visible([])

    context = world.context()
    committer = world.committer(context)
    assert committer.recover([]) == []
    replayed = world.sealed(world.writer(context), 1, range(3))
    assert CommitOutcome.PUBLISHED is committer.commit(replayed)
    world.assert_visible([0, 1, 2])
