"""A job under attack and the ledger that shows what became of every record."""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.api.driver import DriverConfig
from headrace.common import Types
from headrace.connectors.kafka.reader import read_committed
from headrace.keygroups import key_group_of_hash
from headrace.testing.driver_process import DriverProcess, kill_process

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROGRAM = Path(__file__).with_name("count_program.py")
PARTITIONS = 3
MAX_PARALLELISM = 128
KEYS = tuple(f"merchant-{number}" for number in range(500))


@dataclass(slots=True)
class Ledger:
    """One job, its input and its expected output."""

    driver: DriverProcess
    servers: str
    output_topic: str
    expected: Counter[str]

    @property
    def total(self) -> int:
        """Number of input records, and of expected output records."""
        return sum(self.expected.values())

    def output(self) -> Counter[str]:
        """Return what a read_committed consumer sees, by value."""
        client = {"bootstrap.servers": self.servers}
        return Counter((r.value or b"").decode() for r in read_committed(client, self.output_topic))

    def supervise_until_complete(self, timeout_s: float) -> None:
        """Play the operator: start killed drivers again, until the whole output is there."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.driver.returncode is not None:
                assert self.driver.returncode < 0, self.driver.log_tail()
                self.driver.kill()
                self.driver.start()
            if self.output().total() >= self.total:
                return
            time.sleep(0.5)
        seen = self.output().total()
        raise AssertionError(f"output is incomplete: {seen}/{self.total}\n{self.driver.log_tail()}")

    def assert_exact(self) -> None:
        """Compare the committed output with the oracle: every count of every key exactly once."""
        oracle = Counter(
            f"{key}:{count}" for key, n in self.expected.items() for count in range(1, n + 1)
        )
        actual = self.output()
        missing, surplus = oracle - actual, actual - oracle
        assert not missing, f"{missing.total()} missing, e.g. {list(missing)[:5]}"
        assert not surplus, f"{surplus.total()} too many, e.g. {list(surplus)[:5]}"


@contextlib.contextmanager
def running_ledger(
    directory: Path,
    servers: str,
    *,
    records: int,
    seed: int,
    parallelism: int = 2,
    master: str | None = None,
    failpoints: str = "",
    options: Mapping[str, str] | None = None,
    keys: Sequence[str] = KEYS,
) -> Iterator[Ledger]:
    """Start a job over ``records`` random records; kills whatever is left of it at the end."""
    topics = f"in-{uuid.uuid4().hex}", f"out-{uuid.uuid4().hex}"
    expected = fill_input(servers, topics, records, seed, keys)
    input_topic, output_topic = topics
    config = DriverConfig(
        job_id=uuid.uuid4().hex,
        job_name="ledger",
        namespace="test",
        program=str(PROGRAM),
        args=[servers, input_topic, output_topic],
        parallelism=parallelism,
        max_parallelism=MAX_PARALLELISM,
        config={
            "rest.port": str(free_port()),
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": f"file://{directory}/checkpoints",
            "state.checkpoints.num-retained": "2",
            "headrace.epoch.max-rows": "1500",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "100 ms",
            **(options or {}),
        },
        spark_conf={"spark.master": master or f"local[{parallelism}]"},
    )
    environment = {"HEADRACE_FAILPOINTS": failpoints} if failpoints else {}
    driver = DriverProcess(config, directory, environment)
    driver.start()
    try:
        yield Ledger(driver, servers, output_topic, expected)
    finally:
        driver.kill()
        for pid in driver.slots():
            kill_process(pid)


def one_key_a_group() -> tuple[str, ...]:
    """Return keys of which each belongs to another key group, in the order of the groups."""
    hash64 = Types.STRING().key_serializer().hash64
    found: dict[int, str] = {}
    for number in itertools.count():
        key = f"merchant-{number}"
        found.setdefault(int(key_group_of_hash(hash64(key), MAX_PARALLELISM)), key)
        if len(found) == MAX_PARALLELISM:
            return tuple(found[group] for group in range(MAX_PARALLELISM))
    raise AssertionError


def fill_input(
    servers: str, topics: tuple[str, str], records: int, seed: int, keys: Sequence[str]
) -> Counter[str]:
    """Make the topics, write the input, and return how often each key was written."""
    admin = AdminClient({"bootstrap.servers": servers})
    for name in topics:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    chooser = random.Random(seed)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    expected: Counter[str] = Counter()
    for _ in range(records):
        key = chooser.choice(keys)
        expected[key] += 1
        producer.produce(topics[0], value=key.encode(), partition=chooser.randrange(PARTITIONS))
        producer.poll(0)
    assert producer.flush(60) == 0
    return expected


def free_port() -> int:
    """Return a TCP port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
