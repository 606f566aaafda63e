"""Slots of a generation: whoever is missing is started, also when it goes away meanwhile."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.driver.events import SlotsStarted, StopRequested, Tick
from headrace.driver.restoring import REGISTRATION_S, SlotRestoration
from headrace.errors import SlotLostError

GENERATION = 4


class World:
    """What a restoration sees: events in a given order, each with the slots that live then."""

    def __init__(self, live, steps):
        self.now = 0.0
        self.live_slots = set(live)
        self.steps = list(steps)
        self.launched = []

    def restoration(self, parallelism=2):
        parts = SimpleNamespace(
            graph=SimpleNamespace(parallelism=parallelism),
            slots=SimpleNamespace(live=lambda: dict.fromkeys(self.live_slots), drop=self.drop),
            status=SimpleNamespace(update=lambda **_: None),
            clock=SimpleNamespace(monotonic_s=lambda: self.now),
            settings=SimpleNamespace(slot_request_timeout_s=300.0),
            next_event=self.next_event,
        )
        world = self

        class Restoration(SlotRestoration):
            def _launch(self, live):
                super_starting = sorted(set(range(parallelism)) - set(live))
                self._starting, self._counted_on = True, live
                self._launched_s = world.now
                world.launched.append(super_starting)

        return Restoration(parts, SimpleNamespace(generation=GENERATION))

    def drop(self, slot, reason):
        self.live_slots.discard(slot)

    def next_event(self):
        self.now += 1.0
        if not self.steps:
            return Tick()
        event, live = self.steps.pop(0)
        self.live_slots = set(live)
        return event


DONE = SlotsStarted(GENERATION, None)


def test_missing_slots_are_started_once():
    world = World({0}, [(DONE, {0}), (Tick(), {0, 1})])
    assert world.restoration().start_slots()
    assert [[1]] == world.launched


def test_nothing_is_started_when_all_live():
    world = World({0, 1}, [])
    assert world.restoration().start_slots()
    assert [] == world.launched


def test_a_slot_that_goes_away_while_another_is_started_is_started_too():
    world = World({0}, [(Tick(), set()), (DONE, {1}), (Tick(), {1}), (Tick(), {0, 1})])
    assert world.restoration().start_slots()
    assert [[1], [0]] == world.launched


def test_a_slot_that_dies_at_its_start_is_started_again_after_a_while():
    waiting = [(Tick(), {0})] * int(REGISTRATION_S)
    world = World({0}, [(DONE, {0}), *waiting, (Tick(), {0, 1})])
    assert world.restoration().start_slots()
    assert [[1], [1]] == world.launched


def test_slots_beyond_the_parallelism_are_told_to_end():
    world = World({0, 1, 2, 3}, [])
    assert world.restoration().start_slots()
    assert {0, 1} == world.live_slots


def test_a_stop_ends_the_waiting():
    world = World({0}, [(StopRequested(cancel=True), {0})])
    assert not world.restoration().start_slots()


def test_too_few_slots_fail_with_their_numbers():
    world = World({0}, [])
    with pytest.raises(SlotLostError, match=r"missing_slots=\[1\]"):
        world.restoration().start_slots()
