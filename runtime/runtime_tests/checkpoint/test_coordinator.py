"""When checkpoints begin, complete and fail."""

from __future__ import annotations

import pytest

from headrace.checkpoint.coordinator import CheckpointCoordinator, CheckpointPhase, Instant
from headrace.checkpoint.decisions import (
    AbortCheckpoint,
    CompleteCheckpoint,
    Decision,
    FailJob,
    OutputCommitted,
    PublishCheckpoint,
    ResumeEpochs,
    TriggerCheckpoint,
)
from headrace.checkpoint.settings import CheckpointSettings
from headrace.errors import InternalError, InvalidConfigError
from headrace.ids import CheckpointId, Epoch, Generation, SlotIndex
from runtime_tests.checkpoint.builders import slot_snapshot

PRODUCTION = CheckpointSettings(interval_ms=60_000, min_pause_ms=30_000, timeout_ms=300_000)
"""The values of D13."""


def at(ms: int) -> Instant:
    return Instant(monotonic_ms=ms, wall_ms=1_700_000_000_000 + ms)


class Job:
    """Drives a coordinator as the engine does; slots answer when told to."""

    def __init__(
        self, settings: CheckpointSettings = PRODUCTION, *, slots: int = 2, next_id: int = 1
    ) -> None:
        self.coordinator = CheckpointCoordinator(settings, root_uri="s3://bucket/ckpt/job/")
        self.slots = [SlotIndex(i) for i in range(slots)]
        self.restart(generation=1, next_id=next_id, now_ms=0, restored=False)

    def restart(
        self, *, generation: int, next_id: int, now_ms: int, restored: bool
    ) -> list[Decision]:
        return self.coordinator.start_generation(
            Generation(generation),
            next_checkpoint_id=CheckpointId(next_id),
            parallelism=len(self.slots),
            restored=restored,
            now=at(now_ms),
        )

    def epoch(self, epoch: int, ms: int) -> list[Decision]:
        return self.coordinator.epoch_finished(Epoch(epoch), at(ms))

    def sync_all(self, n: int) -> list[Decision]:
        return [d for s in self.slots for d in self.coordinator.slot_synced(s, CheckpointId(n))]

    def ack_all(self, n: int) -> list[Decision]:
        return [
            decision
            for slot in self.slots
            for decision in self.coordinator.slot_acked(
                slot, CheckpointId(n), slot_snapshot(slot, len(self.slots))
            )
        ]

    def complete(self, n: int, epoch: int, trigger_ms: int, end_ms: int) -> None:
        assert self.epoch(epoch, trigger_ms) == [
            TriggerCheckpoint(CheckpointId(n), Epoch(epoch), forced=False)
        ]
        self.ack_all(n)
        assert self.coordinator.published(CheckpointId(n), at(end_ms)) == [
            CompleteCheckpoint(CheckpointId(n))
        ]


def test_a_checkpoint_goes_through_trigger_sync_async_ack_and_complete() -> None:
    job = Job(next_id=7)
    assert job.epoch(3, 60_000) == [TriggerCheckpoint(CheckpointId(7), Epoch(3), forced=False)]
    assert job.coordinator.holds_epochs
    assert job.coordinator.slot_synced(SlotIndex(0), CheckpointId(7)) == []
    assert job.coordinator.slot_synced(SlotIndex(1), CheckpointId(7)) == [
        ResumeEpochs(CheckpointId(7))
    ]
    assert not job.coordinator.holds_epochs
    assert job.coordinator.pending_phase is CheckpointPhase.ASYNC
    first, second = slot_snapshot(0, 2), slot_snapshot(1, 2)
    assert job.coordinator.slot_acked(SlotIndex(1), CheckpointId(7), second) == []
    assert job.coordinator.slot_acked(SlotIndex(0), CheckpointId(7), first) == [
        PublishCheckpoint(CheckpointId(7), Epoch(3), (first, second))
    ]
    assert job.coordinator.published(CheckpointId(7), at(61_500)) == [
        CompleteCheckpoint(CheckpointId(7))
    ]
    assert job.coordinator.slot_committed(SlotIndex(0), CheckpointId(7)) == []
    assert job.coordinator.slot_committed(SlotIndex(1), CheckpointId(7)) == [
        OutputCommitted(CheckpointId(7))
    ]
    assert job.coordinator.pending_phase is None


def test_epochs_go_on_while_slots_upload_and_none_triggers_another_checkpoint() -> None:
    job = Job()
    job.epoch(1, 60_000)
    job.sync_all(1)
    assert job.epoch(2, 130_000) == []
    assert job.epoch(3, 200_000) == []


def test_an_ack_without_a_sync_message_counts_as_both() -> None:
    job = Job(slots=1)
    job.epoch(1, 60_000)
    decisions = job.ack_all(1)
    assert decisions == [
        ResumeEpochs(CheckpointId(1)),
        PublishCheckpoint(CheckpointId(1), Epoch(1), (slot_snapshot(),)),
    ]


def test_the_interval_runs_from_trigger_to_trigger() -> None:
    job = Job(CheckpointSettings(interval_ms=60_000))
    assert job.epoch(1, 59_999) == []
    job.complete(1, epoch=2, trigger_ms=60_000, end_ms=70_000)
    assert job.epoch(3, 119_999) == []
    assert job.epoch(4, 120_000) != []


def test_min_pause_runs_from_the_end_of_the_previous_checkpoint() -> None:
    job = Job()
    job.complete(1, epoch=1, trigger_ms=60_000, end_ms=115_000)
    assert job.epoch(2, 120_000) == []  # the interval is over, the pause is not
    assert job.epoch(3, 144_999) == []
    assert job.epoch(4, 145_000) != []


def test_min_pause_also_follows_an_aborted_checkpoint() -> None:
    job = Job(CheckpointSettings(60_000, min_pause_ms=30_000, timeout_ms=50_000))
    job.epoch(1, 60_000)
    job.coordinator.tick(at(110_000))
    assert job.epoch(2, 139_999) == []
    assert job.epoch(3, 140_000) != []


def test_a_checkpoint_past_its_timeout_is_aborted_and_names_the_missing_slots() -> None:
    job = Job(CheckpointSettings(60_000, timeout_ms=300_000, tolerable_failures=1))
    job.epoch(1, 60_000)
    job.coordinator.slot_acked(SlotIndex(0), CheckpointId(1), slot_snapshot())
    assert job.coordinator.tick(at(359_999)) == []
    aborted, resume = job.coordinator.tick(at(360_000))
    assert isinstance(aborted, AbortCheckpoint)
    assert "missing_slots=[1]" in aborted.reason
    assert resume == ResumeEpochs(CheckpointId(1))
    assert job.coordinator.history.counts.failed == 1
    assert job.coordinator.history.entries()[0].status == "FAILED"


def test_epochs_resume_once_for_each_trigger_also_after_an_abort() -> None:
    job = Job(CheckpointSettings(60_000, timeout_ms=1000, tolerable_failures=9))
    job.epoch(1, 60_000)
    job.sync_all(1)
    decisions = job.coordinator.tick(at(61_000))
    assert [type(d) for d in decisions] == [AbortCheckpoint]


def test_a_number_is_never_used_twice() -> None:
    job = Job(CheckpointSettings(1000, tolerable_failures=99), slots=1)
    numbers = []
    for epoch in range(1, 6):
        trigger = job.epoch(epoch, epoch * 10_000)[0]
        assert isinstance(trigger, TriggerCheckpoint)
        numbers.append(trigger.checkpoint_id)
        now = at(epoch * 10_000 + 1)
        job.coordinator.slot_declined(SlotIndex(0), trigger.checkpoint_id, "full", now)
    job.restart(generation=2, next_id=3, now_ms=100_000, restored=True)
    trigger = job.epoch(6, 110_000)[0]
    assert isinstance(trigger, TriggerCheckpoint)
    assert [*numbers, trigger.checkpoint_id] == [1, 2, 3, 4, 5, 6]


def test_the_timeout_no_longer_aborts_once_publication_has_begun() -> None:
    job = Job()
    job.epoch(1, 60_000)
    job.ack_all(1)
    assert job.coordinator.tick(at(10_000_000)) == []
    assert job.coordinator.published(CheckpointId(1), at(10_000_001)) == [
        CompleteCheckpoint(CheckpointId(1))
    ]


def test_failures_are_borne_as_often_in_a_row_as_tolerated() -> None:
    job = Job(CheckpointSettings(1000, tolerable_failures=2), slots=1)
    outcomes = []
    for n in range(1, 4):
        job.epoch(n, n * 10_000)
        decisions = job.coordinator.slot_declined(
            SlotIndex(0), CheckpointId(n), "disk full", at(n * 10_000 + 1)
        )
        outcomes.append([type(d) for d in decisions])
    assert outcomes == [
        [AbortCheckpoint, ResumeEpochs],
        [AbortCheckpoint, ResumeEpochs],
        [AbortCheckpoint, ResumeEpochs, FailJob],
    ]


def test_a_completed_checkpoint_starts_the_count_of_failures_anew() -> None:
    job = Job(CheckpointSettings(1000, tolerable_failures=1), slots=1)
    for n, fails in [(1, True), (2, False), (3, True), (4, False)]:
        job.epoch(n, n * 10_000)
        if fails:
            decisions = job.coordinator.slot_declined(
                SlotIndex(0), CheckpointId(n), "x", at(n * 10_000)
            )
            assert not any(isinstance(d, FailJob) for d in decisions)
        else:
            job.ack_all(n)
            job.coordinator.published(CheckpointId(n), at(n * 10_000))


def test_a_failed_publication_counts_as_a_failed_checkpoint() -> None:
    job = Job()
    job.epoch(1, 60_000)
    job.ack_all(1)
    decisions = job.coordinator.publish_failed(CheckpointId(1), "storage away", at(61_000))
    assert [type(d) for d in decisions] == [AbortCheckpoint, FailJob]


def test_a_number_taken_by_a_deposed_coordinator_is_skipped_at_the_next_barrier() -> None:
    job = Job()
    job.epoch(1, 60_000)
    job.ack_all(1)
    decisions = job.coordinator.number_taken(CheckpointId(1), at(61_000))
    assert [type(d) for d in decisions] == [AbortCheckpoint]
    assert job.epoch(2, 61_001) == [TriggerCheckpoint(CheckpointId(2), Epoch(2), forced=True)]


def test_a_forced_checkpoint_ignores_interval_and_pause_but_not_the_one_in_progress() -> None:
    job = Job()
    job.epoch(1, 60_000)
    job.sync_all(1)
    job.coordinator.force()
    assert job.epoch(2, 60_001) == []
    job.ack_all(1)
    job.coordinator.published(CheckpointId(1), at(60_002))
    expected = [TriggerCheckpoint(CheckpointId(2), Epoch(2), forced=True)]
    assert expected == job.epoch(2, 60_003)


def test_a_forced_checkpoint_that_fails_is_still_wanted() -> None:
    job = Job(CheckpointSettings(None, tolerable_failures=1), slots=1)
    job.coordinator.force()
    job.epoch(1, 10)
    job.coordinator.slot_declined(SlotIndex(0), CheckpointId(1), "x", at(11))
    assert job.epoch(1, 12) == [TriggerCheckpoint(CheckpointId(2), Epoch(1), forced=True)]


def test_without_an_interval_only_forced_checkpoints_are_taken() -> None:
    job = Job(CheckpointSettings(interval_ms=None))
    assert job.epoch(1, 10_000_000) == []
    job.coordinator.force()
    assert job.epoch(2, 10_000_001) != []


def test_a_lost_slot_aborts_without_counting_since_the_failover_is_under_way() -> None:
    job = Job()
    job.epoch(1, 60_000)
    decisions = job.coordinator.slot_lost(SlotIndex(1), at(60_001))
    assert [type(d) for d in decisions] == [AbortCheckpoint, ResumeEpochs]


def test_late_messages_about_other_checkpoints_are_ignored() -> None:
    job = Job(CheckpointSettings(1000, tolerable_failures=9), slots=1)
    job.epoch(1, 10_000)
    job.coordinator.slot_declined(SlotIndex(0), CheckpointId(1), "x", at(10_001))
    job.epoch(2, 20_000)
    late = CheckpointId(1)
    assert job.coordinator.slot_acked(SlotIndex(0), late, slot_snapshot()) == []
    assert job.coordinator.slot_synced(SlotIndex(0), late) == []
    assert job.coordinator.slot_declined(SlotIndex(0), late, "x", at(20_001)) == []
    assert job.coordinator.published(late, at(20_002)) == []
    assert job.coordinator.holds_epochs


def test_a_failover_ends_the_checkpoint_in_progress_and_keeps_the_history() -> None:
    job = Job()
    job.complete(1, epoch=1, trigger_ms=60_000, end_ms=61_000)
    job.epoch(2, 120_000)
    job.restart(generation=2, next_id=3, now_ms=125_000, restored=True)
    assert job.coordinator.pending_phase is None
    entries = job.coordinator.history.entries()
    assert [(e.id, e.status) for e in entries] == [(2, "FAILED"), (1, "COMPLETED")]
    counts = job.coordinator.history.counts
    assert (
        counts.triggered,
        counts.in_progress,
        counts.completed,
        counts.failed,
        counts.restored,
    ) == (2, 0, 1, 1, 1)
    assert job.epoch(3, 184_999) == []
    assert job.epoch(4, 185_000) != []


def test_the_summary_reports_sizes_durations_and_path() -> None:
    job = Job()
    job.epoch(9, 60_000)
    job.coordinator.slot_acked(
        SlotIndex(0), CheckpointId(1), slot_snapshot(0, 2, sync_ms=5.0, state_size_bytes=400)
    )
    job.coordinator.slot_acked(
        SlotIndex(1), CheckpointId(1), slot_snapshot(1, 2, async_ms=90.0, uploaded_bytes=7)
    )
    job.coordinator.published(CheckpointId(1), at(61_820))
    summary = job.coordinator.history.last_completed
    assert summary is not None
    assert summary.path == "s3://bucket/ckpt/job/chk-1"
    assert (summary.sync_ms, summary.async_ms, summary.duration_ms) == (5.0, 90.0, 1820)
    assert (summary.state_size_bytes, summary.uploaded_bytes) == (500, 17)
    assert (summary.epoch, summary.generation) == (9, 1)
    assert summary.completed_ms == 1_700_000_061_820


def test_output_of_an_older_checkpoint_is_committed_with_a_newer_one() -> None:
    job = Job(CheckpointSettings(1000), slots=2)
    job.complete(1, epoch=1, trigger_ms=10_000, end_ms=10_001)
    job.complete(2, epoch=2, trigger_ms=20_000, end_ms=20_001)
    job.coordinator.slot_committed(SlotIndex(0), CheckpointId(1))
    job.coordinator.slot_committed(SlotIndex(1), CheckpointId(2))
    assert job.coordinator.slot_committed(SlotIndex(0), CheckpointId(2)) == [
        OutputCommitted(CheckpointId(2))
    ]


def test_a_slot_that_does_not_exist_is_an_internal_error() -> None:
    job = Job()
    job.epoch(1, 60_000)
    with pytest.raises(InternalError, match="slot=5"):
        job.coordinator.slot_synced(SlotIndex(5), CheckpointId(1))


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"interval_ms": 0}, "execution.checkpointing.interval"),
        ({"min_pause_ms": -1}, "execution.checkpointing.min-pause"),
        ({"timeout_ms": 0}, "execution.checkpointing.timeout"),
        ({"tolerable_failures": -1}, "execution.checkpointing.tolerable-failed-checkpoints"),
        ({"retained": 0}, "state.checkpoints.num-retained"),
    ],
)
def test_settings_out_of_range_name_the_option(changes: dict[str, int], key: str) -> None:
    with pytest.raises(InvalidConfigError, match=key):
        CheckpointSettings(**{"interval_ms": 60_000, **changes})  # type: ignore[arg-type]
