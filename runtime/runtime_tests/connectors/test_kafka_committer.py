"""The committer over a cluster of the test's own: doubt, fencing, ledgers (H2, T4, T30).

The last test lets Hypothesis choose faults, kills, zombies and rescales, and compares what became
visible with what was checkpointed.
"""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.protocol.types import FileHandle, SinkCommittable
from headrace.connectors.kafka.committer import LEDGER_REFRESH_S
from headrace.connectors.kafka.lost_ledger import LostLedgerPolicy
from headrace.connectors.kafka.spool import SpoolFileWriter
from headrace.connectors.sink import CommitOutcome, LocalCommittable
from headrace.connectors.spools import owner_of_spool, slot_of_spool, spool_id_of
from headrace.errors import InternalError, SinkCommitError, SourceUnavailableError
from runtime_tests.connectors.fake_cluster import FakeCluster, Fault, Killed, identity_of

ALREADY, EMPTY, PUBLISHED = (
    CommitOutcome.ALREADY_PUBLISHED,
    CommitOutcome.EMPTY,
    CommitOutcome.PUBLISHED,
)
_numbers = itertools.count()


@pytest.fixture
def cluster():
    return FakeCluster()


@pytest.fixture(scope="module")
def spool(tmp_path_factory):
    """Make spools: (checkpoint, values, slot) -> what the slot hands back."""
    directory = tmp_path_factory.mktemp("spools")

    def make(checkpoint, values=(), slot=0):
        files, paths = [], ()
        if values:
            path = directory / f"{next(_numbers)}.spool"
            writer = SpoolFileWriter(path, identity_of(slot))
            for value in values:
                writer.append((None, value, -1, None, -1, None))
            sealed = writer.seal()
            files = [FileHandle(path.name, path.name, sealed.size_bytes, sealed.checksum)]
            paths = (path,)
        committable = SinkCommittable("sink", spool_id_of(slot), checkpoint, files, len(values))
        return LocalCommittable(committable, paths)

    return make


def started(cluster, **kwargs):
    committer = cluster.committer(**kwargs)
    committer.recover([])
    return committer


def test_a_ledger_is_written_before_the_first_spool(cluster):
    started(cluster)
    assert cluster.ledgers == {identity_of(0).ledger_group: 0}


def test_a_ledger_that_exists_is_not_written_again(cluster):
    started(cluster)
    cluster.faults = [Fault.DIES_BEFORE]
    started(cluster)


@pytest.mark.parametrize("fault", [Fault.FAILS, Fault.REPLY_LOST])
def test_a_publication_in_doubt_is_settled_within_the_commit(cluster, spool, fault):
    committer = started(cluster)
    cluster.faults = [fault]
    assert committer.commit(spool(1, [b"a"])) is PUBLISHED
    assert cluster.log == [b"a"]


def test_doubts_without_end_give_up_and_leave_the_rest_to_a_failover(cluster, spool):
    committer = started(cluster)
    cluster.faults = [Fault.FAILS] * 1000
    item = spool(1, [b"a"])
    with pytest.raises(SourceUnavailableError, match="checkpoint=1"):
        committer.commit(item)
    assert len(cluster.faults) > 0
    cluster.faults = []
    assert cluster.committer(restored=1).recover([item]) == [PUBLISHED]
    assert cluster.log == [b"a"]


def test_a_fenced_attempt_does_not_take_the_id_back(cluster, spool):
    old, item = started(cluster), spool(1, [b"a"])
    new = started(cluster)
    with pytest.raises(SourceUnavailableError, match="took over"):
        old.commit(item)
    assert new.commit(item) is PUBLISHED
    assert cluster.log == [b"a"]


def test_a_forgotten_ledger_stops_the_restore(cluster, spool):
    started(cluster)
    cluster.ledgers.clear()
    with pytest.raises(SinkCommitError, match="forgot the ledger"):
        cluster.committer(restored=1).recover([spool(1, [b"a"])])
    assert cluster.log == []


def test_a_forgotten_ledger_is_harmless_when_everything_was_confirmed(cluster, spool):
    started(cluster)
    cluster.ledgers.clear()
    assert cluster.committer(restored=8).recover([spool(8)]) == [EMPTY]
    assert cluster.ledgers == {identity_of(0).ledger_group: 8}


def test_a_ledger_that_is_forgotten_while_in_doubt_stops_the_commit(cluster, spool, monkeypatch):
    committer = started(cluster)
    cluster.faults = [Fault.REPLY_LOST]
    monkeypatch.setattr(cluster.clock, "wait", lambda *_: cluster.ledgers.clear())
    with pytest.raises(SinkCommitError, match="forgot the ledger"):
        committer.commit(spool(1, [b"a"]))
    assert cluster.log == [b"a"]


@pytest.mark.parametrize(
    ("policy", "log"),
    [(LostLedgerPolicy.PUBLISH, [b"a"]), (LostLedgerPolicy.DISCARD, [])],
)
def test_a_person_may_decide_about_a_forgotten_ledger(cluster, spool, policy, log):
    started(cluster)
    cluster.ledgers.clear()
    cluster.committer(restored=1, policy=policy).recover([spool(1, [b"a"])])
    assert cluster.log == log
    assert cluster.ledgers == {identity_of(0).ledger_group: 1}


def test_an_idle_spool_keeps_its_ledger_from_being_forgotten(cluster, spool):
    committer = started(cluster)
    assert committer.commit(spool(1)) is EMPTY
    assert cluster.ledgers == {identity_of(0).ledger_group: 0}
    cluster.clock.now_s += LEDGER_REFRESH_S
    assert committer.commit(spool(2)) is EMPTY
    assert cluster.ledgers == {identity_of(0).ledger_group: 2}


def test_checkpoint_numbers_must_not_go_back(cluster, spool):
    started(cluster, restored=9)
    with pytest.raises(SinkCommitError, match="never go back"):
        started(cluster).commit(spool(9, [b"a"]))


def test_commit_before_recover_is_a_bug(cluster, spool):
    with pytest.raises(InternalError, match="before recover"):
        cluster.committer().commit(spool(1, [b"a"]))


def test_spools_are_recovered_by_checkpoint_and_reported_in_the_order_given(cluster, spool):
    started(cluster)
    items = [spool(3, [b"c"]), spool(2), spool(1, [b"a"])]
    assert cluster.committer(restored=3).recover(items) == [PUBLISHED, EMPTY, PUBLISHED]
    assert cluster.log == [b"a", b"c"]


def test_vanished_slots_are_fenced(cluster, spool):
    vanished = started(cluster, slot=3)
    started(cluster, fence=(3,), restored=1)
    with pytest.raises(SourceUnavailableError, match="took over"):
        vanished.commit(spool(1, [b"a"], slot=3))


@st.composite
def _lives(draw):
    """What happens in one life of the job: its parallelism and what befalls each checkpoint."""
    faults = st.lists(st.sampled_from(list(Fault)), max_size=4)
    return draw(st.integers(1, 4)), draw(st.lists(faults, min_size=1, max_size=3))


@pytest.mark.property
@given(lives=st.lists(_lives(), min_size=1, max_size=6), zombies=st.booleans())
def test_every_checkpointed_record_becomes_visible_once(spool, lives, zombies):
    """A life ends with its first kill; the next one restores the last completed checkpoint."""
    cluster = FakeCluster()
    expected: list[bytes] = []
    pending: list[LocalCommittable] = []
    checkpoint = previous = 0
    left_behind: list[tuple[object, LocalCommittable]] = []
    for parallelism, checkpoints in [*lives, (1, [])]:
        committers = {}
        try:
            cluster.faults = []
            for slot in range(parallelism):
                fence = [s for s in range(parallelism, previous) if s % parallelism == slot]
                committers[slot] = cluster.committer(slot, fence, checkpoint or None)
                owned = [
                    item
                    for item in pending
                    if owner_of_spool(item.committable.spool_id, parallelism) == slot
                ]
                committers[slot].recover(owned)
                pending = [item for item in pending if item not in owned]
            previous = parallelism
            for faults in checkpoints:
                checkpoint += 1
                pending += [
                    spool(checkpoint, [b"%d-%d" % (checkpoint, slot)], slot)
                    for slot in range(parallelism)
                ]
                expected += [b"%d-%d" % (checkpoint, slot) for slot in range(parallelism)]
                cluster.faults = list(faults)
                for item in list(pending):
                    slot = slot_of_spool(item.committable.spool_id)
                    left_behind.append((committers[slot], item))
                    committers[slot].commit(item)
                    pending.remove(item)
        except Killed:
            previous = parallelism
        if zombies:
            cluster.faults = []
            _let_zombies_try(left_behind, committers)
    assert pending == []
    assert sorted(cluster.log) == sorted(expected)


def _let_zombies_try(left_behind, alive):
    """Attempts of earlier lives publish what they still hold, unless they are stopped."""
    for committer, item in left_behind:
        if committer not in alive.values():
            with contextlib.suppress(SourceUnavailableError, SinkCommitError):
                committer.commit(item)
