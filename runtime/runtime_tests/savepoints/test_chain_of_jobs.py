"""A stream that jobs work on one after the other, from savepoint to savepoint, under kills.

Each job has its own id, parallelism, state backend and ledgers; they share input, output topic and
transactional ids. What `read_committed` consumers see in the end must be what one undisturbed job
would have written: nothing lost or repeated between the last output of one job and the first of the
next (E10), although the program says ``earliest`` (E12).
"""

from __future__ import annotations

import os
import random
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli.cache import cache_dir
from headrace.connectors.kafka.reader import read_committed
from headrace.testing.driver_process import kill_process
from headrace.testing.kafka_broker import KafkaBroker, resolve_broker_class_path
from runtime_tests.kill.ledger import PARTITIONS
from runtime_tests.kill.ledger import PROGRAM as KAFKA_COUNT
from runtime_tests.savepoints.counting import Job, World, running_job

pytestmark = [pytest.mark.kill, pytest.mark.timeout(900)]

JOBS = ((2, "rocksdb", "NATIVE"), (3, "hashmap", "CANONICAL"), (1, "rocksdb", "NATIVE"))
"""Parallelism and backend of each job, and the format of the savepoint that it ends with."""


class Stream:
    """Input and output topics, and what the output must be."""

    def __init__(self, servers: str, chooser: random.Random) -> None:
        self.servers = servers
        self.chooser = chooser
        self.input, self.output = f"in-{uuid.uuid4().hex}", f"out-{uuid.uuid4().hex}"
        self.written: Counter[str] = Counter()
        admin = AdminClient({"bootstrap.servers": servers})
        for name in (self.input, self.output):
            admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)

    def write(self, records: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 20})
        for _ in range(records):
            key = f"merchant-{self.chooser.randrange(200)}"
            self.written[key] += 1
            partition = self.chooser.randrange(PARTITIONS)
            producer.produce(self.input, value=key.encode(), partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0

    def expected(self) -> Counter[str]:
        return Counter(
            f"{key}:{n + 1}" for key, lines in self.written.items() for n in range(lines)
        )

    def committed(self) -> Counter[str]:
        client = {"bootstrap.servers": self.servers}
        return Counter((r.value or b"").decode() for r in read_committed(client, self.output))


def run_under_kills(job: Job, stream: Stream, kills: int) -> None:
    """Kill slots, write input and take savepoints meanwhile."""
    for _ in range(kills):
        job.wait_until(lambda: (s := job.driver.status()) is not None and s.epochs_committed > 0)
        stream.write(1500)
        trigger_id = job.order("/savepoints")
        time.sleep(stream.chooser.uniform(0.0, 1.5))
        victims = job.driver.slots()
        if victims:
            kill_process(stream.chooser.choice(victims))
        outcome = job.outcome(trigger_id).operation
        assert outcome is not None


def test_no_record_is_lost_or_repeated_over_a_chain_of_jobs(tmp_path: Path) -> None:
    seed = int(os.environ.get("HEADRACE_KILL_SEED", random.SystemRandom().randrange(1 << 31)))
    world = World(tmp_path)
    savepoint: str | None = None
    with KafkaBroker(tmp_path / "kafka", resolve_broker_class_path(cache_dir())) as broker:
        stream = Stream(broker.bootstrap_servers, random.Random(seed))
        stream.write(3000)
        for number, (parallelism, backend, form) in enumerate(JOBS):
            with running_job(
                world,
                f"job-{number}",
                tmp_path / "unused",
                program=KAFKA_COUNT,
                args=[broker.bootstrap_servers, stream.input, stream.output],
                parallelism=parallelism,
                restore=savepoint,
                options={"state.backend.type": backend},
            ) as job:
                run_under_kills(job, stream, kills=1)
                if number < 2:
                    savepoint = job.location(job.order("/stop", formatType=form))
                    assert job.wait_for_end() == 0
                    stream.write(1500)
                else:
                    job.wait_until(lambda: stream.committed().total() >= stream.expected().total())
        actual, expected = stream.committed(), stream.expected()
        assert (Counter(), Counter()) == (expected - actual, actual - expected), f"seed={seed}"
