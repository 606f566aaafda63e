"""Reads `cases.yaml`: manifests with the judgement that models and API server must share."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml

CASES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("cases.yaml").read_text(encoding="utf-8")
)


def manifest_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return the base manifest with the fields of a case; null removes a field."""
    made: dict[str, Any] = copy.deepcopy(CASES["base"])
    for part in ("metadata", "spec"):
        for name, value in case.get(part, {}).items():
            if value is None:
                made[part].pop(name, None)
            else:
                made[part][name] = value
    return made
