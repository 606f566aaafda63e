"""Steps of a live rescale: base, preparation, rounds of catching up, switch; and its failures."""

import threading
from types import SimpleNamespace

import pytest

from headrace.checkpoint.protocol.types import FileHandle
from headrace.clock import SystemClock
from headrace.driver import rescale_duty
from headrace.driver.events import SlotGone, SlotSaid
from headrace.driver.rescale_duty import ROUNDS_MAX, SMALL_BYTES, RescaleDuty
from headrace.driver.rescaling import RescalePhase, RescaleService, changes_for
from headrace.graph.job_graph import JobGraph, JobLevel, JobOperator
from headrace.graph.stream_graph import OperatorKind
from headrace.ids import AttemptId, CheckpointId, Generation, SlotIndex
from headrace.slot.messages import (
    AbandonRescale,
    Ack,
    CatchUp,
    Prepare,
    Prepared,
    Register,
    Rescale,
)

GENERATION = Generation(3)
TOTAL = 8


def operator(uid, parallelism=None):
    return JobOperator(
        1, uid, False, uid, OperatorKind.KEYED_PROCESS, None, None, None, None, (), (),
        parallelism=parallelism,
    )  # fmt: skip


def graph(parallelism, *operators):
    levels = (JobLevel(0, (), ()), JobLevel(1, operators or (operator("keep"),), ()))
    return JobGraph("job", parallelism, TOTAL, levels)


def file(name, size=100):
    return FileHandle(name, f"chk/{name}", size, "0" * 32)


class Slots:
    """The slot service as the duty sees it: layout 0 serves, layout 1 comes."""

    layout = 0

    def __init__(self, old, new):
        self.layouts = {0: range(old), 1: range(new)}
        self.sent = []
        self.dropped = []

    def new_layout(self):
        return 1

    def live(self, layout=None):
        return {
            slot: Register("job", slot, layout or 0, AttemptId(f"new-{slot}"), 1, "0", "a", "u")
            for slot in self.layouts[layout or 0]
        }

    def send(self, slot, order, layout=0):
        self.sent.append((layout, slot, order))
        return True

    def drop_layout(self, layout, _reason):
        self.dropped.append(layout)

    def orders(self, kind):
        return [(layout, slot, order) for layout, slot, order in self.sent if type(order) is kind]


class Run:
    """A generation with a rescale in it; tests say what slots answer."""

    def __init__(self, monkeypatch, old=2, new=4):
        self.started = threading.Event()
        self.forced = 0
        self.slots = Slots(old, new)
        self.service = RescaleService(SystemClock(), parallelism=old, max_parallelism=TOTAL)
        self.service.generation_runs(running=True)
        self.events = []
        exchange = SimpleNamespace(close=lambda: None)
        monkeypatch.setattr(rescale_duty, "SlotExchange", lambda *_: exchange)
        monkeypatch.setattr(rescale_duty, "start_slots", lambda *_: None)
        monkeypatch.setattr(rescale_duty, "restore_target", lambda *_: None)
        assigned = [SimpleNamespace(slot=slot, keyed=[]) for slot in range(new)]
        plan = SimpleNamespace(slots=assigned)
        monkeypatch.setattr(rescale_duty, "assign_restore", lambda *_: plan)
        settings = SimpleNamespace(
            job_id="job", control_host="h", local_dir=None, slots={}, rescale_timeout_s=60
        )
        parts = SimpleNamespace(
            clock=SystemClock(), coordinator=self, graph=graph(old), rescales=self.service,
            slots=self.slots, settings=settings, spark=None, exchange=exchange, post=self.post,
        )  # fmt: skip
        self.slots.port = 1
        self.new = new
        self.duty = RescaleDuty(parts, GENERATION)
        self.service.order(new)

    def post(self, event):
        self.events.append(event)
        self.started.set()

    def force(self):
        self.forced += 1

    def barrier(self, checkpoint):
        """A barrier without a switch; returns what its checkpoint is for."""
        assert not self.duty.at_barrier()
        return self.duty.triggered(CheckpointId(checkpoint))

    def ack(self, checkpoint, slot, **changes):
        files = {uid: file(f"{checkpoint}-{slot}", size) for uid, size in changes.items()}
        ack = Ack(GENERATION, CheckpointId(checkpoint), None, {}, files)
        self.duty.acked(slot, ack)

    def prepared(self, checkpoint):
        for slot in range(self.new):
            message = Prepared(CheckpointId(checkpoint), 1.0, 0, 0, None)
            self.duty.take(SlotSaid(slot, AttemptId(f"new-{slot}"), message))

    def up_to_rounds(self):
        """Base, layout and preparation."""
        assert self.barrier(1) is Rescale.BASE
        self.duty.published(SimpleNamespace(checkpoint_id=1))
        assert self.duty.completed(CheckpointId(1)) is None
        assert self.started.wait(10)
        self.duty.layout_started(self.events.pop())
        self.duty.tick()
        assert [slot for _, slot, _ in self.slots.orders(Prepare)] == list(range(self.new))
        self.prepared(1)

    def round(self, checkpoint, size):
        """One round whose changes have this size in every former owner."""
        assert self.barrier(checkpoint) is Rescale.ROUND
        for slot in range(2):
            self.ack(checkpoint, slot, keep=size)
        assert self.duty.completed(CheckpointId(checkpoint)) is None
        assert self.duty.is_catching_up
        self.prepared(checkpoint)
        assert not self.duty.is_catching_up


@pytest.fixture
def run(monkeypatch):
    return Run(monkeypatch)


def test_new_slots_catch_up_with_the_owners_before_them_until_little_is_left(run):
    run.up_to_rounds()
    run.round(2, size=SMALL_BYTES)
    caught_up = run.slots.orders(CatchUp)
    assert [
        (1, slot, 2, 1, {"keep": [f"2-{slot // 2}"]}) for slot in range(4)
    ] == [
        (layout, slot, order.checkpoint_id, order.hand_over.base,
         {uid: [f.name for f in files] for uid, files in order.hand_over.changes.items()})
        for layout, slot, order in caught_up
    ]  # fmt: skip
    run.round(3, size=SMALL_BYTES // 2)
    assert run.slots.orders(CatchUp)[-1][2].hand_over.base == 2

    assert run.duty.at_barrier(), "little is left: the job switches"
    assert run.service.operation().phase is RescalePhase.SWITCHING
    assert run.duty.triggered(CheckpointId(4)) is Rescale.HAND_OVER
    for slot in range(2):
        run.ack(4, slot, keep=10)
    switch = run.duty.completed(CheckpointId(4))
    hand_over = switch.hand_over_to(SlotIndex(3))
    assert (3, ["4-1"]) == (hand_over.base, [f.name for f in hand_over.changes["keep"]])
    assert run.service.operation().bytes_moved == 2 * SMALL_BYTES + SMALL_BYTES + 2 * 10


def test_the_switch_comes_after_the_last_round_however_much_is_left(run):
    run.up_to_rounds()
    for number in range(ROUNDS_MAX):
        run.round(2 + number, size=SMALL_BYTES)
    assert run.duty.at_barrier()


def test_a_round_whose_checkpoint_fails_ends_the_rescale_and_not_the_job(run):
    run.up_to_rounds()
    assert run.barrier(2) is Rescale.ROUND
    run.ack(2, 0, keep=5)
    run.duty.aborted(CheckpointId(2))
    operation = run.service.operation()
    assert operation.phase is RescalePhase.FAILED
    assert "a checkpoint of the rescale failed; checkpoint=2" in operation.error
    assert run.slots.dropped == [1]
    assert [(0, 0), (0, 1)] == [(of, slot) for of, slot, _ in run.slots.orders(AbandonRescale)]
    assert run.barrier(3) is Rescale.NONE


def test_a_new_slot_that_goes_away_while_it_catches_up_ends_the_rescale(run):
    run.up_to_rounds()
    assert run.barrier(2) is Rescale.ROUND
    for slot in range(2):
        run.ack(2, slot, keep=5)
    run.duty.completed(CheckpointId(2))
    run.duty.take(SlotGone(1, AttemptId("new-1")))
    assert run.service.operation().phase is RescalePhase.FAILED
    assert not run.duty.is_catching_up


def test_answers_of_an_earlier_step_do_not_count(run):
    run.up_to_rounds()
    assert run.barrier(2) is Rescale.ROUND
    for slot in range(2):
        run.ack(2, slot, keep=5)
    run.duty.completed(CheckpointId(2))
    run.prepared(1)
    assert run.duty.is_catching_up
    assert not run.duty.at_barrier()


def test_an_operator_of_which_an_owner_lost_track_is_left_out():
    changes = {"keep": {0: file("a")}, "both": {0: file("b"), 1: file("c")}}
    operators = (operator("keep"), operator("both"), operator("new"))
    found = changes_for(SlotIndex(0), graph(2, *operators), graph(1, *operators), changes)
    assert {"both": ["b", "c"]} == {uid: [f.name for f in files] for uid, files in found.items()}


def test_an_operator_of_its_own_parallelism_has_changes_of_its_own_owners():
    few = operator("few", parallelism=1)
    changes = {"few": {0: file("a")}}
    old, new = graph(2, few), graph(4, few)
    assert [f.name for f in changes_for(SlotIndex(0), old, new, changes)["few"]] == ["a"]
    assert changes_for(SlotIndex(1), old, new, changes) == {}
