"""The file sinks run through the suite that sinks of users run through."""

from __future__ import annotations

import pytest

from headrace.testing.sinks import TwoPhaseSinkContract
from runtime_tests.sinks.targets import JsonTarget, ParquetTarget


class TestJsonLines(TwoPhaseSinkContract):
    @pytest.fixture
    def sink_under_test(self, tmp_path):
        return JsonTarget(tmp_path / "out")


class TestParquet(TwoPhaseSinkContract):
    @pytest.fixture
    def sink_under_test(self, tmp_path):
        return ParquetTarget(tmp_path / "out")
