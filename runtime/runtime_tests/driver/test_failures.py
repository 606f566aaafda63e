"""When a job fails over although nothing has said that it failed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.driver.failures import check_progress
from headrace.errors import EpochAbortedError, SlotLostError


class Slots:
    """Two slots; ``quiet`` ones have said nothing for long."""

    def __init__(self, quiet=()):
        self._quiet = list(quiet)
        self.dropped = []

    def live(self):
        return {0: "registration", 1: "registration"}

    def silent(self, timeout_s):
        assert timeout_s == 20.0
        return self._quiet

    def drop(self, slot, reason):
        self.dropped.append(slot)


def parts(slots):
    settings = SimpleNamespace(epoch_timeout_s=600.0, slot_heartbeat_timeout_s=20.0)
    return SimpleNamespace(settings=settings, slots=slots)


def test_an_epoch_that_takes_too_long_ends_the_slots_too_since_one_of_them_is_stuck():
    slots = Slots()
    with pytest.raises(EpochAbortedError, match=r"headrace\.epoch\.timeout; running_s=601"):
        check_progress(parts(slots), 601.0)
    assert [0, 1] == slots.dropped


def test_a_silent_slot_is_dropped_alone():
    slots = Slots(quiet=[1])
    with pytest.raises(SlotLostError, match=r"slots=\[1\]"):
        check_progress(parts(slots), 3.0)
    assert [1] == slots.dropped


def test_nothing_happens_while_all_is_well():
    slots = Slots()
    check_progress(parts(slots), 599.0)
    assert [] == slots.dropped
