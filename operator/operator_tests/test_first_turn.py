"""The first turn for a job that was never seen: few requests, and nothing of others is touched.

Five hundred jobs may be created at once (OP55); what each of them costs is what all wait for.
"""

import asyncio

import pytest

from headrace.api.v1alpha1 import DriverPhase
from headrace_operator.kube.api import ConflictError, Kind
from headrace_operator.reconcile.actor import JobActor
from headrace_operator.reconcile.supervisor import Supervisor
from operator_tests.harness import NAME, NAMESPACE, Operator, stream_job

DRIVER = (Kind.POD, NAMESPACE, "payments-driver")


def first_seen(**world):
    """An operator that hears of a new job by a watch."""
    operator = Operator()
    for manifest in world.values():
        operator.cluster.add(manifest)
    operator.restart(operator.cluster.add(stream_job()))
    return operator


def foreign(kind, name="payments-driver"):
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {}}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


def test_the_driver_of_a_new_job_exists_after_ten_requests_none_of_which_is_a_read():
    async def check():
        operator = first_seen()
        await operator.actor.turn()
        assert [
            "status",
            "create Event",
            "finalizers",
            "create ServiceAccount",
            "create Role",
            "create RoleBinding",
            "create Service",
            "create ConfigMap",
            "create Secret",
            "create Pod",
        ] == operator.cluster.calls
        assert DRIVER in operator.cluster.objects

    asyncio.run(check())


def test_the_driver_carries_the_token_that_was_made_just_before():
    async def check():
        operator = first_seen()
        await operator.actor.turn()
        secret = operator.cluster.objects[Kind.SECRET, NAMESPACE, "payments-token"]
        annotations = operator.cluster.objects[DRIVER]["metadata"]["annotations"]
        assert secret["metadata"]["uid"] == annotations["headrace.dev/token-uid"]

    asyncio.run(check())


@pytest.mark.parametrize("kind", [Kind.CONFIG_MAP, Kind.SERVICE, Kind.ROLE, Kind.POD])
def test_what_a_new_job_finds_under_its_names_is_not_taken_over(kind):
    async def check():
        operator = first_seen(other=foreign(kind))
        before = dict(operator.cluster.objects[kind, NAMESPACE, "payments-driver"])
        for _ in range(3):
            await operator.actor.turn()
        assert before == operator.cluster.objects[kind, NAMESPACE, "payments-driver"]
        assert "NameConflict" in operator.events
        assert (kind is Kind.POD) == (DRIVER in operator.cluster.objects)

    asyncio.run(check())


def test_a_token_secret_of_somebody_else_is_neither_used_nor_fought_over():
    async def check():
        operator = first_seen(other=foreign(Kind.SECRET, "payments-token"))
        for _ in range(3):
            await operator.actor.turn()
        assert "NameConflict" in operator.events
        assert DRIVER not in operator.cluster.objects
        before = len(operator.writes)
        await operator.turns(3)
        assert before == len(operator.writes)
        operator.cluster.delete_object(Kind.SECRET, NAMESPACE, "payments-token")
        await operator.settle()
        assert DRIVER in operator.cluster.objects

    asyncio.run(check())


def test_a_watch_that_told_of_an_old_version_does_no_harm():
    async def check():
        operator = Operator()
        old = operator.cluster.add(stream_job())
        operator.cluster.edit(Kind.STREAM_JOB, NAMESPACE, NAME, image="registry.local/job:2")
        operator.restart(old)
        with pytest.raises(ConflictError):
            await operator.actor.turn()
        assert DRIVER not in operator.cluster.objects
        await operator.settle()
        (container,) = operator.cluster.objects[DRIVER]["spec"]["containers"]
        assert "registry.local/job:2" == container["image"]

    asyncio.run(check())


@pytest.mark.parametrize("trace", ["status", "finalizers"])
def test_a_job_that_may_have_been_acted_on_is_read_in_full(trace):
    async def check():
        operator = first_seen()
        await operator.actor.turn()
        made = dict(operator.job)
        if trace == "status":
            made["metadata"] = {**made["metadata"], "finalizers": []}
        else:
            made.pop("status")
        operator.restart(made)
        calls = len(operator.cluster.calls)
        await operator.actor.turn()
        assert "get StreamJob" == operator.cluster.calls[calls]
        assert 1 == len(operator.cluster.created_pods)

    asyncio.run(check())


def test_only_so_many_jobs_use_the_cluster_at_once():
    async def check():
        operator = Operator(concurrent_turns=3)
        at_once, most = 0, 0
        create = operator.cluster.create

        async def slow_create(manifest):
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await asyncio.sleep(0)
            at_once -= 1
            return await create(manifest)

        operator.cluster.create = slow_create
        actors = []
        for number in range(9):
            job = stream_job()
            job["metadata"]["name"] = name = f"job-{number}"
            made = operator.cluster.add(job)
            actors.append(JobActor(NAMESPACE, name, operator.tools, made))
        await asyncio.gather(*(actor.turn() for actor in actors))
        assert 9 == len(operator.cluster.created_pods)
        assert 3 == most

    asyncio.run(check())


def test_a_driver_that_does_not_answer_holds_no_place():
    async def check():
        operator = Operator(concurrent_turns=1)
        operator.cluster.add(stream_job())
        await operator.settle()
        operator.start_driver_pod()
        await operator.turns()
        answered = asyncio.Event()

        async def silent(ip, job_id):
            await answered.wait()
            return operator.driver.answers[ip]

        operator.driver.job_status = silent
        waiting = asyncio.create_task(operator.actor.turn())
        await asyncio.sleep(0)
        await asyncio.wait_for(operator.tools.turnstile.acquire(), 1)
        operator.tools.turnstile.release()
        answered.set()
        await waiting
        assert DriverPhase.PRESENT is operator.status.driver.phase

    asyncio.run(check())


def test_what_a_turn_itself_makes_is_no_news_when_watches_tell_of_it_meanwhile():
    async def check():
        operator = first_seen()
        supervisor = Supervisor(operator.tools)
        create = operator.cluster.create

        async def create_and_tell(manifest):
            made = await create(manifest)
            labels = made["metadata"].get("labels", {})
            if made["kind"] != "Event":
                supervisor.notice_object(NAMESPACE, labels, made, is_gone=False)
            return made

        operator.cluster.create = create_and_tell
        supervisor.notice_job(NAMESPACE, NAME, operator.job, is_gone=False)
        await asyncio.sleep(0.4)
        await supervisor.stop()
        assert DriverPhase.PRESENT is operator.status.driver.phase
        reads = [call for call in operator.cluster.calls if call.startswith(("get", "list"))]
        assert [] == reads

    asyncio.run(check())
