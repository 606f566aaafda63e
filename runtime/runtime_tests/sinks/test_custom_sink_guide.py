"""The example of docs/custom-sinks.md is short, runs, and keeps the contract."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from headrace.testing.sinks import TwoPhaseSinkContract

GUIDE = Path(__file__).parents[3] / "docs" / "custom-sinks.md"
EXAMPLE_LINES_MAX = 60


def blocks():
    """The guide's Python: the sink, its use, its test."""
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def guide():
    """A module that holds the guide's sink and the target of its test."""
    sink, _, test = blocks()
    module = types.ModuleType("custom_sink_guide")
    sys.modules[module.__name__] = module
    for source in (sink, test):
        exec(compile(source, str(GUIDE), "exec"), module.__dict__)
    yield module
    del sys.modules[module.__name__]


def test_the_example_is_short():
    assert len(blocks()[0].splitlines()) < EXAMPLE_LINES_MAX


class TestTheExample(TwoPhaseSinkContract):
    @pytest.fixture
    def sink_under_test(self, guide, tmp_path):
        assert issubclass(guide.TestSqliteSink, TwoPhaseSinkContract)
        return guide.SqliteTarget(str(tmp_path / "lines.db"))
