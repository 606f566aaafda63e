"""What holds for all tests: their order, their JVMs, and that no property is judged by the clock.

Order of a whole run: cheap tests first, so that a mistake shows before a cluster is built.

Within a tier, tests keep the order of their files. Tiers are the markers of pyproject.toml.
"""

from __future__ import annotations

import os
from typing import Final

import hypothesis
import pytest

# How long an example takes says something about the machine, nothing about the code.
hypothesis.settings.register_profile("headrace", deadline=None)
hypothesis.settings.load_profile("headrace")

# JVMs of tests live for seconds: the optimising compiler would cost more than it gives. Measured on
# two cores: a Spark program of 33 s takes 24 s. Pods have their own environment.
os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

TIERS: Final = ("property", "integration", "kill", "e2e")
"""Cheapest first; a test without any of these markers runs before them all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by the most expensive tier that a test belongs to, slow ones last within it."""
    items.sort(key=_cost)


def _cost(item: pytest.Item) -> tuple[int, bool]:
    tiers = [index for index, tier in enumerate(TIERS, 1) if item.get_closest_marker(tier)]
    return max(tiers, default=0), item.get_closest_marker("slow") is not None
