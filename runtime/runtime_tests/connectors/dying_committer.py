"""A slot process that is killed at a chosen call of a commit: run by the crash tests.

Arguments: servers, directory, job id, topic, call, ``before`` or ``after``, first value, count.
Writes ``committable.json`` and its spool into the directory, as a completed checkpoint would hold
them, and then begins the commit that kills it with SIGKILL.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec
from confluent_kafka import Producer

from headrace.ids import JobId
from runtime_tests.connectors.sink_world import SinkWorld


class DyingProducer:
    """A producer that ends its process before or after the n-th use of one call."""

    def __init__(self, producer, call, moment, armed):
        self._producer, self._call, self._moment, self._armed = producer, call, moment, armed

    def __len__(self):
        return len(self._producer)

    def __getattr__(self, name):
        method = getattr(self._producer, name)
        if name != self._call or not self._armed.exists():
            return method

        def die(*args, **kwargs):
            if self._moment == "after":
                method(*args, **kwargs)
                self._producer.flush(10)
            os.kill(os.getpid(), signal.SIGKILL)

        return die


def main() -> None:
    servers, directory, job_id, topic, call, moment, first, count = sys.argv[1:]
    world = SinkWorld(servers, Path(directory), JobId(job_id), topic)
    armed = Path(directory) / "armed"
    context = world.context()
    committer = world.committer(
        context, lambda config: DyingProducer(Producer(config), call, moment, armed)
    )
    committer.recover([])
    values = range(int(first), int(first) + int(count))
    item = world.sealed(world.writer(context), 1, values)
    (Path(directory) / "committable.json").write_bytes(
        msgspec.json.encode((item.committable, [str(path) for path in item.paths]))
    )
    armed.touch()
    committer.commit(item)


main()
