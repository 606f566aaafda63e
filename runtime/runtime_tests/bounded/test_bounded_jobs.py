"""Jobs whose input ends: everything is counted, nothing twice, and the job is over (A17, T33)."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.api.driver import DriverConfig
from headrace.cli.cache import cache_dir
from headrace.connectors.kafka.reader import read_committed
from headrace.testing.driver_process import DriverProcess, kill_process
from headrace.testing.kafka_broker import KafkaBroker, resolve_broker_class_path
from runtime_tests.kill.ledger import free_port

HERE = Path(__file__).parent
RECORDS, KEYS, PARTITIONS = 9_000, 90, 4

pytestmark = [pytest.mark.integration, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    jars = resolve_broker_class_path(cache_dir())
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), jars) as broker:
        yield broker.bootstrap_servers


def produce(servers: str, topic: str, values: list[str]) -> None:
    """Write values to all partitions but the last one, which stays empty."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 20})
    for index, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=index % (PARTITIONS - 1))
        producer.poll(0)
    assert producer.flush(60) == 0


class BoundedJob:
    """A driver over a topic that is full already."""

    def __init__(self, servers: str, directory: Path, options: dict[str, str], failpoints: str):
        self.servers = servers
        self.input, self.output = f"in-{uuid.uuid4().hex}", f"out-{uuid.uuid4().hex}"
        admin = AdminClient({"bootstrap.servers": servers})
        for name in (self.input, self.output):
            admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
        keys = [f"key-{number % KEYS}" for number in range(RECORDS)]
        produce(servers, self.input, keys)
        self.expected = Counter(f"{key}:{n}:event" for key, n in Counter(keys).items())
        config = DriverConfig(
            job_id=uuid.uuid4().hex,
            job_name="bounded",
            namespace="test",
            program=str(HERE / "kafka_program.py"),
            args=[servers, self.input, self.output],
            parallelism=2,
            max_parallelism=128,
            config={
                "rest.port": str(free_port()),
                "execution.checkpointing.dir": f"file://{directory}/checkpoints",
                "execution.checkpointing.interval": "1 h",
                **options,
            },
            spark_conf={"spark.master": "local[2]"},
        )
        environment = {"HEADRACE_FAILPOINTS": failpoints} if failpoints else {}
        self.driver = DriverProcess(config, directory, environment)

    def late_records(self) -> None:
        """Write what comes after the end."""
        produce(self.servers, self.input, ["too-late"] * 300)

    def wait_for_end(self) -> None:
        """Wait until the driver has ended."""
        assert self.driver.wait(lambda _: self.driver.returncode is not None, 240), (
            self.driver.log_tail()
        )

    def assert_finished(self) -> None:
        """The job is over, its whole output is visible once, and nobody reads on."""
        driver = self.driver
        assert driver.returncode == 0, driver.log_tail()
        said = json.loads((driver.directory / "termination").read_text())
        assert said["state"] == "FINISHED"
        assert "the program went on" in driver.log_tail()
        client = {"bootstrap.servers": self.servers}
        actual = Counter((r.value or b"").decode() for r in read_committed(client, self.output))
        assert self.expected == actual

    def close(self) -> None:
        """End whatever is left."""
        self.driver.kill()
        for pid in self.driver.slots():
            kill_process(pid)


@pytest.fixture
def start_job(servers, tmp_path):
    jobs = []

    def start(options=None, failpoints=""):
        job = BoundedJob(servers, tmp_path, options or {}, failpoints)
        jobs.append(job)
        job.driver.start()
        return job

    yield start
    for job in jobs:
        job.close()


def test_a_bounded_topic_finishes_the_job_and_a_crash_does_not_move_its_end(start_job):
    """The end is found at the first start and kept in the checkpoint."""
    job = start_job(
        {"headrace.epoch.max-rows": "300", "execution.checkpointing.interval": "200 ms"}
    )
    assert job.driver.wait(lambda s: s is not None and s.last_checkpoint is not None, 180), (
        job.driver.log_tail()
    )
    assert job.driver.status().records_in < RECORDS, "the job was too fast for this test"
    job.driver.kill()
    job.late_records()
    job.driver.start()
    job.wait_for_end()
    job.assert_finished()


def test_output_of_the_final_checkpoint_survives_a_crash_before_it_was_published(
    start_job, tmp_path
):
    """There is one checkpoint in this job, the final one; its driver dies before the commit."""
    job = start_job(failpoints=f"driver.after-publish=1@{tmp_path}")
    job.wait_for_end()
    assert (tmp_path / "driver.after-publish").exists(), job.driver.log_tail()
    job.late_records()
    job.driver.start()
    job.wait_for_end()
    job.assert_finished()


def run_program(directory: Path, name: str, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, HERE / name, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return run.stdout


def test_a_fixed_set_of_files_is_read_once_and_finishes_the_job(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    names = ["a.txt", "b c.txt", "ü%20{1}.txt", "_hidden.txt"]
    for name in names:
        (source / name).write_text(f"first of {name}\nlast of {name}\n")
    run_program(tmp_path, "files_program.py", str(source), str(target))
    assert (source / "late.txt").exists()
    written = [line for part in target.glob("part-*") for line in part.read_text().splitlines()]
    expected = [f"{which} of {n}".upper() for n in names[:-1] for which in ("first", "last")]
    assert sorted(expected) == sorted(written)


def test_a_collection_ends_event_time_and_the_program_goes_on(tmp_path):
    """At parallelism 1 a printed line is the value alone."""
    said = run_program(tmp_path, "collection_program.py").splitlines()
    end = (1 << 63) - 1
    assert {"a at 1", "b at 2", "a at 3"} == set(said[:3])
    assert [f"{key} ends, watermark {end}" for key in "aabb"] == sorted(said[3:7])
    assert ["done"] == said[7:]
