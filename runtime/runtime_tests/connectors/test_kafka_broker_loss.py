"""The broker itself is killed in the middle of a commit and comes back on the same data."""

from __future__ import annotations

import threading

import pytest

from headrace.connectors.sink import CommitOutcome

pytestmark = [pytest.mark.integration, pytest.mark.kill]


class KillsBroker:
    """A producer that kills the broker before or after a call; which comes back 0.5 s later."""

    def __init__(self, producer, broker, call, moment, armed):
        self._producer, self._broker = producer, broker
        self._call, self._moment, self._armed = call, moment, armed
        self.restart = None

    def __len__(self):
        return len(self._producer)

    def __getattr__(self, name):
        method = getattr(self._producer, name)
        if name != self._call or not self._armed:
            return method

        def kill_then_call(*args, **kwargs):
            self._armed.clear()
            if self._moment == "after":
                method(*args, **kwargs)
            self._broker.kill()
            self.restart = threading.Timer(0.5, self._broker.start)
            self.restart.start()
            return None if self._moment == "after" else method(*args, **kwargs)

        return kill_then_call


@pytest.mark.parametrize(
    ("call", "moment"),
    [
        ("send_offsets_to_transaction", "before"),
        ("commit_transaction", "before"),
        ("commit_transaction", "after"),
    ],
)
def test_a_commit_survives_the_loss_of_its_broker(world, broker, call, moment):
    from confluent_kafka import Producer

    armed, producers = [], []

    def factory(config):
        producers.append(KillsBroker(Producer(config), broker, call, moment, armed))
        return producers[-1]

    context = world.context()
    committer = world.committer(context, factory)
    committer.recover([])
    item = world.sealed(world.writer(context), 1, range(50))
    armed.append(True)
    try:
        assert CommitOutcome.PUBLISHED is committer.commit(item)
    finally:
        for producer in producers:
            if producer.restart is not None:
                producer.restart.join()
    world.assert_visible(list(range(50)))
    assert world.ledger() == 1
