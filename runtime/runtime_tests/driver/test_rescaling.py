"""Orders of a rescale: what is taken, what is refused, how it ends."""

import pytest

from headrace.clock import SystemClock
from headrace.driver.rescaling import RescalePhase, RescaleService, moved_key_groups
from headrace.errors import InvalidConfigError, RescaleFailedError


@pytest.fixture
def service():
    service = RescaleService(SystemClock(), parallelism=2, max_parallelism=8)
    service.generation_runs(running=True)
    return service


def test_an_order_waits_for_a_barrier(service):
    operation = service.order(4)
    assert service.waiting() == operation
    assert (operation.from_parallelism, operation.to_parallelism) == (2, 4)


@pytest.mark.parametrize("parallelism", [0, 9, -1])
def test_a_parallelism_out_of_range_is_refused(service, parallelism):
    with pytest.raises(InvalidConfigError, match="max_parallelism=8"):
        service.order(parallelism)
    assert service.operation() is None


def test_the_present_parallelism_is_refused(service):
    with pytest.raises(InvalidConfigError, match="already"):
        service.order(2)


def test_a_second_order_is_refused_until_the_first_has_ended(service):
    service.order(4)
    with pytest.raises(RescaleFailedError, match="under way"):
        service.order(3)
    service.failed("a slot went away")
    assert service.operation().phase is RescalePhase.FAILED
    assert service.order(3).from_parallelism == 2


def test_a_completed_rescale_is_where_the_next_one_starts(service):
    service.order(4)
    service.completed()
    assert service.order(8).from_parallelism == 4


def test_orders_are_refused_while_no_epochs_run(service):
    service.generation_runs(running=False)
    with pytest.raises(RescaleFailedError, match="does not run"):
        service.order(4)


def test_an_ended_rescale_does_not_fail_afterwards(service):
    service.order(4)
    service.completed()
    service.failed("too late")
    assert service.operation().phase is RescalePhase.COMPLETED


@pytest.mark.parametrize(
    ("groups", "old", "new", "moved"),
    [(128, 1, 2, 64), (128, 2, 4, 96), (128, 4, 3, 65), (8, 8, 8, 0), (10, 3, 4, 5)],
)
def test_only_key_groups_that_change_their_slot_move(groups, old, new, moved):
    assert moved_key_groups(groups, old, new) == moved
    assert moved_key_groups(groups, new, old) == moved
