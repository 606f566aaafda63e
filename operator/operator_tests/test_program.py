"""A program in a user's ConfigMap: changed, missing, coming later (part of OP7, OP8, OP15)."""

import asyncio

import pytest

from headrace.api.v1alpha1 import LifecycleState
from headrace_operator.kube.api import Kind
from operator_tests.harness import NAME, NAMESPACE, Operator, stream_job

SOURCE = {"configMap": {"name": "programs", "key": "job.py"}}
DRIVER = (Kind.POD, NAMESPACE, "payments-driver")
COPY = (Kind.CONFIG_MAP, NAMESPACE, "payments-driver")
PROGRAMS = (Kind.CONFIG_MAP, NAMESPACE, "programs")


def programs(**data):
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "programs", "namespace": NAMESPACE},
        "data": {name.replace("_", "."): text for name, text in data.items()},
    }


def put(operator, text):
    operator.cluster.objects.pop(PROGRAMS, None)
    operator.cluster.add(programs(job_py=text))


async def running(text="print(1)"):
    operator = Operator()
    put(operator, text)
    operator.cluster.add(stream_job(program=SOURCE))
    await operator.settle()
    operator.start_driver_pod()
    await operator.settle()
    assert LifecycleState.RUNNING is operator.status.lifecycle_state
    return operator


def condition(operator, kind):
    return next(c for c in operator.status.conditions if c.type == kind)


def test_the_driver_gets_a_copy_of_the_program():
    async def check():
        operator = await running("print(1)")
        assert "print(1)" == operator.cluster.objects[COPY]["data"]["program.py"]
        volumes = operator.cluster.objects[DRIVER]["spec"]["volumes"]
        assert "programs" not in str(volumes)

    asyncio.run(check())


def test_a_changed_program_upgrades_the_job_within_a_resync_interval():
    async def check():
        operator = await running("print(1)")
        put(operator, "print(2)")
        operator.clock.advance(29)
        await operator.actor.turn()
        assert 1 == len(operator.cluster.created_pods)
        operator.clock.advance(1)
        await operator.actor.turn()
        assert "SpecChanged" in operator.events
        assert LifecycleState.UPGRADING is operator.status.lifecycle_state
        operator.pass_through()
        await operator.settle()
        assert 2 == len(operator.cluster.created_pods)
        assert "print(2)" == operator.cluster.objects[COPY]["data"]["program.py"]
        assert 0 == operator.status.restarts

    asyncio.run(check())


def test_a_change_of_the_job_takes_the_changed_program_along():
    async def check():
        operator = await running("print(1)")
        put(operator, "print(2)")
        operator.cluster.edit(Kind.STREAM_JOB, NAMESPACE, NAME, image="registry.local/job:2")
        await operator.live(6)
        assert 2 == len(operator.cluster.created_pods)
        assert "print(2)" == operator.cluster.objects[COPY]["data"]["program.py"]

    asyncio.run(check())


def test_another_key_of_the_same_config_map_is_no_change():
    async def check():
        operator = await running("print(1)")
        operator.cluster.objects.pop(PROGRAMS)
        operator.cluster.add(programs(job_py="print(1)", other_py="print(9)"))
        operator.clock.advance(30)
        writes = len(operator.writes)
        await operator.actor.turn()
        assert writes == len(operator.writes)

    asyncio.run(check())


def test_a_lost_driver_comes_back_with_the_same_program_though_its_config_map_is_gone():
    async def check():
        operator = await running("print(1)")
        operator.cluster.objects.pop(PROGRAMS)
        operator.cluster.delete_object(*DRIVER, grace_s=0)
        await operator.live(6)
        assert 2 == len(operator.cluster.created_pods)
        assert "print(1)" == operator.cluster.objects[COPY]["data"]["program.py"]
        degraded = condition(operator, "Degraded")
        assert ("True", "ProgramMissing") == (degraded.status, degraded.reason)
        assert "name=programs" in degraded.message
        assert LifecycleState.RUNNING is operator.status.lifecycle_state
        put(operator, "print(1)")
        await operator.settle()
        assert "False" == condition(operator, "Degraded").status
        assert 2 == len(operator.cluster.created_pods)

    asyncio.run(check())


@pytest.mark.parametrize(
    ("data", "words"),
    [(None, "there is no ConfigMap of this name; name=programs"), ({"a": "x"}, "key=job.py")],
)
def test_a_missing_program_is_degraded_with_what_is_missing_and_starts_when_it_is_there(
    data, words
):
    async def check():
        operator = Operator()
        if data is not None:
            operator.cluster.add(programs(**data))
        operator.cluster.add(stream_job(program=SOURCE))
        await operator.settle()
        degraded = condition(operator, "Degraded")
        assert ("True", "ProgramMissing") == (degraded.status, degraded.reason)
        assert words in degraded.message
        assert ["ProgramMissing"] == operator.events
        assert DRIVER not in operator.cluster.objects
        put(operator, "print(1)")
        pause = await operator.actor.turn()
        assert 5 >= pause
        operator.clock.advance(pause)
        await operator.settle()
        assert DRIVER in operator.cluster.objects
        assert "False" == condition(operator, "Degraded").status

    asyncio.run(check())


def test_a_job_whose_program_never_came_can_be_deleted():
    async def check():
        operator = Operator()
        operator.cluster.add(stream_job(program=SOURCE))
        await operator.settle()
        operator.cluster.delete_object(Kind.STREAM_JOB, NAMESPACE, NAME)
        await operator.live(3)
        assert operator.job is None

    asyncio.run(check())


def test_a_job_can_be_suspended_though_its_program_is_nowhere():
    async def check():
        operator = await running("print(1)")
        operator.cluster.objects.pop(PROGRAMS)
        operator.cluster.objects.pop(COPY)
        await operator.turns()
        operator.cluster.edit(Kind.STREAM_JOB, NAMESPACE, NAME, state="suspended")
        await operator.live(6)
        assert LifecycleState.SUSPENDED is operator.status.lifecycle_state
        assert DRIVER not in operator.cluster.objects
        operator.cluster.edit(Kind.STREAM_JOB, NAMESPACE, NAME, state="running")
        await operator.live(3)
        assert DRIVER not in operator.cluster.objects
        put(operator, "print(1)")
        await operator.live(6)
        assert LifecycleState.RUNNING is operator.status.lifecycle_state

    asyncio.run(check())


def test_a_failed_job_is_fixed_by_its_config_map_alone():
    async def check():
        operator = await running("raise SystemExit")
        operator.fail_driver_pod("InvalidProgram", "the program never calls execute")
        await operator.settle()
        assert LifecycleState.FAILED is operator.status.lifecycle_state
        put(operator, "env.execute()")
        pause = await operator.actor.turn()
        assert 30 >= pause
        operator.clock.advance(pause)
        await operator.live(6)
        assert 2 == len(operator.cluster.created_pods)

    asyncio.run(check())


def test_the_first_turn_of_such_a_job_reads_its_program_and_nothing_else():
    async def check():
        operator = Operator()
        put(operator, "print(1)")
        operator.restart(operator.cluster.add(stream_job(program=SOURCE)))
        await operator.actor.turn()
        reads = [call for call in operator.cluster.calls if call.startswith(("get", "list"))]
        assert ["get ConfigMap"] == reads
        assert "print(1)" == operator.cluster.objects[COPY]["data"]["program.py"]
        assert DRIVER in operator.cluster.objects

    asyncio.run(check())
