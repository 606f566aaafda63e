"""A slow function makes epochs small, on a real driver with a real broker (J6, K1, K8)."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
import uuid
from pathlib import Path

import pytest

from headrace.api.driver import DriverConfig
from headrace.cli.cache import cache_dir
from headrace.testing.driver_process import DriverProcess, kill_process
from headrace.testing.kafka_broker import KafkaBroker, resolve_broker_class_path
from runtime_tests.engine.test_read_limits import fill

PROGRAM = Path(__file__).with_name("slow_program.py")
RECORDS = 40_000


@pytest.mark.integration
def test_a_backlog_is_read_in_epochs_of_the_target_duration_and_its_lag_is_told(tmp_path):
    """40k records of 0.2 ms are 8 s of work: with a target of 1 s that takes eight epochs or so."""
    with KafkaBroker(tmp_path / "kafka", resolve_broker_class_path(cache_dir())) as broker:
        fill(broker.bootstrap_servers, {"in": RECORDS})
        driver = start(tmp_path, broker.bootstrap_servers)
        try:
            seen = observe(driver, 120)
        finally:
            driver.kill()
            for pid in driver.slots():
                kill_process(pid)

    lags = [figures["sourceLag"] for figures in seen]
    assert lags[-1] == 0, driver.log_tail()
    assert lags == sorted(lags, reverse=True)
    assert lags[0] >= RECORDS - 5_000
    assert len({lag for lag in lags if lag}) >= 6
    assert 500 <= seen[-1]["epochMaxRows"] <= RECORDS / 3
    assert RECORDS == seen[-1]["numRecordsIn"]


def start(directory: Path, servers: str) -> DriverProcess:
    """Start the program with adaptive epochs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = DriverConfig(
        job_id=uuid.uuid4().hex,
        job_name="slow",
        namespace="test",
        program=str(PROGRAM),
        args=[servers, "in"],
        parallelism=1,
        max_parallelism=128,
        config={
            "rest.port": str(port),
            "execution.checkpointing.interval": "10 s",
            "execution.checkpointing.dir": f"file://{directory}/checkpoints",
        },
        spark_conf={"spark.master": "local[2]"},
    )
    driver = DriverProcess(config, directory)
    driver.start()
    return driver


def observe(driver: DriverProcess, timeout_s: float) -> list[dict[str, float]]:
    """Return the figures of every epoch that was seen, until the backlog is gone."""
    names = "sourceLag,epochMaxRows,numRecordsIn"
    port, job = driver.config.config["rest.port"], driver.config.job_id
    url = f"http://127.0.0.1:{port}/jobs/{job}/metrics?get={names}"
    seen: list[dict[str, float]] = []
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and driver.returncode is None:
        status = driver.status()
        if status is not None and status.epochs_committed > 0:
            with urllib.request.urlopen(url, timeout=5) as answer:
                found = {entry["id"]: float(entry["value"]) for entry in json.load(answer)}
            if found.keys() == set(names.split(",")):
                seen.append(found)
                if found["sourceLag"] == 0:
                    return seen
        time.sleep(0.05)
    return seen
