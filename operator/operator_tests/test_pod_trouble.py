"""What is wrong with a pod is found wherever Kubernetes says it, in its own words (OP9)."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from headrace.api.driver import JobError, JobState, TerminationMessage
from headrace_operator.observe.facts import DriverAnswer, PodProblem, PodTrouble
from headrace_operator.observe.pods import observe_pod, problem_of_events
from operator_tests.world import driver_pod, executor_pod, job_status, later, running


def pod(status, *, node="node1"):
    return {
        "metadata": {
            "name": "payments-driver",
            "uid": "u1",
            "creationTimestamp": "2026-05-01T12:00:00Z",
            "ownerReferences": [{"uid": "o1"}],
        },
        "spec": {"nodeName": node},
        "status": status,
    }


def waiting(reason, message=""):
    return {
        "phase": "Pending",
        "containerStatuses": [
            {"name": "driver", "state": {"waiting": {"reason": reason, "message": message}}}
        ],
    }


def terminated(code, reason, message=""):
    ended = {
        "exitCode": code,
        "reason": reason,
        "message": message,
        "finishedAt": "2026-05-01T12:01:00Z",
    }
    return {
        "phase": "Failed",
        "containerStatuses": [{"name": "driver", "state": {"terminated": ended}}],
    }


CASES = [
    (
        {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/1 nodes are available: 1 Insufficient memory.",
                }
            ],
        },
        PodTrouble.UNSCHEDULABLE,
        "1 Insufficient memory",
    ),
    (
        waiting("ErrImagePull", "manifest unknown"),
        PodTrouble.IMAGE_PULL_FAILED,
        "ErrImagePull: manifest unknown",
    ),
    (
        waiting("ImagePullBackOff", 'Back-off pulling image "x:9"'),
        PodTrouble.IMAGE_PULL_FAILED,
        'ImagePullBackOff: Back-off pulling image "x:9"',
    ),
    (waiting("InvalidImageName", "couldn't parse"), PodTrouble.IMAGE_PULL_FAILED, "couldn't parse"),
    (
        waiting("CreateContainerConfigError", 'secret "s3" not found'),
        PodTrouble.CONTAINER_CONFIG_FAILED,
        'secret "s3" not found',
    ),
    (
        waiting("RunContainerError", "exec: headrace: not found"),
        PodTrouble.CONTAINER_START_FAILED,
        "exec: headrace: not found",
    ),
    (waiting("CrashLoopBackOff", "back-off 10s"), PodTrouble.CRASH_LOOP, "back-off 10s"),
    (terminated(137, "OOMKilled"), PodTrouble.OOM_KILLED, "more memory than its limit"),
    (
        terminated(1, "Error", "ModuleNotFoundError: No module named 'rules'"),
        PodTrouble.CONTAINER_EXITED,
        "exit_code=1 ModuleNotFoundError: No module named 'rules'",
    ),
    (
        terminated(128, "StartError", "no such file"),
        PodTrouble.CONTAINER_START_FAILED,
        "no such file",
    ),
    (
        {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory."},
        PodTrouble.EVICTED,
        "The node was low on memory.",
    ),
    (
        {
            "phase": "Pending",
            "initContainerStatuses": [
                {"name": "init", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}
            ],
        },
        PodTrouble.IMAGE_PULL_FAILED,
        "ErrImagePull: no",
    ),
]


@pytest.mark.parametrize(("status", "reason", "words"), CASES)
def test_trouble_is_found_with_the_pods_own_words(status, reason, words):
    problem = observe_pod(pod(status), "driver").problem
    assert reason is problem.reason
    assert words in problem.message
    assert problem.message.startswith("pod payments-driver: ")


def test_a_pod_that_runs_or_starts_is_no_trouble():
    ready = {
        "phase": "Running",
        "podIP": "10.0.0.7",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "driver", "state": {"running": {}}}],
    }
    seen = observe_pod(pod(ready), "driver")
    assert (None, True, "10.0.0.7", frozenset({"o1"})) == (
        seen.problem,
        seen.ready,
        seen.ip,
        seen.owner_uids,
    )
    assert observe_pod(pod(waiting("ContainerCreating")), "driver").problem is None
    assert observe_pod(pod(terminated(0, "Completed")), "driver").problem is None


def test_a_pod_that_was_told_to_stop_is_no_trouble():
    assert observe_pod(pod(terminated(143, "Error", "stopping")), "driver").problem is None


def test_a_driver_that_said_why_it_ended_is_understood():
    said = TerminationMessage(
        state=JobState.FAILED, restarts=3, error=JobError(kind="InvalidConfig", message="m")
    )
    seen = observe_pod(pod(terminated(1, "Error", said.model_dump_json(by_alias=True))), "driver")
    assert said == seen.termination
    assert (1, datetime(2026, 5, 1, 12, 1, tzinfo=UTC)) == (
        seen.exit.exit_code,
        seen.exit.finished_at,
    )
    assert "InvalidConfig" not in seen.problem.message


def test_log_lines_instead_of_a_message_are_no_message():
    seen = observe_pod(pod(terminated(1, "Error", "Traceback (most recent call last):")), "driver")
    assert seen.termination is None


def test_waiting_for_volumes_is_told_from_waiting_for_a_node():
    assert observe_pod(pod(waiting("ContainerCreating")), "driver").waiting_for_volumes
    assert not observe_pod(pod(waiting("ContainerCreating"), node=""), "driver").waiting_for_volumes
    assert not observe_pod(pod(waiting("ErrImagePull")), "driver").waiting_for_volumes


def event(reason, message, at, kind="Warning"):
    return {"type": kind, "reason": reason, "message": message, "lastTimestamp": at}


def test_a_pod_that_waits_for_its_volumes_is_looked_at_again_soon():
    waits = observe_pod(pod(waiting("ContainerCreating")), "driver")
    seen = running().then(driver=replace(driver_pod(phase="Pending"), waiting_for_volumes=True))
    assert waits.waiting_for_volumes
    assert seen.decision.wake_after_s <= 8


def test_a_container_that_ended_is_the_end_of_the_pod_whatever_its_phase_still_says():
    status = {**terminated(1, "Error"), "phase": "Running"}
    assert observe_pod(pod(status), "driver").has_ended


def test_the_newest_volume_event_is_the_cause():
    seen = observe_pod(pod(waiting("ContainerCreating")), "driver")
    events = [
        event("FailedMount", "old", "2026-05-01T12:00:10Z"),
        event("FailedMount", 'configmap "rules" not found', "2026-05-01T12:00:20Z"),
        event("Scheduled", "ok", "2026-05-01T12:00:30Z", kind="Normal"),
    ]
    problem = problem_of_events(seen, events)
    assert (
        PodProblem(
            "payments-driver",
            PodTrouble.VOLUME_FAILED,
            'pod payments-driver: FailedMount: configmap "rules" not found',
        )
        == problem
    )
    assert problem_of_events(seen, events[2:]) is None


TROUBLE = PodProblem("payments-exec-1", PodTrouble.IMAGE_PULL_FAILED, "pod x: ErrImagePull: no")


def degraded(seen):
    return next(c for c in seen.status.conditions if c.type == "Degraded")


def test_trouble_of_a_waiting_driver_degrades_the_job_with_one_event():
    pending = running().then(driver=driver_pod(phase="Pending", problem=TROUBLE), rest=None)
    assert (
        degraded(pending).status,
        degraded(pending).reason,
        degraded(pending).message,
    ) == ("True", "ImagePullFailed", "pod x: ErrImagePull: no")
    assert pending.event_reasons == ["ImagePullFailed"]
    assert pending.then(now=later(60)).event_reasons == []


def test_the_kubelets_change_of_words_is_no_new_event():
    back_off = PodProblem("p", PodTrouble.IMAGE_PULL_FAILED, "pod x: ImagePullBackOff: Back-off")
    pending = running().then(driver=driver_pod(phase="Pending", problem=TROUBLE), rest=None)
    later_on = pending.then(driver=driver_pod(phase="Pending", problem=back_off))
    assert degraded(later_on).message == "pod x: ErrImagePull: no"
    assert later_on.event_reasons == []


def test_trouble_of_an_executor_that_waits_degrades_the_job_even_when_it_is_ready():
    waiting_pod = executor_pod(1, phase="Pending", problem=TROUBLE)
    seen = running().then(executors=(waiting_pod,))
    assert (degraded(seen).status, degraded(seen).reason) == ("True", "ImagePullFailed")
    assert next(c for c in seen.status.conditions if c.type == "Ready").status == "True"


def test_an_executor_that_was_killed_and_removed_is_still_named_while_the_job_recovers():
    killed = PodProblem("payments-exec-2", PodTrouble.OOM_KILLED, "pod y: used more memory")
    answer = DriverAnswer(job_status(epochs=0))
    seen = running().then(rest=answer, sightings=(killed,))
    assert degraded(seen).reason == "OOMKilled"
    healed = running().then(sightings=(killed,))
    assert degraded(healed).status == "False"


def test_while_a_lost_driver_is_replaced_its_loss_explains_the_executors():
    killed = PodProblem("payments-exec-2", PodTrouble.CONTAINER_EXITED, "pod y: exit_code=1")
    seen = running().then(driver=None, rest=None, sightings=(killed,))
    assert degraded(seen).reason == "DriverLost"


def test_executors_of_another_driver_do_not_degrade_the_job():
    old = executor_pod(1, phase="Pending", driver_uid="other", problem=TROUBLE)
    assert degraded(running().then(executors=(old,))).status == "False"
