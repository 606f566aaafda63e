"""Calls of PyFlink that Headrace does not have, and what to do instead.

A moved program that uses one fails where it calls it, with a sentence. Type checkers see no such
names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

_IMAGE: Final = "put it into the runtime image, or set spark.* options"
_LATER: Final = "it is planned and not there yet"
_LEVELS: Final = "operators of one level always run chained in one slot, remove the call"

ENVIRONMENT: Final[Mapping[str, str]] = {
    "add_jars": f"connectors come with Headrace; for other jars {_IMAGE}",
    "add_classpaths": _IMAGE,
    "add_python_file": _IMAGE,
    "add_python_archive": _IMAGE,
    "set_python_requirements": _IMAGE,
    "set_python_executable": _IMAGE,
    "register_cached_file": _IMAGE,
    "add_source": "use from_source",
    "create_input": "use from_source or from_dataframe",
    "disable_operator_chaining": _LEVELS,
    "set_buffer_timeout": "set headrace.epoch.target-duration",
    "enable_changelog_state_backend": "use incremental checkpoints",
    "execute_async": "use execute",
    "set_default_savepoint_directory": "set execution.checkpointing.savepoint-dir",
    "get_config": "set options by key with Configuration and configure",
    "from_data_stream": _LATER,
}

STREAM: Final[Mapping[str, str]] = {
    "add_sink": "use sink_to",
    "cache": "streams cannot be cached, write them to a sink",
    "count_window": _LATER,
    "disable_chaining": _LEVELS,
    "force_non_parallel": "operators run with the job's parallelism",
    "get_side_output": _LATER,
    "max": "use reduce",
    "max_by": "use reduce",
    "min": "use reduce",
    "min_by": "use reduce",
    "partition_custom": "use key_by",
    "project": "use map",
    "rescale": "use rebalance",
    "set_buffer_timeout": "set headrace.epoch.target-duration",
    "set_description": "use name",
    "set_uid_hash": "use uid",
    "slot_sharing_group": "all operators share the slots of the job",
    "start_new_chain": _LEVELS,
    "sum": "use reduce",
    "window": _LATER,
    "window_all": _LATER,
}

CHECKPOINTS: Final[Mapping[str, str]] = {
    "enable_unaligned_checkpoints": "checkpoints are aligned at the end of an epoch",
    "disable_unaligned_checkpoints": "checkpoints are always aligned, remove the call",
    "set_aligned_checkpoint_timeout": "checkpoints are always aligned, remove the call",
    "set_alignment_timeout": "checkpoints are always aligned, remove the call",
    "set_force_unaligned_checkpoints": "checkpoints are aligned at the end of an epoch",
    "set_fail_on_checkpointing_errors": "use set_tolerable_checkpoint_failure_number",
    "set_checkpoint_storage": "use set_checkpoint_storage_dir",
}


class UnsupportedCallError(InvalidProgramError, AttributeError):
    """A call of PyFlink that Headrace does not have; also what a missing attribute raises."""


def missing_attribute(owner: object, name: str, unsupported: Mapping[str, str]) -> AttributeError:
    """Return the error for a name that ``owner`` does not have."""
    kind = type(owner).__name__
    instead = unsupported.get(name)
    if instead is None:
        return AttributeError(f"{kind!r} object has no attribute {name!r}")
    return UnsupportedCallError(f"PyFlink's call is not supported, {instead}; call={kind}.{name}")
