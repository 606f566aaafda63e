"""Calls that PyFlink has and Headrace has not fail with what to do instead."""

from __future__ import annotations

import pytest

from headrace.datastream import CheckpointConfig, KeyedStream, StreamExecutionEnvironment
from headrace.datastream.data_stream import DataStream
from headrace.datastream.unsupported import CHECKPOINTS, ENVIRONMENT, STREAM
from headrace.errors import InvalidProgramError


def test_a_call_of_pyflink_says_what_to_do_instead():
    env = StreamExecutionEnvironment.get_execution_environment()

    with pytest.raises(InvalidProgramError) as caught:
        env.add_jars("file:///flink-sql-connector-kafka.jar")
    assert str(caught.value) == (
        "PyFlink's call is not supported, connectors come with Headrace; for other jars put it "
        "into the runtime image, or set spark.* options; call=StreamExecutionEnvironment.add_jars"
    )
    with pytest.raises(InvalidProgramError, match=r"use sink_to; call=DataStream\.add_sink"):
        env.from_collection([1]).add_sink(None)
    with pytest.raises(InvalidProgramError, match="aligned at the end of an epoch"):
        env.get_checkpoint_config().enable_unaligned_checkpoints()


def test_other_names_are_missing_as_in_any_class():
    env = StreamExecutionEnvironment.get_execution_environment()

    assert not hasattr(env, "no_such_thing")
    assert not hasattr(env, "add_jars")
    with pytest.raises(AttributeError, match="'DataStream' object has no attribute 'mapp'"):
        getattr(env.from_collection([1]), "mapp")  # noqa: B009 - a misspelt call


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (StreamExecutionEnvironment, ENVIRONMENT),
        (DataStream, STREAM),
        (KeyedStream, STREAM),
        (CheckpointConfig, CHECKPOINTS),
    ],
)
def test_nothing_that_exists_is_listed_as_unsupported(kind, table):
    assert [name for name in table if hasattr(kind, name)] == []
