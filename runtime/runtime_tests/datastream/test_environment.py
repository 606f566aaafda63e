"""The environment: layers of options, execution, reuse of streams."""

from __future__ import annotations

import json

import pytest

from headrace.common import Configuration, Types
from headrace.config.options import checkpointing
from headrace.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from headrace.datastream.execution import ProgramContext, program_context
from headrace.errors import InvalidConfigError, InvalidProgramError


def environment(**settings):
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))


def test_nothing_runs_before_execute(executor):
    env = environment()
    env.from_collection([1]).map(lambda v: 1 / 0).print()

    assert executor.jobs == []


def test_the_program_s_options_win_over_the_surroundings(executor):
    context = ProgramContext(
        settings={"state.checkpoints.dir": "file:///manifest", "rest.port": "9000"},
        execute_job=executor,
    )
    with program_context(context):
        env = environment()
        env.get_checkpoint_config().set_checkpoint_storage_dir("file:///program")
        env.from_collection([1]).print()
        env.execute()

    assert executor.configuration.get(checkpointing.DIRECTORY) == "file:///program"
    assert executor.configuration.to_text()["rest.port"] == "9000"


def test_a_parallelism_fixed_from_outside_wins_over_the_program(executor):
    context = ProgramContext(parallelism=4, max_parallelism=64, execute_job=executor)
    with program_context(context):
        env = environment().set_parallelism(2).set_max_parallelism(16)
        env.from_collection([1]).print()
        env.execute()

    assert (executor.job.parallelism, executor.job.max_parallelism) == (4, 64)
    assert (env.get_parallelism(), env.get_max_parallelism()) == (4, 64)


def test_outside_a_context_the_surroundings_are_empty():
    assert environment().get_parallelism() == 1


def test_wrong_options_are_refused_when_the_program_is_executed(executor):
    env = environment(**{"execution.checkpointing.intervall": "1 min"})
    env.from_collection([1]).print()

    with pytest.raises(
        InvalidConfigError, match=r"did you mean execution\.checkpointing\.interval"
    ):
        env.execute()
    assert executor.jobs == []


def test_batch_mode_is_refused(executor):
    env = environment().set_runtime_mode(RuntimeExecutionMode.BATCH)
    env.from_collection([1]).print()

    with pytest.raises(InvalidConfigError, match="expected one of STREAMING"):
        env.execute()


def test_a_stream_may_be_used_again_after_execute(executor):
    env = environment()
    numbers = env.from_collection([1, 2])
    numbers.print()
    env.execute("first")
    numbers.map(lambda v: v).print()
    env.execute("second")

    first, second = executor.jobs
    assert [o.kind.value for o in first.operators()] == ["source", "sink"]
    assert [o.kind.value for o in second.operators()] == ["source", "map", "sink"]


def test_executing_nothing_new_is_refused(executor):
    env = environment()
    env.from_collection([1]).print()
    env.execute()

    with pytest.raises(InvalidProgramError, match="the program has no source"):
        env.execute()


def test_warnings_of_the_plan_stay_with_the_environment(executor):
    env = environment()
    env.from_collection([1]).key_by(lambda v: v).reduce(lambda a, b: a).print()
    env.execute()

    about_uid, about_checkpoints = env.plan_warnings
    assert "operator='Reduce'" in about_uid
    assert about_checkpoints == (
        "checkpointing is off, a crash silently loses all state, call env.enable_checkpointing or "
        "set execution.checkpointing.interval; operators=['Reduce']"
    )


def test_the_execution_plan_does_not_execute(executor):
    env = environment()
    env.from_collection([1]).print()

    plan = json.loads(env.get_execution_plan())

    assert [node["pact"] for node in plan["nodes"]] == ["source", "sink"]
    assert executor.jobs == []
    env.execute()
    assert len(executor.jobs) == 1


def test_elements_must_be_of_the_declared_type():
    with pytest.raises(InvalidProgramError, match="index=1 type=LONG"):
        environment().from_collection([1, "two"], Types.LONG())


def test_tuples_become_rows_of_a_declared_row_type(executor):
    env = environment()
    row = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    env.from_collection([("Alice", 11)], row).print()
    env.execute()

    (item,) = executor.job.sources()[0].function.items
    assert (item["name"], item.age, item[1]) == ("Alice", 11, 11)


def test_collected_records_must_belong_to_a_channel():
    from headrace.errors import InternalError

    with pytest.raises(InternalError, match="channel=collect-9"):
        environment().outputs.collect("collect-9", 1)


def test_a_limit_is_satisfied_when_so_many_records_came():
    outputs = environment().outputs
    outputs.expect("c", 2)
    assert not outputs.is_satisfied()
    for record in (1, 2, 3):
        outputs.collect("c", record)

    assert outputs.is_satisfied()
    assert outputs.take("c") == [1, 2]
    assert not outputs.is_satisfied()
