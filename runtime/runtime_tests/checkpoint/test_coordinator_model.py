"""The coordinator under any order of events: what the engine may rely on."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.checkpoint.coordinator import CheckpointCoordinator, CheckpointPhase, Instant
from headrace.checkpoint.decisions import (
    AbortCheckpoint,
    CompleteCheckpoint,
    CopySavepoint,
    Decision,
    FailJob,
    FailSavepoints,
    OutputCommitted,
    PublishCheckpoint,
    ResumeEpochs,
    TriggerCheckpoint,
)
from headrace.checkpoint.settings import CheckpointSettings
from headrace.ids import CheckpointId, Epoch, Generation, SlotIndex, TriggerId
from runtime_tests.checkpoint.builders import slot_snapshot

SLOTS = 3
TOLERATED = 2
INTERVAL_MS, PAUSE_MS, TIMEOUT_MS = 100, 50, 300


class CoordinatorMachine(RuleBasedStateMachine):
    """Slots, storage and time do what they like; the decisions must stay in order."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.epoch = 0
        self.generation = 0
        self.coordinator = CheckpointCoordinator(
            CheckpointSettings(INTERVAL_MS, PAUSE_MS, TIMEOUT_MS, TOLERATED), root_uri="memory://x"
        )
        self.numbers: list[int] = []
        self.waiting: list[str] = []
        self.begun: dict[int, list[str]] = {}
        self.requested = 0
        self.start_generation()

    def start_generation(self) -> None:
        self.generation += 1
        self.committed: dict[int, set[int]] = {}
        self.current: int | None = None
        self.held = False
        self.acked: set[int] = set()
        self.publishing = False
        self.failures = 0
        self.ended_ms = self.now_ms - PAUSE_MS
        self.triggered_ms = self.now_ms
        self.counts = False
        self.forced = self.current_forced = False
        waiting = self.coordinator.withdraw_savepoints(begun=False)
        assert list(waiting) == self.waiting
        self.waiting = []
        decisions = self.coordinator.start_generation(
            Generation(self.generation),
            next_checkpoint_id=CheckpointId(1),
            parallelism=SLOTS,
            restored=False,
            now=self.now(),
        )
        failed = [t for d in decisions if isinstance(d, FailSavepoints) for t in d.trigger_ids]
        assert sorted(failed) == sorted(t for begun in self.begun.values() for t in begun)
        self.begun = {}

    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms)

    def number(self) -> CheckpointId:
        return CheckpointId(self.current or 0)

    def follow(self, decisions: list[Decision]) -> None:  # noqa: C901 - one case a decision
        for decision in decisions:
            match decision:
                case TriggerCheckpoint(n, epoch, forced):
                    assert forced == (self.forced or bool(self.waiting))
                    assert self.current is None
                    assert self.numbers == [] or n > self.numbers[-1]
                    assert epoch == self.epoch
                    due = self.now_ms - self.triggered_ms >= INTERVAL_MS
                    due = due and self.now_ms - self.ended_ms >= PAUSE_MS
                    assert forced or due
                    self.counts = self.forced or due
                    self.triggered_ms = self.now_ms
                    self.numbers.append(n)
                    self.current, self.held, self.acked = n, True, set()
                    self.current_forced, self.forced = self.forced, False
                    if self.waiting:
                        self.begun[n], self.waiting = self.waiting, []
                case ResumeEpochs(n):
                    assert self.held
                    assert n == self.numbers[-1]
                    self.held = False
                case PublishCheckpoint(n, _, snapshots):
                    assert n == self.current
                    assert not self.held
                    assert self.acked == set(range(SLOTS)) == {s.slot for s in snapshots}
                    self.publishing = True
                case CompleteCheckpoint(n, held):
                    assert n == self.current
                    assert self.publishing
                    assert held == (n in self.begun)
                    self.failures = 0
                    self.committed[n] = set()
                    self.end()
                case OutputCommitted(n):
                    assert self.committed.pop(n) == set(range(SLOTS))
                case CopySavepoint(n, trigger_ids):
                    assert n not in self.committed
                    assert self.begun.pop(n) == list(trigger_ids)
                case FailSavepoints(trigger_ids):
                    assert self.begun.pop(self.numbers[-1]) == list(trigger_ids)
                case AbortCheckpoint(n):
                    assert n == self.current
                    self.forced = self.forced or self.current_forced
                    self.end()
                case FailJob():
                    assert self.failures > TOLERATED
        if any(isinstance(d, FailJob) for d in decisions):
            self.start_generation()

    def end(self) -> None:
        self.current, self.publishing, self.ended_ms = None, False, self.now_ms

    def count_failure(self, decisions: list[Decision]) -> None:
        self.failures += self.counts and any(isinstance(d, AbortCheckpoint) for d in decisions)

    @rule()
    def a_savepoint_is_requested(self) -> None:
        self.requested += 1
        self.waiting.append(f"{self.requested:032x}")
        self.coordinator.request_savepoint(TriggerId(self.waiting[-1]))

    @precondition(lambda self: self.committed)
    @rule(slot=st.integers(0, SLOTS - 1), data=st.data())
    def a_slot_committed(self, slot: int, data: st.DataObject) -> None:
        upto = data.draw(st.sampled_from(sorted(self.committed)))
        for n, slots in self.committed.items():
            if n <= upto:
                slots.add(slot)
        self.follow(self.coordinator.slot_committed(SlotIndex(slot), CheckpointId(upto)))

    @rule(elapsed_ms=st.integers(0, 200))
    def time_passes(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        decisions = self.coordinator.tick(self.now())
        self.count_failure(decisions)
        self.follow(decisions)

    @precondition(lambda self: not self.held)
    @rule()
    def an_epoch_ends(self) -> None:
        self.epoch += 1
        self.follow(self.coordinator.epoch_finished(Epoch(self.epoch), self.now()))

    @rule()
    def a_checkpoint_is_forced(self) -> None:
        self.coordinator.force()
        self.forced = True

    @rule(slot=st.integers(0, SLOTS - 1), late=st.integers(0, 3))
    def a_slot_synced(self, slot: int, late: int) -> None:
        number = CheckpointId(self.number() - late)
        self.follow(self.coordinator.slot_synced(SlotIndex(slot), number))

    @rule(slot=st.integers(0, SLOTS - 1), late=st.sampled_from([0, 0, 0, 1]))
    def a_slot_acked(self, slot: int, late: int) -> None:
        number = CheckpointId(self.number() - late)
        if late == 0 and self.current is not None and not self.publishing:
            self.acked.add(slot)
        snapshot = slot_snapshot(slot, SLOTS)
        self.follow(self.coordinator.slot_acked(SlotIndex(slot), number, snapshot))

    @rule(slot=st.integers(0, SLOTS - 1))
    def a_slot_declined(self, slot: int) -> None:
        decisions = self.coordinator.slot_declined(SlotIndex(slot), self.number(), "x", self.now())
        self.count_failure(decisions)
        self.follow(decisions)

    @precondition(lambda self: self.publishing)
    @rule(outcome=st.sampled_from(["published", "published", "failed", "taken"]))
    def publication_ends(self, outcome: str) -> None:
        number = self.number()
        if outcome == "published":
            self.follow(self.coordinator.published(number, self.now()))
        elif outcome == "failed":
            self.failures += self.counts
            self.follow(self.coordinator.publish_failed(number, "x", self.now()))
        else:
            self.forced = True
            self.waiting = [*self.begun.pop(number, []), *self.waiting]
            self.follow(self.coordinator.number_taken(number, self.now()))

    @rule()
    def the_job_fails_over(self) -> None:
        self.start_generation()

    @invariant()
    def the_engine_and_the_coordinator_agree(self) -> None:
        assert self.held == self.coordinator.holds_epochs
        phase = self.coordinator.pending_phase
        assert (self.current is None) == (phase is None)
        assert self.publishing == (phase is CheckpointPhase.PUBLISHING)

    @invariant()
    def the_counters_add_up(self) -> None:
        counts = self.coordinator.history.counts
        assert len(self.numbers) == counts.triggered
        assert counts.triggered == counts.in_progress + counts.completed + counts.failed
        assert counts.in_progress == (self.current is not None)


CoordinatorMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None
)


TestCoordinator = pytest.mark.property(CoordinatorMachine.TestCase)
