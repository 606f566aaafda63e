from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connectors.spools import (
    owner_of_spool,
    slot_of_spool,
    spool_id_of,
    spools_to_fence,
)
from headrace.errors import CorruptStateError

SLOTS = st.integers(0, 32767)


def test_names_are_stable():
    assert [spool_id_of(slot) for slot in (0, 3, 12345)] == ["slot-0000", "slot-0003", "slot-12345"]


@given(SLOTS)
def test_a_name_tells_its_slot(slot):
    assert slot_of_spool(spool_id_of(slot)) == slot


@pytest.mark.parametrize("name", ["", "slot-1", "slot--001", "part-0001", "slot-0001/x"])
def test_other_names_are_refused(name):
    with pytest.raises(CorruptStateError):
        slot_of_spool(name)


def test_a_slot_that_still_exists_publishes_its_own_spool():
    assert [owner_of_spool(spool_id_of(slot), 4) for slot in range(4)] == [0, 1, 2, 3]


def test_spools_of_vanished_slots_are_divided_over_the_rest():
    assert [owner_of_spool(spool_id_of(slot), 2) for slot in range(4)] == [0, 1, 0, 1]


@pytest.mark.property
@given(st.integers(1, 64), st.integers(1, 64))
def test_every_vanished_spool_is_fenced_by_its_owner_and_by_nobody_else(now, before):
    fenced = {spool: slot for slot in range(now) for spool in spools_to_fence(slot, now, before)}
    vanished = {spool_id_of(slot) for slot in range(now, before)}
    assert fenced.keys() == vanished
    assert all(owner_of_spool(spool, now) == slot for spool, slot in fenced.items())


def test_scaling_up_fences_nothing():
    assert spools_to_fence(0, 4, 2) == []
