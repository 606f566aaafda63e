"""What a job is told to start from, and what of it is refused or warned about (D18, E4, E8)."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from headrace.checkpoint.contract import ClaimedGeneration
from headrace.checkpoint.protocol.types import CheckpointMetadata
from headrace.driver.restoring import (
    position_to_continue,
    read_starting_point,
    restore_target,
    starting_point,
)
from headrace.errors import IncompatibleStateError
from headrace.graph.stream_graph import OperatorKind
from headrace.ids import CheckpointId, Generation
from headrace.slot.job import WATERMARK_UID
from runtime_tests.checkpoint.builders import JOB_ID, checkpoint

OTHER_JOB = "f" * 32
PATH = "s3://bucket/savepoints/savepoint-1"


def start_from(metadata: CheckpointMetadata) -> tuple[CheckpointMetadata, list[str]]:
    store = SimpleNamespace(read_checkpoint=lambda _: metadata)
    return read_starting_point(store, PATH, JOB_ID)  # type: ignore[arg-type]


def changed(**changes: object) -> CheckpointMetadata:
    return msgspec.structs.replace(checkpoint(7), **changes)


def test_a_checkpoint_of_another_job_is_warned_about_with_its_danger() -> None:
    """E8: it works, and the other job may delete it."""
    metadata, warnings = start_from(changed(job_id=OTHER_JOB))
    assert 7 == metadata.checkpoint_id
    (warning,) = warnings
    assert "take a savepoint instead" in warning
    assert f"path={PATH} other_job={OTHER_JOB}" in warning


@pytest.mark.parametrize(
    "metadata", [changed(), changed(kind="savepoint", job_id=OTHER_JOB), changed(kind="savepoint")]
)
def test_savepoints_and_the_jobs_own_checkpoints_are_not(metadata: CheckpointMetadata) -> None:
    assert (metadata, []) == start_from(metadata)


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint"])
def test_what_came_to_its_end_is_no_starting_point(kind: str) -> None:
    """E.g. a drained savepoint: its timers have fired, nothing can follow."""
    with pytest.raises(IncompatibleStateError, match=f"stop without drain next time; path={PATH}"):
        start_from(changed(kind=kind, finished=True))


def claim(own: CheckpointMetadata | None, path: str | None) -> tuple[int | None, list[str]]:
    """Return the number of what a generation restores, and the warnings."""
    claimed = ClaimedGeneration(Generation(1), own, CheckpointId(9), parent=None)
    store = SimpleNamespace(read_checkpoint=lambda _: changed(job_id=OTHER_JOB))
    job = SimpleNamespace(
        restore_path=path, job_id=JOB_ID, completed_checkpoint=None, checkpoints_uri="s3://bucket/x"
    )
    found, warnings = starting_point(store, claimed, job)  # type: ignore[arg-type]
    return found.restore and found.restore.checkpoint_id, warnings


def test_a_job_without_checkpoints_starts_from_the_path_or_empty() -> None:
    number, warnings = claim(None, PATH)
    assert (7, 1) == (number, len(warnings))
    assert (None, []) == claim(None, None)


def test_a_path_that_is_not_used_because_the_job_has_its_own_state_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("INFO"):
        assert (8, []) == claim(checkpoint(8), PATH)
    assert (
        f"own checkpoint, the path to start from is for its beginning checkpoint=8 path={PATH}"
        in (caplog.text)
    )
    caplog.clear()
    assert (8, []) == claim(checkpoint(8), None)
    assert "" == caplog.text


def graph(**kinds: OperatorKind) -> SimpleNamespace:
    operators = [SimpleNamespace(uid=uid, kind=kind) for uid, kind in kinds.items()]
    sources = [operator for operator in operators if operator.kind is OperatorKind.SOURCE]
    return SimpleNamespace(
        parallelism=2,
        max_parallelism=128,
        operators=lambda: operators,
        parallelism_of=lambda _operator: 2,
        sources=lambda: sources,
    )


def settings(*, allow: bool = False) -> SimpleNamespace:
    return SimpleNamespace(allow_non_restored_state=allow)


def test_state_is_matched_with_operators_that_can_take_it() -> None:
    program = graph(
        source=OperatorKind.SOURCE, count=OperatorKind.KEYED_PROCESS, out=OperatorKind.SINK
    )
    target = restore_target(program, settings(allow=True))  # type: ignore[arg-type]
    assert {"source", "count", "out", WATERMARK_UID} == set(target.operator_uids)
    assert ({"count"}, {"out"}) == (target.keyed_uids, target.sink_uids)
    assert (2, 128, True) == (
        target.parallelism,
        target.max_parallelism,
        target.allow_non_restored_state,
    )


def test_offsets_of_a_renamed_source_stop_the_start_or_are_dropped_with_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    position = checkpoint(7).source
    assert position is not None
    offsets = {epoch: f"{log}\n0" for epoch, log in position.offsets.items()}  # the heartbeat's
    stored = changed(source=msgspec.structs.replace(position, uids=["old"], offsets=offsets))
    program = graph(new=OperatorKind.SOURCE)
    with pytest.raises(IncompatibleStateError, match="old"):
        position_to_continue(stored, program, settings())  # type: ignore[arg-type]
    position_to_continue(stored, program, settings(allow=True))  # type: ignore[arg-type]
    assert "offsets are left behind sources=['old']" in caplog.text
