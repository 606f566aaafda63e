"""The operator process dies by SIGKILL at random moments of a job's life (OP16, OP50, I9).

The seed is printed. The node keeps the books: how many driver pods there ever were, and how many at
once.
"""

import random
import time

import pytest

from e2e_tests.operator.conftest import OPERATOR_NAMESPACE, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.kill]

KILLS_A_SCENE = 3


def act(job, scene):
    patch = '{"spec": %s}'
    match scene:
        case "create":
            job.apply()
        case "upgrade":
            job.apply(image="registry.local/job:2")
        case "lose":
            job.kubectl("delete", "pod", "payments-driver", "--wait=false", "--grace-period=0")
        case "suspend":
            body = patch % '{"state": "suspended"}'
            job.kubectl("patch", "sj", "payments", "--type=merge", "-p", body)
        case "resume":
            body = patch % '{"state": "running"}'
            job.kubectl("patch", "sj", "payments", "--type=merge", "-p", body)
        case "delete":
            job.kubectl("delete", "sj", "payments", "--wait=false")


def is_over(job, scene, drivers, node):
    if scene == "delete":
        return job.get() is None
    status = job.status()
    state = "Suspended" if scene == "suspend" else "Running"
    fresh = job.get()["metadata"]["generation"] == status.get("observedGeneration")
    return status.get("lifecycleState") == state and fresh and len(node.drivers_seen) == drivers


def test_random_kills_never_make_a_second_driver(job, node, operator):
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed={seed}")  # noqa: T201 - to repeat a failure
    dice = random.Random(seed)
    scenes = {"create": 1, "upgrade": 2, "lose": 3, "suspend": 3, "resume": 4, "delete": 4}
    for scene, drivers in scenes.items():
        act(job, scene)
        for _ in range(KILLS_A_SCENE):
            # A start takes about 2 s until the first decision: most moments fall into the work.
            time.sleep(dice.uniform(0.0, 4.0))
            operator.kill()
            operator.start()
        eventually(lambda s=scene, d=drivers: is_over(job, s, d, node), 90, job.status)
        assert 1 == node.most_at_once, f"scene={scene} seed={seed}"
        assert drivers == len(node.drivers_seen), f"scene={scene} seed={seed}"
    assert [] == job.left_over()


def test_a_change_while_the_operator_is_down_is_acted_on_when_it_is_back(job, node, operator):
    job.apply()
    job.wait_for_condition("Ready")
    operator.kill()
    job.apply(image="registry.local/job:2")
    started_s = time.monotonic()
    operator.start()
    eventually(lambda: len(node.drivers_seen) == 2, 30)
    assert time.monotonic() - started_s < 30
    job.wait_for_state("Running")


def test_a_restarted_operator_adopts_a_running_job_without_touching_it(job, node, operator):
    job.apply()
    job.wait_for_condition("Ready")
    before = job.get()["metadata"]["resourceVersion"], job.driver()["metadata"]["uid"]
    operator.kill()
    operator.start()
    eventually(lambda: b"operator is ready" in operator.log.read_bytes(), 30)
    time.sleep(3)
    assert before == (job.get()["metadata"]["resourceVersion"], job.driver()["metadata"]["uid"])


def test_a_killed_leader_is_followed_within_twenty_seconds(job, node, make_operator):
    options = f"--election-namespace={OPERATOR_NAMESPACE}"
    first, second = make_operator(options), make_operator(options)
    first.start()
    eventually(lambda: b"leads=True" in first.log.read_bytes(), 30)
    second.start()
    eventually(lambda: b"operator is ready" in second.log.read_bytes(), 30)
    job.apply()
    job.wait_for_condition("Ready")
    assert b"DriverCreated" not in second.log.read_bytes()
    first.kill()
    killed_s = time.monotonic()
    job.apply(image="registry.local/job:2")
    eventually(lambda: len(node.drivers_seen) == 2, 40)
    assert time.monotonic() - killed_s < 20
    job.wait_for_state("Running")
    second.stop()
    first.start()
    started_s = time.monotonic()
    eventually(lambda: first.log.read_bytes().count(b"leads=True") == 2, 30)
    assert time.monotonic() - started_s < 12, "a leader that is stopped gives its lease back"
    assert 1 == node.most_at_once
    assert 2 == len(node.drivers_seen)
    lease = job.plane.get("-n", OPERATOR_NAMESPACE, "lease", "headrace-operator")
    assert 2 == lease["spec"]["leaseTransitions"]


def test_two_operators_at_once_make_one_driver(job, node, operator, make_operator):
    second = make_operator()
    second.start()
    job.apply()
    job.wait_for_condition("Ready")
    job.apply(image="registry.local/job:2")
    eventually(lambda: is_over(job, "upgrade", 2, node), 60, job.status)
    assert 1 == node.most_at_once
    job.kubectl("delete", "sj", "payments", "--timeout=40s")
    assert [] == job.left_over()
