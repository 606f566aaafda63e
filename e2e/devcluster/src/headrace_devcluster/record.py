"""What is written down about a cluster while it exists: ``cluster.json`` in its directory.

The record is a convenience, not the authority: `teardown` finds a cluster's parts by name and
control group, so a record that was never written or cannot be read only costs the index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from headrace_devcluster.processes import ProcessId


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """One cluster; each step of ``up`` writes a new one."""

    name: str
    index: int
    holder: ProcessId | None = None
    """The process whose end ends the node."""

    components: Mapping[str, ProcessId] = field(default_factory=dict)
    ready: bool = False
    """Whether ``up`` came to its end."""

    def with_component(self, name: str, process: ProcessId) -> ClusterRecord:
        """The same record with one more running component."""
        return replace(self, components={**self.components, name: process})


def write_record(path: Path, record: ClusterRecord) -> None:
    """Replaces the record in one step, so that a reader never sees half of one."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2))
    fresh.replace(path)


def read_record(path: Path) -> ClusterRecord | None:
    """Reads a record; None when there is none or a crash left one that says nothing."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=ClusterRecord)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def read_all_records(root: Path) -> list[ClusterRecord]:
    """The records of every cluster below ``root``, up or half up."""
    if not root.is_dir():
        return []
    found = (read_record(directory / "cluster.json") for directory in sorted(root.iterdir()))
    return [record for record in found if record is not None]
