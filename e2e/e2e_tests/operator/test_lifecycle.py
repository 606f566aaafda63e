"""From apply to delete on a real API server, with the operator's own rights."""

import json

import pytest

from e2e_tests.operator.conftest import eventually
from headrace.api.driver import JobError, JobState, TerminationMessage

pytestmark = pytest.mark.e2e


@pytest.fixture
def running(job, node, operator):
    job.apply()
    job.wait_for_condition("Ready")
    return job


def test_an_apply_leads_to_a_ready_job(running):
    status = running.status()
    assert "Running" == status["lifecycleState"]
    assert (1, 2, 0) == (status["observedGeneration"], status["parallelism"], status["restarts"])
    line = running.kubectl("get", "sj", running.name, "--no-headers").stdout.split()
    assert ["payments", "Running", "True", "2", "2"] == line[:5]
    assert {"Submitted", "DriverCreated", "Ready"} <= running.events().keys()


def test_every_object_belongs_to_the_job(running):
    assert [
        "ConfigMap/payments-driver",
        "Pod/payments-driver",
        "Role/payments-driver",
        "RoleBinding/payments-driver",
        "Secret/payments-token",
        "Service/payments-driver",
        "ServiceAccount/payments-driver",
    ] == sorted(running.left_over())


def test_a_deleted_driver_is_replaced_and_the_job_ready_again(running, node):
    running.kubectl("delete", "pod", "payments-driver", "--wait=false")
    eventually(lambda: len(node.drivers_seen) == 2)
    running.wait_for_state("Running")
    running.wait_for_condition("Ready")
    status = running.status()
    assert 1 == status["restarts"]
    # Whether the operator saw it go or found it gone depends on when it looked.
    assert status["lastRecovery"]["cause"] in {"DriverDeleted", "DriverLost"}
    assert status["lastRecovery"]["seconds"] < 30
    assert 1 == node.most_at_once


def test_a_changed_image_replaces_the_driver(running, node):
    running.apply(image="registry.local/job:2")
    eventually(lambda: running.status()["observedGeneration"] == 2, describe=running.status)
    running.wait_for_condition("Ready")
    assert "registry.local/job:2" == running.driver()["spec"]["containers"][0]["image"]
    assert 2 == len(node.drivers_seen)
    assert 0 == running.status()["restarts"]
    assert "fields=image effect=upgrade" in running.events()["SpecChanged"]


def test_scaling_by_kubectl_scale_reaches_the_driver(running, node):
    running.kubectl("scale", "streamjob/payments", "--replicas=4")
    eventually(lambda: len(node.drivers_seen) == 2)
    running.wait_for_condition("Ready")
    config = running.plane.get("-n", running.namespace, "configmap", "payments-driver")
    assert 4 == json.loads(config["data"]["job.json"])["parallelism"]


def test_a_changed_program_config_map_upgrades_the_job(job, node, operator):
    def put(text):
        job.plane.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "programs", "namespace": job.namespace},
                "data": {"job.py": text},
            }
        )

    job.apply(program={"configMap": {"name": "programs", "key": "job.py"}})
    job.wait_for_condition("Degraded")
    assert "ProgramMissing" == job.condition("Degraded")["reason"]
    put("print(1)")
    job.wait_for_condition("Ready")
    put("print(2)")
    eventually(lambda: len(node.drivers_seen) == 2, 30)
    job.wait_for_condition("Ready")
    config = job.plane.get("-n", job.namespace, "configmap", "payments-driver")
    assert "print(2)" == config["data"]["program.py"]
    assert "fields=program.configMap.text effect=upgrade" in job.events()["SpecChanged"]


def test_suspend_stops_everything_and_resume_starts_it_again(running, node):
    patch = '{"spec": {"state": "%s"}}'
    running.kubectl("patch", "sj", "payments", "--type=merge", "-p", patch % "suspended")
    running.wait_for_condition("Suspended")
    assert running.driver() is None
    running.kubectl("patch", "sj", "payments", "--type=merge", "-p", patch % "running")
    running.wait_for_state("Running")
    assert 2 == len(node.drivers_seen)
    assert 0 == running.status()["restarts"]


def test_a_restart_annotation_restarts_the_job(running, node):
    running.kubectl("annotate", "sj", "payments", "headrace.dev/restartedAt=now")
    eventually(lambda: len(node.drivers_seen) == 2)
    running.wait_for_state("Running")


@pytest.mark.parametrize("kind", ["service", "configmap", "serviceaccount", "role", "rolebinding"])
def test_what_is_deleted_is_made_again(running, node, kind):
    running.kubectl("delete", kind, "payments-driver", "--wait=false")
    get = lambda: running.plane.get("-n", running.namespace, kind, "payments-driver")  # noqa: E731
    eventually(lambda: get() is not None, 15)
    eventually(lambda: "ObjectRecreated" in running.events(), 5)
    assert 1 == len(node.drivers_seen)


def test_an_edited_object_is_changed_back(running):
    patch = '{"spec": {"selector": {"headrace.dev/job": "other"}}}'
    running.kubectl("patch", "service", "payments-driver", "-p", patch)

    def selector():
        service = running.plane.get("-n", running.namespace, "service", "payments-driver")
        return service["spec"]["selector"]["headrace.dev/job"]

    eventually(lambda: selector() == "payments", 15)


def test_deleting_the_token_rotates_it(running, node):
    running.kubectl("delete", "secret", "payments-token")
    eventually(lambda: len(node.drivers_seen) == 2, 30)
    running.wait_for_state("Running")
    assert "TokenRotated" in running.events()


def test_an_image_that_cannot_be_pulled_is_degraded_with_the_pods_own_words(job, node, operator):
    node.runs_pods = False
    job.apply(image="registry.local/nowhere:9")
    eventually(lambda: job.driver() is not None)
    node.hold_back("payments-driver", "ErrImagePull", "manifest unknown")
    job.wait_for_condition("Degraded", 30)
    condition = job.condition("Degraded")
    assert "ImagePullFailed" == condition["reason"]
    assert "manifest unknown" in condition["message"]
    assert "manifest unknown" in job.events()["ImagePullFailed"]
    node.runs_pods = True
    job.apply(image="registry.local/job:2")
    job.wait_for_condition("Ready")
    assert "False" == job.condition("Degraded")["status"]


def test_a_job_that_failed_for_good_says_why_and_is_fixed_by_apply(running, node):
    error = JobError(
        kind="InvalidProgram", message="the program never calls execute", restartable=False
    )
    said = TerminationMessage(state=JobState.FAILED, error=error)
    node.end_driver("payments-driver", 1, said.model_dump_json(by_alias=True))
    running.wait_for_state("Failed")
    assert "InvalidProgram" == running.condition("Degraded")["reason"]
    assert "InvalidProgram" == running.status()["lastError"]["kind"]
    assert 1 == len(node.drivers_seen)
    running.apply(program={"inline": "print(2)"})
    running.wait_for_state("Running")
    assert 2 == len(node.drivers_seen)


def test_a_crashed_driver_is_replaced_with_its_last_words_kept(running, node):
    node.end_driver("payments-driver", 137, "java.lang.OutOfMemoryError")
    eventually(lambda: len(node.drivers_seen) == 2)
    running.wait_for_state("Running")
    status = running.status()
    assert "OutOfMemoryError" in status["lastError"]["message"]
    assert 1 == status["restarts"]


def test_a_refused_driver_pod_is_degraded_with_the_reason(job, node, operator):
    job.plane.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "small", "namespace": job.namespace},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "64Mi"}}]},
        }
    )
    job.apply()
    job.wait_for_condition("Degraded")
    assert "ActionRefused" == job.condition("Degraded")["reason"]
    assert "maximum memory usage per Container is 64Mi" in job.condition("Degraded")["message"]
    job.kubectl("delete", "limitrange", "small")
    job.wait_for_condition("Ready")
    assert "False" == job.condition("Degraded")["status"]


def test_an_object_of_somebody_else_is_not_taken_over(job, node, operator):
    job.kubectl("create", "configmap", "payments-driver", "--from-literal=mine=yes")
    job.apply()
    job.wait_for_condition("Degraded")
    assert "NameConflict" == job.condition("Degraded")["reason"]
    assert job.driver() is None
    config = job.plane.get("-n", job.namespace, "configmap", "payments-driver")
    assert {"mine": "yes"} == config["data"]
    job.kubectl("delete", "configmap", "payments-driver")
    job.wait_for_condition("Ready")


def test_a_paused_job_is_left_alone(running, node):
    running.kubectl("annotate", "sj", "payments", "headrace.dev/paused=true")
    eventually(lambda: running.condition("Progressing").get("reason") == "Paused", 15)
    running.apply(image="registry.local/job:2")
    running.kubectl("annotate", "sj", "payments", "headrace.dev/paused-")
    running.kubectl("annotate", "sj", "payments", "headrace.dev/paused=true")
    running.kubectl("annotate", "sj", "payments", "headrace.dev/paused-")
    eventually(lambda: len(node.drivers_seen) == 2, 30)


@pytest.mark.parametrize("state", ["ready", "never started", "suspended", "held back"])
def test_deleting_leaves_nothing(job, node, operator, state):
    node.runs_pods = state != "held back"
    job.apply(state="suspended" if state == "suspended" else "running")
    if state == "ready":
        job.wait_for_condition("Ready")
    elif state == "suspended":
        job.wait_for_condition("Suspended")
    elif state == "held back":
        eventually(lambda: job.driver() is not None)
    job.kubectl("delete", "streamjob", "payments", "--timeout=40s")
    assert job.get() is None
    assert [] == job.left_over()


def test_a_driver_that_never_stops_does_not_hold_the_deletion_for_ever(running, node):
    node.runs_pods = False
    running.kubectl("delete", "streamjob", "payments", "--timeout=60s")
    assert running.get() is None
    assert "DeletionOverdue" in running.events()


def test_the_operators_account_cannot_list_secrets(plane, operator_kubeconfig, namespace):
    account = "system:serviceaccount:headrace-system:headrace-operator"
    for verb, answer in (("list", "no"), ("watch", "no"), ("get", "yes")):
        done = plane.kubectl(
            "auth", "can-i", verb, "secrets", "-n", namespace, f"--as={account}", check=False
        )
        assert answer == done.stdout.strip()
