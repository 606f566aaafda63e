"""The programs in the documentation can be planned as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headrace.common
import headrace.datastream
from headrace.datastream import functions, state

PAGE = Path(__file__).parents[3] / "docs" / "job-api.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("program", BLOCKS, ids=lambda text: text.strip().splitlines()[-1])
def test_a_program_of_the_page_runs(program, executor):
    exec(compile(program, "job-api.md", "exec"), {"__name__": "__main__"})

    assert executor.job.name == "fraud"
    assert executor.operator("Fraud").uid == "fraud"


@pytest.mark.parametrize(
    ("module", "heading"),
    [(headrace.common, "`headrace.common`"), (headrace.datastream, "`headrace.datastream`")],
)
def test_the_page_lists_names_that_exist(module, heading):
    (line,) = [row for row in PAGE.read_text().splitlines() if row.startswith(f"| {heading} |")]
    listed = re.findall(r"`(\w+)`", line.split("|")[2])

    assert [name for name in listed if not hasattr(module, name)] == []


@pytest.mark.parametrize("module", [headrace.common, headrace.datastream])
def test_public_names_are_sorted_and_importable(module):
    assert module.__all__ == sorted(module.__all__)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_functions_and_state_have_the_listed_names():
    assert functions.KeyedProcessFunction.OnTimerContext
    assert state.ValueStateDescriptor
