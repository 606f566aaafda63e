"""The program in a user's ConfigMap, as far as it can be seen; pure.

The operator reads it and hands the driver a copy (see `headrace_operator.reconcile.program`), so
which program runs is a decision and not a matter of when a pod happened to start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from headrace_operator.kube.api import Manifest
from headrace_operator.observe.facts import ProgramFacts


class ProgramKey(NamedTuple):
    """Name and key of the ConfigMap that holds a program."""

    name: str
    key: str


def program_source(spec: Manifest) -> ProgramKey | None:
    """Return which ConfigMap a spec, valid or not, takes its program from."""
    program = spec.get("program")
    source = program.get("configMap") if isinstance(program, Mapping) else None
    if not isinstance(source, Mapping):
        return None
    return ProgramKey(str(source.get("name", "")), str(source.get("key", "")))


def observe_program(live: Manifest | None, source: ProgramKey) -> ProgramFacts:
    """Return the program in a ConfigMap, or what is missing."""
    if live is None:
        return ProgramFacts(missing=f"there is no ConfigMap of this name; name={source.name}")
    data = live.get("data")
    text = data.get(source.key) if isinstance(data, Mapping) else None
    if not isinstance(text, str):
        missing = f"the ConfigMap has no text under this key; name={source.name} key={source.key}"
        return ProgramFacts(missing=missing)
    return ProgramFacts(text)
