"""What holds for all tests: their order, their JVMs, and that no property is judged by the clock.

Order of a whole run: cheap tests first, so that a mistake shows before a cluster is built.

Within a tier, tests keep the order of their files. Tiers are the markers of pyproject.toml.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import hypothesis
import pytest

# How long an example takes says something about the machine, nothing about the code.
hypothesis.settings.register_profile("headrace", deadline=None)
hypothesis.settings.load_profile("headrace")

# JVMs of tests live for seconds: the optimising compiler would cost more than it gives (a Spark
# program of 33 s takes 24 s without it, on two cores), and so does reading classes from jars where
# `make test` has written the archive of them. Pods have their own environment.
JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
CLASSES = Path(sys.prefix) / "spark-classes.jsa"
if CLASSES.exists():
    JAVA_OPTIONS += [f"-XX:SharedArchiveFile={CLASSES}", "-Xlog:cds*=off", "-Xlog:class+path=off"]
os.environ.setdefault("JAVA_TOOL_OPTIONS", " ".join(JAVA_OPTIONS))

TIERS: Final = ("property", "integration", "kill", "e2e")
"""Cheapest first; a test without any of these markers runs before them all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort by the most expensive tier that a test belongs to, slow ones last within it."""
    items.sort(key=_cost)


def _cost(item: pytest.Item) -> tuple[int, bool]:
    tiers = [index for index, tier in enumerate(TIERS, 1) if item.get_closest_marker(tier)]
    return max(tiers, default=0), item.get_closest_marker("slow") is not None
