"""Rescaling a running job: exact under load, and back to the old parallelism when it fails."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from itertools import pairwise

import pytest

from headrace.cli.cache import cache_dir
from headrace.keygroups import slot_of_key_group
from headrace.slot.hard_end import GRACE_S
from headrace.testing.driver_process import TOKEN, kill_process
from headrace.testing.kafka_broker import KafkaBroker, resolve_broker_class_path
from runtime_tests.kill.ledger import MAX_PARALLELISM, one_key_a_group, running_ledger

pytestmark = [pytest.mark.kill, pytest.mark.timeout(900)]

ENDED = ("COMPLETED", "FAILED")


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    jars = resolve_broker_class_path(cache_dir())
    with KafkaBroker(tmp_path_factory.mktemp("kafka"), jars) as broker:
        yield broker.bootstrap_servers


def call(driver, body=None, token=TOKEN):
    """GET or POST the job's rescale; returns status code and answer."""
    config = driver.config
    url = f"http://127.0.0.1:{config.config['rest.port']}/jobs/{config.job_id}/rescale"
    request = urllib.request.Request(
        url,
        data=json.dumps(body).encode() if body is not None else None,
        headers={"content-type": "application/json", "authorization": f"Bearer {token}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def order(driver, parallelism):
    assert driver.wait(
        lambda s: s is not None and s.state == "RUNNING" and s.epochs_committed > 0, 120
    ), driver.log_tail()
    status, answer = call(driver, {"parallelism": parallelism})
    assert status == 202, answer
    return answer["request-id"]


def wait_phase(driver, phases, timeout_s=180):
    """Wait until the rescale is in one of the phases; returns the report."""
    deadline = time.monotonic() + timeout_s
    report = {}
    while time.monotonic() < deadline:
        _, report = call(driver)
        if report.get("phase") in phases:
            return report
        time.sleep(0.05)
    raise AssertionError(f"{report}\n{driver.log_tail(200)}")


def moved(old, new):
    """Return how many key groups change their slot."""
    return sum(
        slot_of_key_group(group, old, MAX_PARALLELISM)
        != slot_of_key_group(group, new, MAX_PARALLELISM)
        for group in range(MAX_PARALLELISM)
    )


def restored_after_switch(log):
    """How slots of new layouts came by their state; from prepared rows unless those were lost."""
    _, _, after = log.partition("rescale phase=SWITCHING")
    return set(re.findall(r"slot restored slot=\d+ (local=\w+)", after))


def test_a_job_is_rescaled_under_load_and_stays_exact(tmp_path, servers):
    """2 -> 4 -> 8 -> 3 and, on the way on, 1 -> 2 -> 3 -> 2 -> 1; a key in every key group."""
    walk = (4, 8, 3, 1, 2, 3, 2, 1)
    keys = one_key_a_group()
    slow = {"headrace.epoch.max-rows": "500"}
    with running_ledger(
        tmp_path, servers, records=70_000, seed=11, keys=keys, options=slow
    ) as ledger:
        assert set(keys) == ledger.expected.keys(), "every key group has records"
        driver = ledger.driver
        reports = []
        for parallelism in walk:
            order(driver, parallelism)
            report = wait_phase(driver, ENDED)
            assert report["phase"] == "COMPLETED", report
            status = driver.status()
            assert (status.parallelism, status.slots_registered) == (parallelism, parallelism)
            reports.append(report)
        assert [r["keyGroupsMoved"] for r in reports] == [
            moved(old, new) for old, new in pairwise((2, *walk))
        ]
        assert all(r["pauseMs"] > 0 and r["bytesMoved"] > 0 for r in reports), reports
        assert driver.wait(lambda _: len(driver.slots()) == walk[-1], GRACE_S + 5), (
            f"slots of old layouts are left over: {driver.slots()}"
        )
        ledger.supervise_until_complete(240)
        assert (driver.starts, driver.status().restarts) == (1, 0)
        assert restored_after_switch(driver.log_tail(100_000)) == {"local=True"}
        ledger.assert_exact()


@pytest.mark.parametrize("phase", ["PREPARING", "SWITCHING", "VERIFYING"])
def test_a_rescale_that_loses_a_slot_returns_to_the_old_parallelism(tmp_path, servers, phase):
    with running_ledger(tmp_path, servers, records=40_000, seed=12) as ledger:
        driver = ledger.driver
        assert driver.wait(lambda s: s is not None and s.epochs_committed > 0, 120)
        before = set(driver.slots())
        order(driver, 4)
        wait_phase(driver, (phase, *ENDED))
        deadline = time.monotonic() + 60
        while not (new := [pid for pid in driver.slots() if pid not in before]):
            assert time.monotonic() < deadline, driver.log_tail()
            time.sleep(0.02)
        kill_process(new[0])
        report = wait_phase(driver, ENDED)
        if report["phase"] == "FAILED":  # it may just have completed before the kill
            assert report["fromParallelism"] == 2
            assert driver.wait(
                lambda s: s is not None and s.parallelism == 2 and s.state == "RUNNING", 120
            )
        ledger.supervise_until_complete(300)
        ledger.assert_exact()


def test_a_driver_that_dies_at_the_switch_loses_nothing(tmp_path, servers):
    with running_ledger(tmp_path, servers, records=40_000, seed=13) as ledger:
        driver = ledger.driver
        order(driver, 4)
        wait_phase(driver, ("SWITCHING", "VERIFYING", *ENDED))
        driver.kill()
        ledger.supervise_until_complete(300)
        ledger.assert_exact()


def test_orders_that_make_no_sense_are_refused(tmp_path, servers):
    with running_ledger(tmp_path, servers, records=20_000, seed=14) as ledger:
        driver = ledger.driver
        assert driver.wait(lambda s: s is not None and s.epochs_committed > 0, 120)
        assert call(driver, {"parallelism": 4}, token="wrong")[0] == 401
        assert call(driver, {"parallelism": 0})[0] == 422
        status, answer = call(driver, {"parallelism": 129})
        assert (status, "max_parallelism=128" in answer["detail"]) == (400, True)
        status, answer = call(driver, {"parallelism": 2})
        assert (status, "already" in answer["detail"]) == (400, True)
        assert call(driver, {"parallelism": 3, "fast": True})[0] == 422
        order(driver, 3)
        status, answer = call(driver, {"parallelism": 4})
        assert (status, "under way" in answer["detail"]) == (409, True)
