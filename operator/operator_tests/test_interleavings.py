"""A user acts at any moment of what the operator is doing: deletes, suspends, changes, kills a pod.

Whatever it was doing, the end is what the user asked for, without a driver too many, without
objects left behind and without a second driver for a moment (OP8, OP37, OP50, OP51, OP53).
"""

import asyncio

import pytest

from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.kube.api import Kind
from operator_tests.harness import NAME, NAMESPACE, Operator, stream_job

JOB = (Kind.STREAM_JOB, NAMESPACE, NAME)
DRIVER = (Kind.POD, NAMESPACE, "payments-driver")
TURNS = 12


def act(operator, action):
    cluster = operator.cluster
    match action:
        case "create":
            cluster.add(stream_job())
        case "change":
            cluster.edit(*JOB, image="registry.local/job:2")
        case "scale":
            cluster.edit(*JOB, parallelism=4)
        case "suspend":
            cluster.edit(*JOB, state="suspended")
        case "resume":
            cluster.edit(*JOB, state="running")
        case "lose":
            if DRIVER in cluster.objects:
                cluster.delete_object(*DRIVER, grace_s=0)
        case "rotate":
            cluster.objects.pop((Kind.SECRET, NAMESPACE, "payments-token"), None)
        case "delete":
            cluster.delete_object(*JOB)


async def before(doing):
    """The world in which the operator is about to start something."""
    operator = Operator()
    if doing == "create":
        return operator
    act(operator, "create")
    await operator.live(6)
    if doing == "resume":
        act(operator, "suspend")
        await operator.live(6)
    return operator


async def moments_of(world, doing):
    """Numbers of the requests to act before: all writes, and the ends of each run of reads."""
    operator = Operator(world)
    act(operator, doing)
    await operator.live(6)
    reads = [call.startswith(("get", "list")) for call in operator.cluster.calls]
    last_write = max(number for number, is_read in enumerate(reads) if not is_read)
    inside = zip(reads, reads[1:], reads[2:], strict=False)
    dull = {number for number, run in enumerate(inside, 2) if all(run)}
    return [n for n in range(1, last_write + 4) if n not in dull]


def check_end(operator, doing, action):
    where = f"doing={doing} action={action} calls={operator.cluster.calls[-30:]}"
    assert 1 >= operator.cluster.most_drivers, where
    if action == "delete":
        assert [key for key in operator.cluster.objects if key[0] is not Kind.EVENT] == [], where
        return
    status = operator.status
    if action == "suspend":
        assert LifecycleState.SUSPENDED is status.lifecycle_state, where
        assert DRIVER not in operator.cluster.objects, where
        return
    assert LifecycleState.RUNNING is status.lifecycle_state, where
    spec = operator.job["spec"]
    (container,) = operator.cluster.objects[DRIVER]["spec"]["containers"]
    assert spec["image"] == container["image"], where
    assert operator.job["metadata"]["generation"] == status.observed_generation, where
    # A driver that is lost before anybody saw it is made again in the same attempt.
    made = len(operator.cluster.created_pods)
    assert made - (action == "lose") <= status.driver.attempt <= made, where


@pytest.mark.property
@pytest.mark.parametrize("action", ["delete", "suspend", "change", "lose", "rotate"])
@pytest.mark.parametrize("doing", ["create", "scale", "lose", "resume"])
def test_a_user_may_act_at_any_moment(doing, action):
    async def check():
        world = await before(doing)
        moments = await moments_of(world, doing)
        assert 10 <= len(moments)
        for number in moments:
            operator = Operator(world)
            operator.cluster.interrupt_at(number, lambda o=operator: act(o, action))
            act(operator, doing)
            await operator.live(TURNS)
            check_end(operator, doing, action)

    asyncio.run(check())


@pytest.mark.property
@pytest.mark.parametrize("action", ["delete", "suspend"])
def test_and_the_operator_may_be_killed_on_top(action):
    async def check():
        world = await before("create")
        for number in (await moments_of(world, "create"))[::2]:
            for later in (1, 4):
                operator = Operator(world)
                operator.cluster.interrupt_at(number, lambda o=operator: act(o, action))
                operator.cluster.kill_after(number + later, before_effect=later % 2 == 0)
                act(operator, "create")
                await operator.live(TURNS)
                check_end(operator, "create", action)

    asyncio.run(check())
