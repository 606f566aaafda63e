"""Exactly-once by proof: processes are killed, output is compared with an oracle (T32)."""

from __future__ import annotations

import logging
import os
import random
import time

import pytest

from headrace.cli.cache import cache_dir
from headrace.failpoints import POINTS
from headrace.testing.driver_process import kill_process
from headrace.testing.kafka_broker import KafkaBroker, resolve_broker_class_path
from runtime_tests.kill.ledger import running_ledger

pytestmark = [pytest.mark.kill, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    jars = resolve_broker_class_path(cache_dir())
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), jars) as broker:
        yield broker.bootstrap_servers


def test_output_is_exact_without_any_kill(tmp_path, servers):
    with running_ledger(tmp_path, servers, records=20_000, seed=1) as ledger:
        ledger.supervise_until_complete(240)
        ledger.assert_exact()


@pytest.mark.parametrize("point", POINTS)
def test_output_is_exact_when_the_process_at_this_step_of_the_protocol_is_killed(
    tmp_path, servers, point
):
    failpoint = f"{point}=3@{tmp_path}"
    if point in {"driver.after-claim", "slot.before-restored"}:
        failpoint = f"{point}=1@{tmp_path}"
    with running_ledger(tmp_path, servers, records=20_000, seed=2, failpoints=failpoint) as ledger:
        ledger.supervise_until_complete(300)
        assert (tmp_path / point).exists(), "the point was never reached"
        ledger.assert_exact()


def test_output_is_exact_under_random_kills_of_slots_and_drivers(tmp_path, servers):
    seed = int(os.environ.get("HEADRACE_KILL_SEED", random.SystemRandom().randrange(1 << 31)))
    kills = int(os.environ.get("HEADRACE_KILLS", "8"))
    logging.getLogger(__name__).warning("seed=%s kills=%s", seed, kills)
    chooser = random.Random(seed)
    with running_ledger(tmp_path, servers, records=40_000, seed=seed) as ledger:
        driver = ledger.driver
        for number in range(kills):
            assert driver.wait(lambda s: s is not None and s.epochs_committed > 0, 120), (
                driver.log_tail()
            )
            time.sleep(chooser.uniform(0.0, 2.5))
            if number % 3 == 2:
                driver.kill()
                driver.start()
            else:
                victims = driver.slots()
                if victims:
                    kill_process(chooser.choice(victims))
        ledger.supervise_until_complete(420)
        ledger.assert_exact()


def test_output_is_exact_when_executors_are_killed(tmp_path, servers):
    master = "local-cluster[2,1,1024]"
    with running_ledger(tmp_path, servers, records=20_000, seed=4, master=master) as ledger:
        driver = ledger.driver
        for _ in range(2):
            assert driver.wait(
                lambda s: (
                    s is not None and s.last_checkpoint is not None and s.epochs_committed > 1
                ),
                180,
            ), driver.log_tail()
            executors = driver.executors()
            assert len(executors) == 2, driver.log_tail()
            kill_process(executors[0])
            assert driver.wait(lambda s: s is not None and s.epochs_committed == 0, 60)
        ledger.supervise_until_complete(300)
        ledger.assert_exact()


def test_output_is_exact_over_changes_of_parallelism(tmp_path, servers):
    with running_ledger(tmp_path, servers, records=20_000, seed=5) as ledger:
        driver = ledger.driver
        for parallelism in (4, 1):
            assert driver.wait(lambda s: s is not None and s.last_checkpoint is not None, 120), (
                driver.log_tail()
            )
            driver.kill()
            driver.config = driver.config.model_copy(update={"parallelism": parallelism})
            driver.start()
            assert driver.wait(
                lambda s, p=parallelism: (
                    s is not None
                    and (s.parallelism, s.slots_registered) == (p, p)
                    and s.epochs_committed > 0
                ),
                120,
            ), driver.log_tail()
            assert driver.status().restored_from is not None
        ledger.supervise_until_complete(240)
        ledger.assert_exact()
