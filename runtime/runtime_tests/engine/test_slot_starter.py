"""What a task that starts a slot process knows of its executor."""

from __future__ import annotations

import pytest

from headrace.engine.pump import executor_id

BACKEND = ["/usr/bin/java", "-cp", "jars/*", "org.apache.spark.executor.Backend"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--driver-url", "spark://x", "--executor-id", "17", "--cores", "1"], "17"),
        (["--executor-id"], "driver"),
        ([], "driver"),
    ],
)
def test_the_executor_is_named_on_its_command_line(options, expected):
    assert expected == executor_id([*BACKEND, *options])
