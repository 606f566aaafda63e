"""The exactly-once Kafka sink against a real broker, beyond crashes of its own process."""

from __future__ import annotations

import threading
import time

import pytest

from headrace.connectors.kafka.probe import ClusterProbe
from headrace.connectors.kafka.spec import LOST_LEDGER
from headrace.connectors.sink import CommitOutcome, DeliveryGuarantee
from headrace.errors import (
    CorruptStateError,
    InvalidConfigError,
    SinkCommitError,
    SourceUnavailableError,
)

pytestmark = pytest.mark.integration


def test_rows_appear_when_the_checkpoint_is_committed_and_not_before(world):
    context = world.context()
    committer, writer = world.committer(context), world.writer(context)
    committer.recover([])
    item = world.sealed(writer, 1, range(10))
    world.assert_visible([])
    assert CommitOutcome.PUBLISHED is committer.commit(item)
    world.assert_visible(list(range(10)))


def test_an_empty_spool_needs_no_transaction(world):
    context = world.context()
    committer, writer = world.committer(context), world.writer(context)
    committer.recover([])
    assert CommitOutcome.EMPTY is committer.commit(world.sealed(writer, 1, []))
    assert world.ledger() == 0


def test_the_first_start_writes_a_ledger_before_any_output(world):
    assert world.ledger() is None
    world.committer(world.context()).recover([])
    assert world.ledger() == 0


def test_a_start_from_a_checkpoint_without_pending_output_writes_its_number(world):
    world.committer(world.context(restored=41, restored_parallelism=1)).recover([])
    assert world.ledger() == 41


def test_spools_of_aborted_checkpoints_are_published_with_the_next_one_in_order(world):
    context = world.context()
    committer, writer = world.committer(context), world.writer(context)
    committer.recover([])
    carried = world.sealed(writer, 1, [1])
    following = world.sealed(writer, 2, [2])
    outcomes = [committer.commit(item) for item in (carried, following)]
    assert outcomes == [CommitOutcome.PUBLISHED] * 2
    world.assert_visible([1, 2])
    assert world.ledger() == 2


def test_a_zombie_attempt_cannot_publish_after_a_new_one_took_over(world):
    """T30: the old process holds a spool and a live connection, and is told too late."""
    old_context = world.context()
    zombie, old_writer = world.committer(old_context), world.writer(old_context)
    zombie.recover([])
    item = world.sealed(old_writer, 1, range(5))

    successor = world.committer(world.context(restored=1, restored_parallelism=1))
    assert successor.recover([item]) == [CommitOutcome.PUBLISHED]
    with pytest.raises(SourceUnavailableError, match="another attempt took over"):
        zombie.commit(item)
    world.assert_visible(list(range(5)))


def test_a_zombie_that_claims_late_finds_its_output_published(world):
    old_context = world.context()
    writer = world.writer(old_context)
    first = world.committer(old_context)
    first.recover([])
    item = world.sealed(writer, 1, range(5))
    world.committer(world.context(restored=1, restored_parallelism=1)).recover([item])
    late = world.committer(world.context(restored=1, restored_parallelism=1))
    assert late.recover([item]) == [CommitOutcome.ALREADY_PUBLISHED]
    world.assert_visible(list(range(5)))


def test_after_a_rescale_an_old_spool_is_published_under_its_own_ledger(world):
    """Parallelism 4 -> 1: slot 0 publishes what slot 3 left, and both ledgers move."""
    old = world.context(slot=3, parallelism=4)
    world.committer(old).recover([])
    left = world.sealed(world.writer(old), 5, [3, 33])
    own = world.context(slot=0, parallelism=4)
    world.committer(own).recover([])
    own_left = world.sealed(world.writer(own), 5, [0])

    context = world.context(slot=0, parallelism=1, restored=5, restored_parallelism=4)
    committer = world.committer(context)
    assert committer.recover([left, own_left]) == [CommitOutcome.PUBLISHED] * 2
    assert (world.ledger(3), world.ledger(0)) == (5, 5)
    following = world.sealed(world.writer(context), 6, [6])
    committer.commit(following)
    world.assert_visible([0, 3, 6, 33])
    assert (world.ledger(3), world.ledger(0)) == (5, 6)


def test_lingering_transactions_of_vanished_slots_are_aborted_at_start(world):
    """H6: without it, read_committed consumers would wait for the transaction's timeout."""
    old = world.context(slot=1, parallelism=2)
    hanging = world.committer(old)
    hanging.recover([])
    session = hanging._own._session
    session._producer.begin_transaction()
    for partition in (0, 1):
        session._producer.produce(world.topic, b"77", partition=partition)
    session._producer.flush(10)

    context = world.context(slot=0, parallelism=1, restored=1, restored_parallelism=2)
    committer = world.committer(context)
    committer.recover([])
    committer.commit(world.sealed(world.writer(context), 2, [1, 2, 3, 4]))
    world.assert_visible([1, 2, 3, 4])


def test_a_lost_ledger_stops_the_restore_and_names_the_ways_out(world):
    """T4: the broker forgot the group; nothing tells whether the rows are visible."""
    context = world.context()
    committer = world.committer(context)
    committer.recover([])
    item = world.sealed(world.writer(context), 1, range(5))
    committer.commit(item)
    committer.close()
    ClusterProbe(world.client).delete_group(world.ledger_group())

    restored = world.context(restored=1, restored_parallelism=1)
    with pytest.raises(SinkCommitError, match=r"forgot the ledger.*headrace\.lost\.ledger"):
        world.committer(restored).recover([item])
    world.assert_visible(list(range(5)))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("publish", sorted([*range(5), *range(5)])), ("discard", list(range(5)))],
)
def test_a_person_decides_about_a_lost_ledger(world, policy, expected):
    context = world.context()
    committer = world.committer(context)
    committer.recover([])
    item = world.sealed(world.writer(context), 1, range(5))
    committer.commit(item)
    committer.close()
    ClusterProbe(world.client).delete_group(world.ledger_group())

    world.properties[LOST_LEDGER] = policy
    world.committer(world.context(restored=1, restored_parallelism=1)).recover([item])
    world.assert_visible(expected)
    assert world.ledger() == 1


def test_a_number_that_was_published_before_is_refused(world):
    """A crash after it would take the new output for the published one."""
    world.committer(world.context(restored=9, restored_parallelism=1)).recover([])
    context = world.context()
    committer = world.committer(context)
    committer.recover([])
    with pytest.raises(SinkCommitError, match="never go back"):
        committer.commit(world.sealed(world.writer(context), 9, [1]))


def test_a_transaction_that_times_out_at_the_broker_is_published_again(world):
    """T3/T4: in a sink that keeps its transaction open, this loses the rows."""
    world.properties["transaction.timeout.ms"] = "1000"
    context = world.context()
    slow: list[str] = []

    class SlowOnce:
        def __init__(self, producer):
            self._producer = producer

        def __len__(self):
            return len(self._producer)

        def __getattr__(self, name):
            if name == "commit_transaction" and world.generation == 1 and len(slow) == 1:
                slow.append("slept")
                time.sleep(2.5)
            return getattr(self._producer, name)

    from confluent_kafka import Producer

    committer = world.committer(context, lambda config: SlowOnce(Producer(config)))
    committer.recover([])
    slow.append("armed")
    item = world.sealed(world.writer(context), 1, range(5))
    assert CommitOutcome.PUBLISHED is committer.commit(item)
    assert slow == ["armed", "slept"]
    world.assert_visible(list(range(5)))


def test_a_spool_with_missing_records_is_never_published(world):
    context = world.context()
    committer = world.committer(context)
    committer.recover([])
    item = world.sealed(world.writer(context), 1, range(9000))
    whole = item.paths[0].read_bytes()
    cut = context.spool_dir / "cut.spool"
    cut.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(CorruptStateError):
        committer.commit(type(item)(item.committable, (cut,)))
    world.assert_visible([])
    assert CommitOutcome.PUBLISHED is committer.commit(item)
    world.assert_visible(list(range(9000)))


def test_a_changed_topic_publishes_old_output_to_the_old_topic(world):
    context = world.context()
    committer = world.committer(context)
    committer.recover([])
    item = world.sealed(world.writer(context), 1, range(5))
    committer.close()
    old_topic = world.topic
    world.topic = f"{old_topic}-renamed"
    world.create_topic()

    restored = world.context(restored=1, restored_parallelism=1)
    committer = world.committer(restored)
    assert committer.recover([item]) == [CommitOutcome.PUBLISHED]
    committer.commit(world.sealed(world.writer(restored), 2, [7]))
    world.assert_visible(list(range(5)), old_topic)
    world.assert_visible([7])


def test_a_cancelled_generation_ends_its_commit_soon(world, broker):
    context = world.context()
    committer = world.committer(context)
    committer.recover([])
    item = world.sealed(world.writer(context), 1, range(5))
    broker.pause()
    try:
        threading.Timer(0.2, context.cancelled.set).start()
        began = time.monotonic()
        with pytest.raises(SourceUnavailableError, match="generation is over"):
            committer.commit(item)
        assert time.monotonic() - began < 8
    finally:
        broker.resume()
    successor = world.committer(world.context(restored=1, restored_parallelism=1))
    assert successor.recover([item])[0] in {
        CommitOutcome.PUBLISHED,
        CommitOutcome.ALREADY_PUBLISHED,
    }
    world.assert_visible(list(range(5)))


def test_a_transaction_timeout_above_the_brokers_bound_is_a_configuration_error(world):
    world.properties["transaction.timeout.ms"] = "3600000"
    with pytest.raises(InvalidConfigError, match=r"transaction\.max\.timeout\.ms"):
        world.committer(world.context()).recover([])


def test_at_least_once_writes_before_the_barrier_returns(world):
    world.guarantee = DeliveryGuarantee.AT_LEAST_ONCE
    writer = world.writer(world.context())
    pending = world.sealed(writer, 1, range(10)).committable
    assert (pending.records, pending.files) == (0, [])
    world.assert_visible(list(range(10)))


def test_without_a_guarantee_rows_arrive_without_waiting(world):
    world.guarantee = DeliveryGuarantee.NONE
    writer = world.writer(world.context())
    world.sealed(writer, 1, range(10))
    deadline = time.monotonic() + 10
    while len(world.visible()) < 10 and time.monotonic() < deadline:
        writer.flush_epoch()
        time.sleep(0.05)
    world.assert_visible(list(range(10)))
