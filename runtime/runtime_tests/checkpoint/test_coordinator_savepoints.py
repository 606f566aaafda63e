"""When savepoints begin, wait, are copied and fail (T16)."""

from __future__ import annotations

import pytest

from headrace.checkpoint.decisions import (
    AbortCheckpoint,
    CompleteCheckpoint,
    CopySavepoint,
    Decision,
    FailJob,
    FailSavepoints,
    OutputCommitted,
    PublishCheckpoint,
    TriggerCheckpoint,
)
from headrace.checkpoint.settings import CheckpointSettings
from headrace.ids import CheckpointId, Epoch, TriggerId
from runtime_tests.checkpoint.test_coordinator import PRODUCTION, Job, at

FIRST, SECOND = TriggerId("1" * 32), TriggerId("2" * 32)


def trigger(n: int, epoch: int) -> TriggerCheckpoint:
    return TriggerCheckpoint(CheckpointId(n), Epoch(epoch), forced=True)


@pytest.fixture
def job() -> Job:
    return Job()


def commit_all(job: Job, n: int) -> list[Decision]:
    return [d for s in job.slots for d in job.coordinator.slot_committed(s, CheckpointId(n))]


def complete(job: Job, n: int, ms: int) -> list[Decision]:
    job.ack_all(n)
    return job.coordinator.published(CheckpointId(n), at(ms))


def test_a_savepoint_is_copied_when_the_output_of_its_checkpoint_is_published(job: Job) -> None:
    job.coordinator.request_savepoint(FIRST)
    assert job.epoch(1, 10) == [trigger(1, 1)]
    assert complete(job, 1, 20) == [CompleteCheckpoint(CheckpointId(1), held=True)]
    assert commit_all(job, 1) == [
        OutputCommitted(CheckpointId(1)),
        CopySavepoint(CheckpointId(1), (FIRST,)),
    ]
    assert commit_all(job, 1) == []


def test_a_savepoint_needs_no_interval() -> None:
    job = Job(CheckpointSettings(interval_ms=None))
    job.coordinator.request_savepoint(FIRST)
    assert job.epoch(1, 10) == [trigger(1, 1)]


def test_a_savepoint_waits_for_the_checkpoint_in_progress(job: Job) -> None:
    """The checkpoint in progress began before the request and does not serve it."""
    job.epoch(1, 60_000)
    job.coordinator.request_savepoint(FIRST)
    assert job.epoch(2, 60_001) == []
    assert complete(job, 1, 60_002) == [CompleteCheckpoint(CheckpointId(1), held=False)]
    assert job.epoch(3, 60_003) == [trigger(2, 3)]
    assert commit_all(job, 1) == [OutputCommitted(CheckpointId(1))]


def test_periodic_checkpoints_go_on_while_a_savepoint_is_copied(job: Job) -> None:
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 10)
    complete(job, 1, 20)
    commit_all(job, 1)
    assert job.epoch(2, 60_010) == [TriggerCheckpoint(CheckpointId(2), Epoch(2), forced=False)]


def test_the_checkpoint_of_a_savepoint_counts_for_interval_and_pause(job: Job) -> None:
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 59_000)
    complete(job, 1, 100_000)
    assert job.epoch(2, 119_500) == []
    assert job.epoch(3, 130_000) == [TriggerCheckpoint(CheckpointId(2), Epoch(3), forced=False)]


def test_requests_of_one_moment_share_a_checkpoint_and_a_repeated_one_is_the_same(job: Job) -> None:
    for trigger_id in (FIRST, SECOND, FIRST):
        job.coordinator.request_savepoint(trigger_id)
    job.epoch(1, 10)
    complete(job, 1, 20)
    assert commit_all(job, 1)[1:] == [CopySavepoint(CheckpointId(1), (FIRST, SECOND))]
    assert job.epoch(2, 30) == []


def test_output_that_is_committed_with_a_newer_checkpoint_serves_the_savepoint(job: Job) -> None:
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 10)
    complete(job, 1, 20)
    job.complete(2, 2, 60_010, 60_020)
    assert commit_all(job, 2) == [
        OutputCommitted(CheckpointId(1)),
        CopySavepoint(CheckpointId(1), (FIRST,)),
        OutputCommitted(CheckpointId(2)),
    ]


def test_a_savepoint_fails_with_its_checkpoint_and_is_not_tried_again(job: Job) -> None:
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 10)
    decisions = job.coordinator.slot_declined(job.slots[0], CheckpointId(1), "disk full", at(20))
    reason = "slot declined the checkpoint; slot=0 reason=disk full"
    assert AbortCheckpoint(CheckpointId(1), reason) in decisions
    assert FailSavepoints((FIRST,), reason) in decisions
    assert job.epoch(2, 30) == []


def test_a_failed_savepoint_is_not_one_of_the_tolerated_failures(job: Job) -> None:
    """None is tolerated here; the failure of a periodic checkpoint would fail the job over."""
    assert PRODUCTION.tolerable_failures == 0
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 10)
    decisions = job.coordinator.tick(at(10 + PRODUCTION.timeout_ms))
    assert not [d for d in decisions if isinstance(d, FailJob)]


def test_a_checkpoint_that_was_due_anyway_counts_although_it_serves_a_savepoint(job: Job) -> None:
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 60_000)
    decisions = job.coordinator.tick(at(60_000 + PRODUCTION.timeout_ms))
    assert [type(d) for d in decisions][-2:] == [FailSavepoints, FailJob]


def test_a_number_taken_by_a_zombie_costs_a_savepoint_nothing(job: Job) -> None:
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 10)
    job.ack_all(1)
    decisions = job.coordinator.number_taken(CheckpointId(1), at(20))
    assert not [d for d in decisions if isinstance(d, FailSavepoints)]
    assert job.epoch(2, 30) == [trigger(2, 2)]
    complete(job, 2, 40)
    assert commit_all(job, 2)[1:] == [CopySavepoint(CheckpointId(2), (FIRST,))]


@pytest.mark.parametrize("reached", ["triggered", "acknowledged", "published"])
def test_a_failover_fails_the_savepoint_that_has_begun(job: Job, reached: str) -> None:
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 10)
    if reached != "triggered":
        assert isinstance(job.ack_all(1)[-1], PublishCheckpoint)
    if reached == "published":
        job.coordinator.published(CheckpointId(1), at(20))
    decisions = job.restart(generation=2, next_id=2, now_ms=30, restored=True)
    assert decisions == [FailSavepoints((FIRST,), "the job failed over")]
    assert commit_all(job, 1) == []
    assert job.epoch(1, 40) == []


def test_a_savepoint_that_has_not_begun_is_given_back_at_the_end_of_a_generation(job: Job) -> None:
    job.epoch(1, 60_000)
    job.coordinator.request_savepoint(FIRST)
    assert job.coordinator.withdraw_savepoints(begun=False) == (FIRST,)
    assert job.restart(generation=2, next_id=2, now_ms=60_100, restored=True) == []
    assert job.epoch(2, 60_200) == []


def test_an_end_on_purpose_gives_back_what_has_begun_too(job: Job) -> None:
    """A rescale switches at the very barrier that a savepoint was waiting for."""
    job.coordinator.request_savepoint(FIRST)
    job.epoch(1, 10)
    complete(job, 1, 20)
    job.coordinator.request_savepoint(SECOND)
    assert job.coordinator.withdraw_savepoints(begun=True) == (FIRST, SECOND)
    assert job.restart(generation=2, next_id=2, now_ms=30, restored=True) == []
