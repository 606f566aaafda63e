"""The operator is killed at every request of a whole life (OP16, OP50).

A life: create, run, change the image, scale, lose the driver, suspend, resume, delete. Whatever
happens, there is never more than one driver pod, no step makes a driver too many, and the end is
the same as without kills.
"""

import asyncio

import pytest

from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.kube.api import Kind
from operator_tests.harness import NAME, NAMESPACE, Operator, stream_job

TURNS = 9
DRIVERS_AFTER = {
    "create": 1,
    "upgrade": 2,
    "scale": 3,
    "lose": 4,
    "suspend": 4,
    "resume": 5,
    "delete": 5,
}
"""Scenes in their order, with the number of drivers that were ever created after each."""
RESTARTS_AFTER = {"create": 0, "upgrade": 0, "scale": 0}
SCENES = tuple(DRIVERS_AFTER)


def play(operator: Operator, scene: str) -> None:
    job = (Kind.STREAM_JOB, NAMESPACE, NAME)
    match scene:
        case "create":
            operator.cluster.add(stream_job())
        case "upgrade":
            operator.cluster.edit(*job, image="registry.local/job:2")
        case "scale":
            operator.cluster.edit(*job, parallelism=4)
        case "lose":
            operator.cluster.delete_object(Kind.POD, NAMESPACE, "payments-driver", grace_s=0)
        case "suspend":
            operator.cluster.edit(*job, state="suspended")
        case "resume":
            operator.cluster.edit(*job, state="running")
        case "delete":
            operator.cluster.delete_object(*job)


async def at_scene(scene: str) -> Operator:
    """An operator and its cluster just before a scene."""
    operator = Operator()
    for earlier in SCENES[: SCENES.index(scene)]:
        play(operator, earlier)
        await operator.live(TURNS)
    return operator


async def deadly_requests(world: Operator, scene: str) -> list[int]:
    """Numbers of the first request and of every write of a scene.

    Between two writes nothing changes, so dying at any of the reads there is the same.
    """
    operator = Operator(world)
    play(operator, scene)
    await operator.live(TURNS)
    calls = enumerate(operator.cluster.calls, 1)
    return [1, *(n for n, call in calls if not call.startswith(("get", "list")))]


def check_end(operator: Operator, scene: str) -> None:
    drivers = DRIVERS_AFTER[scene]
    assert operator.cluster.most_drivers == 1
    assert drivers == len(operator.cluster.created_pods)
    if scene == "delete":
        assert [key for key in operator.cluster.objects if key[0] is not Kind.EVENT] == []
        return
    expected = LifecycleState.SUSPENDED if scene == "suspend" else LifecycleState.RUNNING
    assert expected is operator.status.lifecycle_state
    assert drivers == operator.status.driver.attempt
    assert RESTARTS_AFTER.get(scene, 1) == operator.status.restarts


@pytest.mark.property
@pytest.mark.parametrize("before_effect", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("scene", SCENES)
def test_a_kill_at_any_request_changes_nothing_in_the_end(scene, before_effect):
    async def check() -> int:
        world = await at_scene(scene)
        requests = await deadly_requests(world, scene)
        for number in requests:
            operator = Operator(world)
            operator.cluster.kill_after(number, before_effect=before_effect)
            play(operator, scene)
            await operator.live(TURNS)
            check_end(operator, scene)
        return len(requests)

    assert asyncio.run(check()) >= 5


@pytest.mark.property
def test_a_life_without_kills_ends_the_same():
    async def check() -> None:
        for scene in SCENES:
            operator = await at_scene(scene)
            play(operator, scene)
            await operator.live(TURNS)
            check_end(operator, scene)

    asyncio.run(check())
